"""Trainings in JAX, a fourth set judged at first sight: ``python jax_fourth.py NAME DIRECTORY``."""

from __future__ import annotations

import csv
import functools
import heapq
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stepscope as ss

SIZES, STEPS = (256, 640, 640, 256), 12
Weights = list[dict[str, jax.Array]]
optimizer = optax.adamw(1e-3)


def made() -> Weights:
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    shapes = zip(SIZES[:-1], SIZES[1:], strict=True)  # noqa: RUF007
    return [
        {"w": jax.random.normal(k, s) / s[0] ** 0.5, "b": jnp.zeros(s[1])}
        for k, s in zip(keys, shapes, strict=False)
    ]


def applied(weights: Weights, x: jax.Array) -> jax.Array:
    for layer in weights[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ weights[-1]["w"] + weights[-1]["b"]


def cost(weights: Weights, x: jax.Array) -> jax.Array:
    return jnp.square(applied(weights, x) - x).mean()


@jax.jit
def train(weights: Weights, state: optax.OptState, x: jax.Array) -> tuple[Weights, optax.OptState, jax.Array]:
    value, slopes = jax.value_and_grad(cost)(weights, x)
    changes, state = optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


@functools.partial(jax.jit, static_argnums=2)
def windowed(weights: Weights, x: jax.Array, length: int) -> jax.Array:
    return cost(weights, x[:, :length] @ jnp.ones((length, SIZES[0])))


reconstruct = jax.jit(applied)


def turned() -> Iterator[np.ndarray]:
    """Yield batches whose rows are rolled and mixed one by one."""
    for _ in range(STEPS):
        rows = []
        for n in range(384):
            row = np.roll(np.random.rand(SIZES[0]).astype(np.float32), n)
            rows.append(np.interp(np.linspace(0, 255, 256), np.arange(256), row)[::-1])  # PLANTED turned
        yield np.stack(rows).astype(np.float32)


def ready() -> Iterator[np.ndarray]:
    batch = np.random.rand(384, SIZES[0]).astype(np.float32)
    for _ in range(STEPS):
        yield batch


def routes(side: int = 70) -> int:
    """Walk a maze by Dijkstra's algorithm."""
    best, heap = {(0, 0): 0}, [(0, (0, 0))]
    while heap:
        paid, (a, b) = heapq.heappop(heap)
        for at in ((a + 1, b), (a, b + 1), (a - 1, b), (a, b - 1)):
            if 0 <= at[0] < side and 0 <= at[1] < side and paid + 1 < best.get(at, 10**9):
                best[at] = paid + 1
                heapq.heappush(heap, (paid + 1, at))  # PLANTED routes
    return len(best)


def fidelity(weights: Weights, held: list[np.ndarray]) -> float:
    errors = [jnp.abs(reconstruct(weights, x) - x).mean() for x in held]  # PLANTED fidelity
    return float(sum(errors) / len(errors))


def stored(weights: Weights, state: optax.OptState, path: Path) -> None:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((weights, state))]
    np.savez_compressed(path, *leaves)  # PLANTED stored


def tabled(x: np.ndarray, path: Path) -> None:
    with path.open("a", newline="") as file:
        csv.writer(file).writerows([f"{v:.4f}" for v in row] for row in x)  # PLANTED tabled


def main(name: str, directory: str) -> None:
    weights = made()
    state = optimizer.init(weights)
    held = [np.random.rand(1024, SIZES[0]).astype(np.float32) for _ in range(2)]
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(turned() if name == "turned" else ready())):
            weights, state, value = train(weights, state, x)
            jax.block_until_ready(value)
            if name == "routes":
                routes()
            elif name == "fidelity":
                fidelity(weights, held)
            elif name == "stored":
                stored(weights, state, Path(directory, "all.npz"))
            elif name == "tabled":
                tabled(x, Path(directory, "batch.csv"))
            elif name == "windows":
                windowed(weights, x, 200 - n).block_until_ready()  # PLANTED windows
            elif name == "polite":
                time.sleep(0.04)  # PLANTED polite
            elif name == "healthy_told":
                run.scalars({"loss": value, "rate": 1e-3})
            elif name == "healthy_checked":
                assert float(value) < 1e6


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
