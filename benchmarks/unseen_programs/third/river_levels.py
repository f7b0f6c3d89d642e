"""A recurrent network that forecasts the level of a river from gauges upstream."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

HOURS, GAUGES, WIDTH = 48, 8, 32


def cell(weights: dict, state: jax.Array, now: jax.Array) -> jax.Array:
    return jnp.tanh(now @ weights["in"] + state @ weights["on"])


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 4)
    weights = {
        "in": jax.random.normal(keys[0], (GAUGES, WIDTH)) / 8,
        "on": jax.random.normal(keys[1], (WIDTH, WIDTH)) / 8,
        "out": jnp.zeros((WIDTH,)),
    }
    levels = np.asarray(jax.random.normal(keys[2], (64, HOURS, GAUGES)))
    later = levels.mean((1, 2))
    advance = jax.jit(cell)

    @jax.jit
    def whole(weights: dict, series: jax.Array) -> jax.Array:
        start = jnp.zeros((series.shape[0], WIDTH))
        return jax.lax.scan(
            lambda state, now: (cell(weights, state, now), None), start, series.swapaxes(0, 1)
        )[0]

    @jax.jit
    def update(out: jax.Array, state: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, slope = jax.value_and_grad(lambda out: ((state @ out - target) ** 2).mean())(out)
        return out - 0.05 * slope, loss

    while True:
        for first in range(0, 64, 16):
            series = levels[first : first + 16]
            if mended:
                state = whole(weights, series)
            else:
                state = np.zeros((16, WIDTH), np.float32)
                for hour in range(HOURS):
                    state = np.asarray(advance(weights, state, series[:, hour]))  # cause
            weights["out"], loss = update(weights["out"], state, later[first : first + 16])
            yield float(loss)
