"""A classifier of corals on reefs, which counts what it mistakes for what while it learns."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

VALUES, WIDTH, KINDS = 24, 64, 8


def scores_of(weights: dict, corals: jax.Array) -> jax.Array:
    return jnp.tanh(corals @ weights["in"]) @ weights["out"]


def loss_of(weights: dict, corals: jax.Array, kinds: jax.Array) -> tuple[jax.Array, jax.Array]:
    scores = scores_of(weights, corals)
    known = jnp.take_along_axis(jax.nn.log_softmax(scores), kinds[:, None], 1)
    return -known.mean(), scores.argmax(1)


@jax.jit
def update(weights: dict, corals: jax.Array, kinds: jax.Array) -> tuple[dict, jax.Array, jax.Array]:
    (loss, guesses), slopes = jax.value_and_grad(loss_of, has_aux=True)(weights, corals, kinds)
    return jax.tree.map(lambda one, slope: one - 0.1 * slope, weights, slopes), loss, guesses


def mistaken(guesses: jax.Array, kinds: jax.Array) -> jax.Array:
    rows = [
        [((guesses == guess) & (kinds == kind)).sum() for guess in range(KINDS)]  # cause
        for kind in range(KINDS)
    ]
    return jnp.array(rows)


together = jax.jit(mistaken)


def training(mended: bool) -> Iterator[float]:
    keys = jax.random.split(jax.random.key(0), 2)
    weights = {
        "in": jax.random.normal(keys[0], (VALUES, WIDTH)) / 5,
        "out": jax.random.normal(keys[1], (WIDTH, KINDS)) / 8,
    }
    random = np.random.default_rng(0)
    corals = random.standard_normal((1024, VALUES)).astype(np.float32)
    kinds = (corals @ random.standard_normal((VALUES, KINDS))).argmax(1)
    counts = jnp.zeros((KINDS, KINDS), jnp.int32)
    count = together if mended else mistaken
    while True:
        for first in range(0, 1024, 128):
            batch = slice(first, first + 128)
            weights, loss, guesses = update(weights, corals[batch], kinds[batch])
            counts = counts + count(guesses, kinds[batch])
            yield float(loss)
