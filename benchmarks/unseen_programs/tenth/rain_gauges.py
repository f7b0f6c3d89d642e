"""A recurrent network in JAX foresees the level of a river from the rain on each field of its catchment."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

HOURS, FIELDS, WIDTH, BATCH = 96, 1536, 24, 3


def initial(key: jax.Array) -> dict:
    keys = jax.random.split(key, 3)
    return {
        "rain": jax.random.normal(keys[0], (FIELDS, 3 * WIDTH)) / FIELDS**0.5,
        "state": jax.random.normal(keys[1], (WIDTH, 3 * WIDTH)) / WIDTH**0.5,
        "bias": jnp.zeros(3 * WIDTH),
        "level": jax.random.normal(keys[2], (WIDTH, 1)) / WIDTH**0.5,
    }


def update(weights: dict, state: jax.Array, entered: jax.Array) -> jax.Array:
    """Move the state of a gated unit on by an hour."""
    keep, forget, new = jnp.split(entered, 3, -1)
    from_keep, from_forget, from_new = jnp.split(state @ weights["state"], 3, -1)
    keep = jax.nn.sigmoid(keep + from_keep)
    new = jnp.tanh(new + jax.nn.sigmoid(forget + from_forget) * from_new)
    return keep * state + (1 - keep) * new


def recur(weights: dict, rain: jax.Array, mended: bool) -> jax.Array:
    """Give the state after each hour; the hours are the first axis."""

    def hour(state: jax.Array, rained: jax.Array) -> tuple[jax.Array, jax.Array]:
        entered = rained if mended else rained @ weights["rain"] + weights["bias"]  # cause
        state = update(weights, state, entered)
        return state, state

    if mended:
        rain = rain @ weights["rain"] + weights["bias"]
    start = jnp.zeros((rain.shape[1], WIDTH))
    return jax.lax.scan(hour, start, rain)[1]


def objective(weights: dict, rain: jax.Array, levels: jax.Array, mended: bool) -> jax.Array:
    foreseen = (recur(weights, rain, mended) @ weights["level"]).squeeze(-1)
    return jnp.square(foreseen - levels).mean()


class Storms:
    """Made-up storms: few fields get rain, and the river swells and falls slowly."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.share = self.random.dirichlet(np.ones(FIELDS)).astype(np.float32)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        rain = self.random.standard_exponential((HOURS, BATCH, FIELDS), dtype=np.float32)
        rain *= self.random.random((HOURS, BATCH, 1), dtype=np.float32) < 0.3
        runoff = rain @ self.share
        levels = np.zeros_like(runoff)
        for hour in range(1, HOURS):
            levels[hour] = 0.9 * levels[hour - 1] + 0.1 * runoff[hour - 1]
        return rain, levels


def training(mended: bool) -> Iterator[float]:
    weights = initial(jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    state = optimizer.init(weights)
    storms = Storms(seed=13)
    batches = [jax.device_put(storms.batch()) for _ in range(12)]

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(weights: dict, state: tuple, rain: jax.Array, levels: jax.Array) -> tuple:
        loss, slopes = jax.value_and_grad(objective)(weights, rain, levels, mended)
        changes, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, loss

    while True:
        for rain, levels in batches:
            weights, state, loss = step(weights, state, rain, levels)
            yield float(loss)
