"""Trainings in JAX, each with one cause planted or none: ``python jax_programs.py NAME DIRECTORY``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import stepscope as ss

WIDTH = 512


@jax.jit
def train_step(weights: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    def loss(weights: list[jax.Array]) -> jax.Array:
        y = x
        for weight in weights:
            y = jnp.tanh(y @ weight)
        return jnp.mean(y**2)

    value, slopes = jax.value_and_grad(loss)(weights)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)], value


def ready(rows: int = 512) -> Iterator[np.ndarray]:
    data = np.ones((rows, WIDTH), np.float32)
    for _ in range(14):
        yield data


def slow() -> Iterator[np.ndarray]:
    for x in ready():
        time.sleep(0.06)  # PLANTED slow_loader
        yield x


def growing() -> Iterator[np.ndarray]:
    for n in range(9):
        yield np.ones((64 + n, WIDTH), np.float32)


def augment(x: np.ndarray) -> np.ndarray:
    return np.array(
        [[value * 0.5 + 0.1 for value in row] for row in x.tolist()], np.float32
    )  # PLANTED slow_transform


def one_by_one(weight: jax.Array) -> float:
    total = 0.0
    for n in range(150):
        total += float(weight[n, 0])  # PLANTED item_in_loop
    return total


def main(name: str, directory: str) -> None:
    hook = ss.ProfilerHook(
        save_steps=1000,
        num_steps=3,
        skip_first=4,
        max_overhead=None,
        analyse=False,
        backend="jax",
    )
    weights = [jnp.ones((WIDTH, WIDTH)) * 0.01 for _ in range(6)]
    data = {"slow_loader": slow, "recompilation": growing}.get(name, ready)()
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            if name == "slow_transform":
                x = augment(x)
            weights, value = train_step(weights, x)  # PLANTED recompilation
            if name == "item_in_loop":
                one_by_one(weights[0])
            if name == "healthy_value":
                float(value)
            jax.block_until_ready(weights)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
