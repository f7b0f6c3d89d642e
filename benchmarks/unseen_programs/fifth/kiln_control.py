"""A search for the learning rate of a model that predicts the heat of a kiln."""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

VALUES, WIDTH = 12, 32


def loss_of(weights: dict, readings: jax.Array, heat: jax.Array) -> jax.Array:
    hidden = jnp.tanh(readings @ weights["first"])
    hidden = jnp.tanh(hidden @ weights["second"])
    return ((hidden @ weights["last"])[:, 0] - heat).__pow__(2).mean()


def update(rate: float, weights: dict, readings: jax.Array, heat: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, readings, heat)
    return jax.tree.map(lambda one, slope: one - rate * slope, weights, slopes), loss


shared = jax.jit(update)


def trainer(rate: float, mended: bool) -> Callable:
    return functools.partial(shared, rate) if mended else jax.jit(functools.partial(update, rate))  # cause


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = {"first": (VALUES, WIDTH), "second": (WIDTH, WIDTH), "last": (WIDTH, 1)}
    start = {
        name: jax.random.normal(key, shape) / 5
        for key, (name, shape) in zip(keys, shapes.items(), strict=False)
    }
    readings = jax.random.normal(keys[3], (256, VALUES))
    heat = jnp.sin(readings.sum(1))
    candidate = 0
    while True:
        candidate += 1
        step = trainer(0.2 / candidate, mended)
        weights = start
        for _ in range(20):
            weights, loss = step(weights, readings, heat)
        yield float(loss)
