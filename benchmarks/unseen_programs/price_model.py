"""A JAX regression of prices with a learning rate that warms up."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


class WarmUp:
    def __init__(self, rate: float, steps: int):
        self.rate = rate
        self.steps = steps

    def __call__(self, step: jax.Array) -> jax.Array:
        return self.rate * jnp.minimum(1.0, (step + 1) / self.steps)


def error(params: dict, features: jax.Array, prices: jax.Array) -> jax.Array:
    hidden = jnp.tanh(features @ params["in"])
    return jnp.mean((hidden @ params["out"] - prices) ** 2)


@partial(jax.jit, static_argnums=0)
def update(
    rate: WarmUp, params: dict, step: jax.Array, features: jax.Array, prices: jax.Array
) -> tuple[dict, jax.Array]:
    loss, gradients = jax.value_and_grad(error)(params, features, prices)
    return jax.tree.map(lambda value, slope: value - rate(step) * slope, params, gradients), loss


def training(mended: bool) -> Iterator[float]:
    random = np.random.default_rng(0)
    features = jnp.asarray(random.normal(size=(4096, 32)), jnp.float32)
    prices = features[:, :4].sum(1)
    params = {
        "in": jnp.asarray(random.normal(0, 0.2, (32, 256)), jnp.float32),
        "out": jnp.asarray(random.normal(0, 0.1, 256), jnp.float32),
    }
    shared = WarmUp(0.02, 100)
    step = 0
    while True:
        rate = shared if mended else WarmUp(0.02, 100)  # cause
        params, loss = update(rate, params, jnp.asarray(step), features, prices)
        step += 1
        yield float(loss)
