"""How a tunnel's lining bends: messages along the joints of its stones, each of which has six neighbours."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

RINGS, STONES, JOINTS, WIDTH, ROUNDS = 30, 16, 6, 32, 6
COUNT = RINGS * STONES


def joints() -> tuple[np.ndarray, np.ndarray]:
    """Give where each joint comes from and where it goes to, sorted by the latter."""
    ring, stone = np.divmod(np.arange(COUNT), STONES)
    moves = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)]
    sources = np.stack([(ring + a) % RINGS * STONES + (stone + b) % STONES for a, b in moves], 1)
    return sources.reshape(-1), np.repeat(np.arange(COUNT), JOINTS)


SOURCES, TARGETS = joints()


def start(seed: int) -> dict:
    random = np.random.default_rng(seed)

    def matrix(*shape: int) -> jax.Array:
        return jnp.asarray(random.normal(size=shape) / shape[-2] ** 0.5, jnp.float32)

    return {
        "enter": matrix(8, WIDTH),
        "rounds": [
            {"send": matrix(WIDTH, WIDTH), "keep": matrix(WIDTH, WIDTH), "shift": jnp.zeros(WIDTH)}
            for _ in range(ROUNDS)
        ],
        "leave": matrix(WIDTH, 1),
    }


def bending(weights: dict, loads: jax.Array) -> jax.Array:
    stones = loads @ weights["enter"]
    for matrices in weights["rounds"]:
        messages = jnp.tanh((stones @ matrices["send"])[SOURCES] + stones[TARGETS])
        arrived = messages.reshape(COUNT, JOINTS, WIDTH).mean(1)
        stones = jnp.tanh(stones @ matrices["keep"] + arrived + matrices["shift"])
    return (stones @ weights["leave"])[:, 0]


def loads(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Make up loads by soil and water; a stone bends if its neighbours carry more."""
    random = np.random.default_rng(seed)
    while True:
        load = random.normal(size=(COUNT, 8)).astype(np.float32)
        beside = load[SOURCES, 0].reshape(COUNT, JOINTS).mean(1)
        yield load, np.tanh(beside - load[:, 1])


def training(mended: bool) -> Iterator[float]:
    jax.config.update("jax_debug_nans", not mended)  # cause
    weights = start(seed=6)
    optimizer = optax.adam(2e-3)
    state = optimizer.init(weights)

    def objective(weights: dict, load: jax.Array, bends: jax.Array) -> jax.Array:
        return jnp.mean((bending(weights, load) - bends) ** 2)

    @jax.jit
    def step(weights: dict, state: tuple, load: jax.Array, bends: jax.Array) -> tuple:
        loss, slopes = jax.value_and_grad(objective)(weights, load, bends)
        changes, state = optimizer.update(slopes, state)
        return optax.apply_updates(weights, changes), state, loss

    for load, bends in loads(seed=14):
        weights, state, loss = step(weights, state, load, bends)
        yield float(loss)
