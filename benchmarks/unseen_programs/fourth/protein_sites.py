"""A network that marks the binding sites of proteins, which have different lengths."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

LONGEST, KINDS, WIDTH = 256, 20, 32


def marks(weights: dict, chain: jax.Array) -> jax.Array:
    hidden = weights["kinds"][chain]
    for layer in weights["layers"]:
        hidden = hidden + jnp.tanh(hidden @ layer)
    return hidden @ weights["out"]


def loss_of(weights: dict, chain: jax.Array, sites: jax.Array, known: jax.Array) -> jax.Array:
    scores = marks(weights, chain)
    losses = jnp.logaddexp(0, scores) - sites * scores
    return (losses * known).sum() / known.sum()


@jax.jit
def update(weights: dict, chain: jax.Array, sites: jax.Array, known: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, chain, sites, known)
    return jax.tree.map(lambda one, slope: one - 0.05 * slope, weights, slopes), loss


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 6)
    weights = {
        "kinds": jax.random.normal(keys[0], (KINDS + 1, WIDTH)).at[KINDS].set(0),
        "layers": [jax.random.normal(key, (WIDTH, WIDTH)) / 12 for key in keys[1:3]],
        "out": jnp.zeros((WIDTH,)),
    }
    numbers = np.random.default_rng(0)
    lengths = numbers.permutation(np.arange(40, LONGEST))
    while True:
        for length in lengths:
            chain = numbers.integers(0, KINDS, length)
            sites = (chain % 3 == 0).astype(np.float32)
            width = LONGEST if mended else length
            padded = np.pad(chain, (0, width - length), constant_values=KINDS)
            known = np.pad(np.ones(length, np.float32), (0, width - length))
            sites = np.pad(sites, (0, width - length))
            weights, loss = update(weights, padded, sites, known)  # cause
            yield float(loss)
