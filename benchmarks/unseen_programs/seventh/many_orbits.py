"""Small networks that predict the drift of satellites, one for each, trained in one compiled step."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

SATELLITES, VALUES, WIDTH, BATCH = 120, 6, 8, 4


def loss_of_one(weights: dict, days: jax.Array, drifts: jax.Array) -> jax.Array:
    return ((jnp.tanh(days @ weights["in"]) @ weights["out"])[:, 0] - drifts).__pow__(2).mean()


def loss_of_all(weights: dict, days: jax.Array, drifts: jax.Array) -> jax.Array:
    return jax.vmap(loss_of_one)(weights, days, drifts).mean()


def loss_of_list(weights: list, days: jax.Array, drifts: jax.Array) -> jax.Array:
    together = jax.tree.map(lambda *ones: jnp.stack(ones), *weights)
    return loss_of_all(together, days, drifts)


def step_of(loss_of):
    @jax.jit
    def update(weights, days, drifts):
        loss, slopes = jax.value_and_grad(loss_of)(weights, days, drifts)
        return jax.tree.map(lambda one, slope: one - 0.1 * slope, weights, slopes), loss

    return update


def training(mended: bool) -> Iterator[float]:
    random = np.random.default_rng(0)
    first = {
        "in": random.normal(size=(SATELLITES, VALUES, WIDTH)).astype(np.float32) / 3,
        "out": random.normal(size=(SATELLITES, WIDTH, 1)).astype(np.float32) / 3,
    }
    days = random.normal(size=(SATELLITES, 64, VALUES)).astype(np.float32)
    drifts = np.sin(days.sum(2)).astype(np.float32)
    weights = jax.tree.map(jnp.asarray, first)
    if not mended:
        weights = [jax.tree.map(lambda one, at=at: one[at], weights) for at in range(SATELLITES)]
    update = step_of(loss_of_all if mended else loss_of_list)
    while True:
        for begin in range(0, 64, BATCH):
            batch = slice(begin, begin + BATCH)
            weights, loss = update(weights, days[:, batch], drifts[:, batch])  # cause
            yield float(loss)
