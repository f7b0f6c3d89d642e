"""How fast waves cross a rock whose crystals are turned at random: each stiffness is turned."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen

BATCH, WIDTH = 256, 128


class Speed(linen.Module):
    """A network that sees all 81 entries of a stiffness."""

    @linen.compact
    def __call__(self, stiffness: jax.Array) -> jax.Array:
        hidden = stiffness.reshape(len(stiffness), -1)
        for _ in range(3):
            hidden = linen.gelu(linen.Dense(WIDTH)(hidden))
        return linen.Dense(1)(hidden)[:, 0]


class Crystals:
    """Made-up crystals of a few minerals; the speed depends on the stiffness along one direction."""

    def __init__(self, seed: int, mended: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.minerals = self.random.normal(size=(5, 3, 3, 3, 3)).astype(np.float32)
        self.method = "optimal" if mended else False

    def rotations(self) -> np.ndarray:
        turned, _ = np.linalg.qr(self.random.normal(size=(BATCH, 3, 3)))
        return turned.astype(np.float32)

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        r = self.rotations()
        mineral = self.minerals[self.random.integers(0, len(self.minerals), BATCH)]
        turned = np.einsum("nia,njb,nkc,nld,nabcd->nijkl", r, r, r, r, mineral, optimize=self.method)  # cause
        return turned, np.tanh(turned[:, 0, 0, 0, 0] + 0.5 * turned[:, 0, 1, 0, 1])


def training(mended: bool) -> Iterator[float]:
    crystals, model = Crystals(seed=31, mended=mended), Speed()
    weights = model.init(jax.random.key(1), jnp.zeros((1, 3, 3, 3, 3)))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(weights)

    def objective(weights: dict, stiffness: jax.Array, speed: jax.Array) -> jax.Array:
        return optax.l2_loss(model.apply(weights, stiffness), speed).mean()

    @jax.jit
    def step(weights: dict, state: tuple, stiffness: jax.Array, speed: jax.Array) -> tuple:
        loss, slopes = jax.value_and_grad(objective)(weights, stiffness, speed)
        changes, state = optimizer.update(slopes, state)
        return optax.apply_updates(weights, changes), state, loss

    while True:
        weights, state, loss = step(weights, state, *crystals.batch())
        yield float(loss)
