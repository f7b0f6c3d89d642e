"""How much algae a lake will have next week: a deep, narrow network with Flax NNX."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

MEASURED, WIDTH, DEPTH, BATCH = 16, 32, 24, 64


class Layer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.mix = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

    def __call__(self, water: jax.Array) -> jax.Array:
        return water + 0.3 * nnx.gelu(self.mix(self.norm(water)))


class Lake(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.enter = nnx.Linear(MEASURED, WIDTH, rngs=rngs)
        self.layers = nnx.List([Layer(rngs) for _ in range(DEPTH)])
        self.leave = nnx.Linear(WIDTH, 1, rngs=rngs)

    def __call__(self, water: jax.Array) -> jax.Array:
        water = self.enter(water)
        for layer in self.layers:
            water = layer(water)
        return self.leave(water)[:, 0]


def objective(model: Lake, water: jax.Array, algae: jax.Array) -> jax.Array:
    return jnp.mean((model(water) - algae) ** 2)


def learn(model: Lake, optimizer: nnx.Optimizer, water: jax.Array, algae: jax.Array) -> jax.Array:
    loss, slopes = nnx.value_and_grad(objective)(model, water, algae)
    optimizer.update(model, slopes)
    return loss


def compiled(model: Lake, optimizer: nnx.Optimizer, mended: bool) -> Callable:
    """Give a function that learns from a batch and gives the loss."""
    if not mended:
        step = nnx.jit(learn)
        return lambda *batch: step(model, optimizer, *batch)  # cause
    structure, state = nnx.split((model, optimizer))

    @jax.jit
    def pure(state: nnx.State, water: jax.Array, algae: jax.Array) -> tuple:
        both = nnx.merge(structure, state)
        loss = learn(*both, water, algae)
        return nnx.state(both), loss

    def advance(water: np.ndarray, algae: np.ndarray) -> jax.Array:
        nonlocal state
        state, loss = pure(state, water, algae)
        return loss

    return advance


def samples(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    grows = random.normal(size=MEASURED).astype(np.float32)
    while True:
        water = random.normal(size=(BATCH, MEASURED)).astype(np.float32)
        noise = random.normal(scale=0.1, size=BATCH).astype(np.float32)
        yield water, np.tanh(water @ grows) + noise


def training(mended: bool) -> Iterator[float]:
    model = Lake(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    step = compiled(model, optimizer, mended)
    for water, algae in samples(seed=21):
        yield float(step(water, algae))
