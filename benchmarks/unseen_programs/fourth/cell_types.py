"""An autoencoder of the genes that are active in single cells."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

GENES, WIDTH, CODE = 200, 64, 8


def loss_of(weights: dict, counts: jax.Array) -> jax.Array:
    cells = jnp.log1p(counts)
    code = jnp.tanh(cells @ weights["in"]) @ weights["code"]
    again = jnp.tanh(code @ weights["open"]) @ weights["out"]
    return ((again - cells) ** 2).mean()


@jax.jit
def update(weights: dict, counts: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, counts)
    return jax.tree.map(lambda one, slope: one - 0.05 * slope, weights, slopes), loss


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = {"in": (GENES, WIDTH), "code": (WIDTH, CODE), "open": (CODE, WIDTH), "out": (WIDTH, GENES)}
    weights = {
        name: jax.random.normal(key, shape) / 10
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    counts = np.random.default_rng(0).poisson(2.0, (1024, GENES)).astype(np.float32)
    rows = counts.tolist()
    while True:
        for first in range(0, 1024, 128):
            batch = slice(first, first + 128)
            cells = jnp.array(counts[batch] if mended else rows[batch])  # cause
            weights, loss = update(weights, cells)
            yield float(loss)
