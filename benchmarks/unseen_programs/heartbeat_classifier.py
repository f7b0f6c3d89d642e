"""A JAX classifier of heartbeats that are warped in time as they are drawn."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

LENGTH = 256


def host_warp(places: np.ndarray, signal: np.ndarray) -> np.ndarray:
    return np.interp(places, np.arange(LENGTH), signal).astype(np.float32)


def training(mended: bool) -> Iterator[float]:
    random = np.random.default_rng(0)
    beats = jnp.asarray(random.normal(size=(512, LENGTH)).cumsum(1) / 16, jnp.float32)
    kinds = jnp.asarray(random.integers(0, 4, 512))
    params = {
        "in": jnp.asarray(random.normal(0, 0.06, (LENGTH, 128)), jnp.float32),
        "out": jnp.asarray(random.normal(0, 0.08, (128, 4)), jnp.float32),
    }

    def warp(signal: jax.Array, bend: jax.Array) -> jax.Array:
        grid = jnp.arange(LENGTH, dtype=jnp.float32)
        places = grid + bend * jnp.sin(grid * jnp.pi / LENGTH)
        if mended:
            return jnp.interp(places, grid, signal)
        shape = jax.ShapeDtypeStruct((LENGTH,), jnp.float32)
        return jax.pure_callback(host_warp, shape, places, signal, vmap_method="sequential")  # cause

    def error(params: dict, signals: jax.Array, labels: jax.Array) -> jax.Array:
        scores = jax.nn.relu(signals @ params["in"]) @ params["out"]
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()

    @jax.jit
    def update(params: dict, chosen: jax.Array, bends: jax.Array) -> tuple[dict, jax.Array]:
        signals = jax.vmap(warp)(beats[chosen], bends)
        loss, gradients = jax.value_and_grad(error)(params, signals, kinds[chosen])
        return jax.tree.map(lambda value, slope: value - 0.05 * slope, params, gradients), loss

    while True:
        chosen = random.integers(0, 512, 64)
        bends = random.uniform(-8, 8, 64).astype(np.float32)
        params, loss = update(params, chosen, bends)
        yield float(loss)
