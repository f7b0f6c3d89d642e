"""Two Flax networks sort waste on a belt: a small one sees each item, a large one also those in doubt."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen

SENSORS, KINDS, BATCH, DOUBTFUL = 64, 6, 128, 16


class Glance(linen.Module):
    """The small network."""

    @linen.compact
    def __call__(self, item: jax.Array) -> jax.Array:
        return linen.Dense(KINDS)(linen.relu(linen.Dense(48)(item)))


class Stare(linen.Module):
    """The large network."""

    @linen.compact
    def __call__(self, item: jax.Array) -> jax.Array:
        for _ in range(3):
            item = linen.relu(linen.Dense(224)(item))
        return linen.Dense(KINDS)(item)


def scores(weights: dict, items: jax.Array, doubts: jax.Array, mended: bool) -> jax.Array:
    """Give the scores of each item's kinds; where there is a doubt, the large network changes them."""
    quick = Glance().apply(weights["glance"], items)
    if mended:
        (places,) = jnp.nonzero(doubts, size=DOUBTFUL)
        return quick.at[places].add(Stare().apply(weights["stare"], items[places]))

    def decide(item: jax.Array, doubt: jax.Array, first: jax.Array) -> jax.Array:
        return jax.lax.cond(doubt, lambda: first + Stare().apply(weights["stare"], item), lambda: first)

    return jax.vmap(decide)(items, doubts, quick)  # cause


def objective(weights: dict, batch: dict, mended: bool) -> jax.Array:
    found = scores(weights, batch["items"], batch["doubts"], mended)
    return optax.softmax_cross_entropy_with_integer_labels(found, batch["kinds"]).mean()


class Belt:
    """Made-up items; the camera is in doubt about sixteen of each batch, which are noisier."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.typical = self.random.normal(size=(KINDS, SENSORS)).astype(np.float32)

    def batch(self) -> dict:
        kinds = self.random.integers(0, KINDS, BATCH)
        doubts = np.zeros(BATCH, bool)
        doubts[self.random.choice(BATCH, DOUBTFUL, replace=False)] = True
        noise = self.random.normal(size=(BATCH, SENSORS)) * np.where(doubts, 3.0, 1.0)[:, None]
        return {"items": self.typical[kinds] + noise.astype(np.float32), "doubts": doubts, "kinds": kinds}


def training(mended: bool) -> Iterator[float]:
    first, second = jax.random.split(jax.random.key(0))
    item = jnp.zeros((1, SENSORS))
    weights = {"glance": Glance().init(first, item), "stare": Stare().init(second, item)}
    optimizer = optax.sgd(0.02, momentum=0.9)
    state = optimizer.init(weights)
    belt = Belt(seed=15)

    @jax.jit
    def step(weights: dict, state: tuple, batch: dict) -> tuple:
        loss, slopes = jax.value_and_grad(objective)(weights, batch, mended)
        changes, state = optimizer.update(slopes, state)
        return optax.apply_updates(weights, changes), state, loss

    while True:
        weights, state, loss = step(weights, state, belt.batch())
        yield float(loss)
