"""A network that moves the joints of an arm so that its hand reaches a point."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

JOINTS, WIDTH, BATCH = 7, 48, 64


def hand_of(angles: jax.Array) -> jax.Array:
    place, turned = jnp.zeros((len(angles), 2)), jnp.zeros(len(angles))
    for joint in range(JOINTS):
        turned = turned + angles[:, joint]
        place = place + jnp.stack([jnp.cos(turned), jnp.sin(turned)], 1) / JOINTS
    return place


@jax.jit
def loss_of(weights: dict, points: jax.Array) -> jax.Array:
    hidden = jnp.tanh(points @ weights["in"] + weights["bias"])
    return jnp.square(hand_of(hidden @ weights["out"]) - points).sum(1).mean()


def move(weights: dict, points: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, points)
    return jax.tree.map(lambda one, slope: one - 0.1 * slope, weights, slopes), loss


def training(mended: bool) -> Iterator[float]:
    random = np.random.default_rng(0)
    weights = {
        "in": jnp.asarray(random.normal(size=(2, WIDTH)), jnp.float32),
        "bias": jnp.zeros(WIDTH),
        "out": jnp.asarray(random.normal(size=(WIDTH, JOINTS)) / 7, jnp.float32),
    }
    update = jax.jit(move) if mended else move
    while True:
        points = random.uniform(-0.6, 0.6, (BATCH, 2)).astype(np.float32)
        weights, loss = update(weights, points)  # cause
        yield float(loss)
