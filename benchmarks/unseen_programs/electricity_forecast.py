"""A JAX network that forecasts a day of electricity demand from the week before."""

from collections.abc import Iterator
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np


def predict(params: list, windows: jax.Array) -> jax.Array:
    for weight, bias in params[:-1]:
        windows = jnp.tanh(windows @ weight + bias)
    weight, bias = params[-1]
    return windows @ weight + bias


def error(params: list, windows: jax.Array, days: jax.Array) -> jax.Array:
    return jnp.mean((predict(params, windows) - days) ** 2)


@jax.jit
def update(params: list, windows: jax.Array, days: jax.Array) -> tuple[list, jax.Array]:
    loss, gradients = jax.value_and_grad(error)(params, windows, days)
    return jax.tree.map(lambda value, slope: value - 0.05 * slope, params, gradients), loss


def training(mended: bool) -> Iterator[float]:
    jax.config.update("jax_enable_x64", not mended)  # cause
    random = np.random.default_rng(0)
    hours = np.arange(24 * 400)
    demand = np.sin(hours * 2 * np.pi / 24) + random.normal(0, 0.3, len(hours))
    sizes = [168, 512, 512, 24]
    params = [
        (jnp.asarray(random.normal(0, ins**-0.5, (ins, outs))), jnp.zeros(outs))
        for ins, outs in pairwise(sizes)
    ]
    while True:
        starts = random.integers(0, len(hours) - 192, 256)
        rows = demand[starts[:, None] + np.arange(192)]
        params, loss = update(params, jnp.asarray(rows[:, :168]), jnp.asarray(rows[:, 168:]))
        yield float(loss)
