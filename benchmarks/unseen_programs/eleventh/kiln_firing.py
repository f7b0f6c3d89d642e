"""How hard a tile becomes in the kiln, from the curve of its temperature; plain JAX and optax."""

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

MOMENTS, WIDTH, BATCH = 128, 320, 192


def start(seed: int) -> list[dict]:
    random = np.random.default_rng(seed)
    sizes = [MOMENTS, WIDTH, WIDTH, 1]
    return [
        {"w": jnp.asarray(random.normal(size=(a, b)) / a**0.5, jnp.float32), "b": jnp.zeros(b)}
        for a, b in itertools.pairwise(sizes)
    ]


def hardness(weights: list[dict], curve: jax.Array) -> jax.Array:
    """Give the hardness of one tile."""
    *layers, last = weights
    for layer in layers:
        curve = jnp.tanh(curve @ layer["w"] + layer["b"])
    return (curve @ last["w"] + last["b"])[0]


def miss(weights: list[dict], curve: jax.Array, hard: jax.Array) -> jax.Array:
    return optax.huber_loss(hardness(weights, curve), hard)


def slopes_of(weights: list[dict], curves: jax.Array, hard: jax.Array, mended: bool) -> tuple:
    """Give the mean loss of a batch and its slopes."""
    if mended:

        def mean(weights: list[dict]) -> jax.Array:
            return jax.vmap(miss, (None, 0, 0))(weights, curves, hard).mean()

        return jax.value_and_grad(mean)(weights)
    losses, slopes = jax.vmap(jax.value_and_grad(miss), (None, 0, 0))(weights, curves, hard)  # cause
    return losses.mean(), jax.tree.map(lambda each: each.mean(0), slopes)


class Kiln:
    """Made-up firings: tiles are hard if the kiln stays hot in the second half."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.matters = np.where(np.arange(MOMENTS) > MOMENTS // 2, 0.3, -0.05)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        curves = self.random.normal(size=(BATCH, MOMENTS)).cumsum(1) / MOMENTS**0.5
        hard = np.tanh(curves @ self.matters / 5)
        return curves.astype(np.float32), hard.astype(np.float32)


def training(mended: bool) -> Iterator[float]:
    weights = start(seed=2)
    optimizer = optax.adamw(1e-3)
    state = optimizer.init(weights)
    kiln = Kiln(seed=7)

    @jax.jit
    def step(weights: list[dict], state: tuple, curves: jax.Array, hard: jax.Array) -> tuple:
        loss, slopes = slopes_of(weights, curves, hard, mended)
        changes, state = optimizer.update(slopes, state, weights)
        return optax.apply_updates(weights, changes), state, loss

    while True:
        weights, state, loss = step(weights, state, *kiln.batch())
        yield float(loss)
