"""Trainings in JAX, a sixth set judged at first sight: ``python jax_sixth.py NAME DIRECTORY``."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stepscope as ss

ROWS, STEPS = 256, 12
Weights = list[dict[str, jax.Array]]
optimizer = optax.adamw(1e-3)


def made() -> Weights:
    sizes = [(128, 512), (512, 512), (512, 512), (512, 10)]
    keys = jax.random.split(jax.random.key(0), len(sizes))
    return [
        {"w": jax.random.normal(key, size) / size[0] ** 0.5, "b": jnp.zeros(size[1])}
        for key, size in zip(keys, sizes, strict=True)
    ]


def applied(weights: Weights, x: jax.Array) -> jax.Array:
    for layer in weights[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ weights[-1]["w"] + weights[-1]["b"]


def cost(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(applied(weights, x), y).mean()


def stepped(weights: Weights, state: Any, x: jax.Array, y: jax.Array) -> tuple[Weights, Any, jax.Array]:
    value, slopes = jax.value_and_grad(cost)(weights, x, y)
    changes, state = optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


train = jax.jit(stepped)
judge = jax.jit(cost)


@functools.partial(jax.jit, static_argnames="rate")
def at_a_rate(weights: Weights, slopes: Weights, rate: float) -> Weights:
    return jax.tree.map(lambda w, g: w - rate * g, weights, slopes)


def plain() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    x, y = np.random.rand(ROWS, 128).astype(np.float32), np.random.randint(0, 10, ROWS)
    for _ in range(STEPS):
        yield x, y


def bootstrapped() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches whose rows are drawn and jittered one by one."""
    everything = np.random.rand(5000, 128)
    for _ in range(STEPS):
        rows = []
        for _ in range(ROWS):
            row = everything[np.random.choice(5000, p=np.full(5000, 1 / 5000))]  # PLANTED bootstrapped
            rows.append(row + np.random.normal(0, 0.1, 128))
        yield np.array(rows, np.float32), np.random.randint(0, 10, ROWS)


def whitened(x: np.ndarray) -> np.ndarray:
    """Bring a batch to unit covariance, slowly."""
    for _ in range(4):
        values, vectors = np.linalg.eigh(np.cov(x.T) + 1e-3 * np.eye(128))
        x = x @ vectors / np.sqrt(values)  # PLANTED whitened
    return x.astype(np.float32)


def noted(weights: Weights, path: Path) -> None:
    """Write all weights of the last layer as text."""
    with path.open("a") as file:
        for row in np.asarray(weights[2]["w"]):
            file.write(",".join(map(str, row.tolist())) + "\n")  # PLANTED noted


def kept(weights: Weights, state: Any, path: Path) -> None:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves((weights, state))]
    np.savez(path, *arrays)  # PLANTED kept


def squashed(x: np.ndarray) -> np.ndarray:
    found = np.array(x)
    for n in range(len(found)):
        found[n] = np.sort(found[n]) * np.median(found[n])  # PLANTED called_back
    return found


@jax.jit
def through_python(x: jax.Array) -> jax.Array:
    return jax.pure_callback(squashed, jax.ShapeDtypeStruct(x.shape, x.dtype), x).sum()


def main(name: str, directory: str) -> None:
    weights = made()
    state = optimizer.init(weights)
    others = [next(plain()) for _ in range(6)]
    told: list[float] = []
    hook = ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for n, (x, y) in enumerate(run.steps(bootstrapped() if name == "bootstrapped" else plain())):
            if name == "whitened":
                x = whitened(x)
            weights, state, value = train(weights, state, x, y)
            if name == "warm_up":
                weights = at_a_rate(weights, weights, 1e-6 * (n + 1))  # PLANTED warm_up
            elif name == "noted":
                noted(weights, Path(directory, "weights.csv"))
            elif name == "kept":
                kept(weights, state, Path(directory, "kept.npz"))
            elif name == "judged":
                for a, b in others:
                    told.append(float(judge(weights, a, b)))  # PLANTED judged
            elif name == "paced":
                time.sleep(0.04)  # PLANTED paced
            elif name == "called_back":
                through_python(jnp.asarray(x)).block_until_ready()
            elif name == "unjitted":
                for _ in range(3):
                    jax.grad(cost)(weights, x, y)  # PLANTED unjitted
            elif name == "healthy_value":
                told.append(float(value))
            elif name == "healthy_recorded":
                run.scalar("train/loss", value)
            elif name == "healthy_norm" and n % 5 == 0:
                told.append(float(optax.global_norm(weights)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
