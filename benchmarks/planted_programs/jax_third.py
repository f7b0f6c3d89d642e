"""Trainings in JAX, a third set judged at first sight: ``python jax_third.py NAME DIRECTORY``."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import stepscope as ss

ROWS, WIDTH, STEPS = 160, 384, 12


class Net(nnx.Module):
    """A residual network."""

    def __init__(self, depth: int = 5) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(WIDTH, WIDTH, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the last layer's values."""
        for layer in self.layers:
            x = x + nnx.gelu(layer(self.norm(x)))
        return x


def mean_error(net: Net, x: jax.Array) -> jax.Array:
    return jnp.mean(jnp.abs(net(x) - 1))


@nnx.jit
def update(net: Net, optimizer: nnx.Optimizer, x: jax.Array) -> jax.Array:
    value, slopes = nnx.value_and_grad(mean_error)(net, x)
    optimizer.update(net, slopes)
    return value


@nnx.jit
def error(net: Net, x: jax.Array) -> jax.Array:
    return mean_error(net, x)


class Sentences:
    """Batches that are drawn word by word."""

    def __init__(self) -> None:
        self.vocabulary = [f"word{n}" for n in range(2000)]

    def __iter__(self) -> Iterator[np.ndarray]:
        index = {word: n for n, word in enumerate(self.vocabulary)}
        for _ in range(STEPS):
            rows = [random.choices(self.vocabulary, k=WIDTH) for _ in range(ROWS)]  # PLANTED sentences
            yield np.array([[index[word] for word in row] for row in rows], np.float32) / 2000


class Shuffled:
    """Batches of a table that is shuffled anew each time."""

    def __iter__(self) -> Iterator[np.ndarray]:
        table = np.ones((ROWS * 60, WIDTH), np.float32)
        for _ in range(STEPS):
            yield table[np.random.permutation(len(table))][:ROWS]  # PLANTED shuffled


def ready() -> Iterator[np.ndarray]:
    yield from (np.ones((ROWS, WIDTH), np.float32) for _ in range(STEPS))


def ranked(x: np.ndarray) -> np.ndarray:
    for _ in range(12):
        order = np.sort(x, axis=1)  # PLANTED pure_callback
    return order.astype(np.float32)


@jax.jit
def through_numpy(x: jax.Array) -> jax.Array:
    return jax.pure_callback(ranked, jax.ShapeDtypeStruct(x.shape, x.dtype), x * jnp.arange(WIDTH) % 7).mean()


def clipped(slopes: Any) -> Any:
    """Clip each leaf by hand, without ``jit``."""
    for _ in range(6):
        slopes = jax.tree.map(
            lambda g: g * jnp.minimum(1.0, 1.0 / (jnp.linalg.norm(g) + 1e-6)), slopes
        )  # PLANTED clipped
    return slopes


def dumped(net: Net, path: Path) -> None:
    state = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(net)))
    with path.open("wb") as file:
        for _ in range(6):
            pickle.dump(state, file)  # PLANTED dumped


def told(net: Net, path: Path) -> None:
    kernel = np.asarray(net.layers[0].kernel[...])
    path.write_text(json.dumps(kernel[:200].tolist()))  # PLANTED told


def recorded(seen: list[float], x: np.ndarray) -> None:
    for row in x:
        for value in row.tolist():
            seen.append(0.9 * seen[-1] + 0.1 * value if seen else value)  # PLANTED recorded


def validated(net: Net, held: list[np.ndarray]) -> float:
    total = 0.0
    for x in held:
        total += float(error(net, x))  # PLANTED validated
    return total


def main(name: str, directory: str) -> None:
    net = Net()
    optimizer = nnx.Optimizer(net, optax.adamw(1e-4), wrt=nnx.Param)
    held = [np.ones((ROWS * 4, WIDTH), np.float32) for _ in range(3)]
    seen: list[float] = []
    data = {"sentences": Sentences, "shuffled": Shuffled}.get(name, ready)()
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(data)):
            if name == "ragged":
                x = x[: ROWS - 5 * n]
            loss = update(net, optimizer, x)  # PLANTED ragged
            if name == "pure_callback":
                through_numpy(jnp.asarray(x)).block_until_ready()
            elif name == "clipped":
                clipped(nnx.to_pure_dict(nnx.state(net)))
            elif name == "dumped":
                dumped(net, Path(directory, "net.pickle"))
            elif name == "told":
                told(net, Path(directory, "kernel.json"))
            elif name == "recorded":
                recorded(seen, x)
            elif name == "validated":
                validated(net, held)
            elif name == "commanded":
                subprocess.run(
                    [sys.executable, "-S", "-c", "import time; time.sleep(0.08)"], check=True
                )  # PLANTED commanded
            elif name == "healthy_value":
                run.scalar("loss", float(loss))
            elif name == "healthy_seldom" and n % 10 == 9:
                validated(net, held)
            if name != "healthy_ahead":
                loss.block_until_ready()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
