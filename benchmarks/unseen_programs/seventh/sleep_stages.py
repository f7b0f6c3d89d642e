"""A network that tells the stages of sleep from windows of a night's brain waves."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

NIGHT, LENGTH, WINDOWS, WIDTH, STAGES = 40_000, 300, 48, 32, 5


def loss_of(weights: dict, windows: jax.Array, stages: jax.Array) -> jax.Array:
    seen = jnp.tanh(windows @ weights["in"])
    scores = jax.nn.log_softmax(seen @ weights["out"])
    return -jnp.take_along_axis(scores, stages[:, None], 1).mean()


@jax.jit
def update(weights: dict, windows: jax.Array, stages: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, windows, stages)
    return jax.tree.map(lambda one, slope: one - 0.05 * slope, weights, slopes), loss


def windows_of(night: jax.Array, starts: np.ndarray) -> jax.Array:
    return jnp.stack([night[start : start + LENGTH] for start in starts.tolist()])  # cause


@jax.jit
def windows_at_once(night: jax.Array, starts: jax.Array) -> jax.Array:
    return night[starts[:, None] + jnp.arange(LENGTH)]


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 2)
    weights = {
        "in": jax.random.normal(keys[0], (LENGTH, WIDTH)) / 20,
        "out": jax.random.normal(keys[1], (WIDTH, STAGES)) / 6,
    }
    random = np.random.default_rng(0)
    waves = np.convolve(random.standard_normal(NIGHT), np.ones(20) / 20, "same").astype(np.float32)
    stages = (np.arange(NIGHT) // 3000) % STAGES
    night = jnp.asarray(waves)
    cut = windows_at_once if mended else windows_of
    while True:
        starts = random.integers(0, NIGHT - LENGTH, WINDOWS)
        weights, loss = update(weights, cut(night, starts), jnp.asarray(stages[starts]))
        yield float(loss)
