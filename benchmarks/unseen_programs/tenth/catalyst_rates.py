"""A small network learns the rate of a reaction, by steps that are scaled with the curvature (AdaHessian)."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

CONDITIONS, WIDTH, BATCH = 6, 16, 64


class Curvature(NamedTuple):
    """Running means of the slopes and of the squares of the curvature, and the number of steps."""

    slopes: jax.Array
    squares: jax.Array
    count: jax.Array


def initial(key: jax.Array) -> list[dict]:
    sizes = [CONDITIONS, WIDTH, WIDTH, 1]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"weight": jax.random.normal(one, (inputs, outputs)) / inputs**0.5, "bias": jnp.zeros(outputs)}
        for one, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def rates(layers: list[dict], conditions: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        conditions = jnp.tanh(conditions @ layer["weight"] + layer["bias"])
    return (conditions @ layers[-1]["weight"] + layers[-1]["bias"]).squeeze(-1)


def along(loss: Callable, flat: jax.Array, signs: jax.Array, mended: bool) -> jax.Array:
    """Give the change of the slopes along a direction: the Hessian times the direction."""
    if mended:
        return jax.jvp(jax.grad(loss), (flat,), (signs,))[1]
    return jax.hessian(loss)(flat) @ signs  # cause


def scaled(state: Curvature, slopes: jax.Array, diagonal: jax.Array) -> tuple[jax.Array, Curvature]:
    """Give the change of the weights, as Adam does, but with the curvature for the slopes' squares."""
    count = state.count + 1
    means = 0.9 * state.slopes + 0.1 * slopes
    squares = 0.999 * state.squares + 0.001 * diagonal**2
    size = jnp.sqrt(squares / (1 - 0.999**count)) + 1e-2
    return -0.02 * means / (1 - 0.9**count) / size, Curvature(means, squares, count)


class Laboratory:
    """Made-up measurements: Arrhenius' law with a little noise."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        conditions = self.random.uniform(-1, 1, (BATCH, CONDITIONS)).astype(np.float32)
        heat, pressure = conditions[:, 0], conditions[:, 1:3].sum(1)
        rate = np.exp(-1 / (1.5 + heat)) * (1 + 0.5 * pressure) + self.random.normal(scale=0.02, size=BATCH)
        return conditions, rate.astype(np.float32)


def training(mended: bool) -> Iterator[float]:
    flat, shaped = ravel_pytree(initial(jax.random.key(0)))
    state = Curvature(jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.zeros((), jnp.int32))
    laboratory = Laboratory(seed=14)

    @jax.jit
    def step(
        flat: jax.Array, state: Curvature, key: jax.Array, conditions: jax.Array, rate: jax.Array
    ) -> tuple:
        def loss(flat: jax.Array) -> jax.Array:
            return optax.huber_loss(rates(shaped(flat), conditions), rate).mean()

        signs = jax.random.rademacher(key, flat.shape, flat.dtype)
        value, slopes = jax.value_and_grad(loss)(flat)
        change, state = scaled(state, slopes, signs * along(loss, flat, signs, mended))
        return flat + change, state, value

    key = jax.random.key(1)
    while True:
        key, one = jax.random.split(key)
        flat, state, value = step(flat, state, one, *laboratory.batch())
        yield float(value)
