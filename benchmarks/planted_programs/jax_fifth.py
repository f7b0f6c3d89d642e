"""Trainings in JAX, a fifth set judged at first sight: ``python jax_fifth.py NAME DIRECTORY``."""

from __future__ import annotations

import json
import pickle
import queue
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stepscope as ss

WIDE, ROWS, STEPS = 640, 384, 12
Weights = dict[str, jax.Array]
optimizer = optax.adam(1e-3)


def made() -> Weights:
    first, second, third = jax.random.split(jax.random.key(1), 3)
    return {
        "a": jax.random.normal(first, (256, WIDE)) / 16,
        "b": jax.random.normal(second, (WIDE, WIDE)) / 25,
        "c": jax.random.normal(third, (WIDE, 32)) / 25,
    }


def applied(weights: Weights, x: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.tanh(x @ weights["a"]) @ weights["b"]) @ weights["c"]


def cost(weights: Weights, x: jax.Array) -> jax.Array:
    return jnp.square(applied(weights, x)).mean()


def stepped(
    weights: Weights, state: optax.OptState, x: jax.Array
) -> tuple[Weights, optax.OptState, jax.Array]:
    value, slopes = jax.value_and_grad(cost)(weights, x)
    changes, state = optimizer.update(slopes, state, weights)
    return optax.apply_updates(weights, changes), state, value


train = jax.jit(stepped)
saving = jax.jit(jax.grad(jax.checkpoint(cost)))
judge = jax.jit(lambda weights, x: jnp.argmax(applied(weights, x), 1))


@jax.jit
def in_parts(weights: Weights, x: jax.Array) -> jax.Array:
    parts = x.reshape(4, -1, 256)
    return jax.lax.scan(lambda total, part: (total + cost(weights, part), None), 0.0, parts)[0]


@jax.jit
def grown(weights: Weights, x: jax.Array) -> jax.Array:
    return cost(weights, jnp.pad(x, ((0, 0), (0, 256 - x.shape[1]))))


def ready() -> Iterator[np.ndarray]:
    batch = np.random.rand(ROWS, 256).astype(np.float32)
    for _ in range(STEPS):
        yield batch


def decoded() -> Iterator[np.ndarray]:
    """Yield batches that are stored as compressed text."""
    text = zlib.compress(json.dumps(np.random.rand(ROWS, 256).round(4).tolist()).encode())
    for _ in range(STEPS):
        yield np.array(json.loads(zlib.decompress(text)), np.float32)  # PLANTED decoded


def mixed(x: np.ndarray) -> np.ndarray:
    rows = np.empty_like(x)
    for n in range(len(x)):
        other, part = np.random.randint(len(x)), np.random.beta(0.4, 0.4)
        rows[n] = part * x[n] + (1 - part) * np.sort(x[other])[::-1]
        rows[n] = np.convolve(rows[n], [0.25, 0.5, 0.25], "same")  # PLANTED mixed
    return rows


def kept(weights: Weights, state: optax.OptState, path: Path) -> None:
    with path.open("wb") as file:
        pickle.dump(jax.device_get((weights, state)), file)  # PLANTED kept


def benchmark(weights: Weights, others: list[np.ndarray]) -> float:
    same = [np.asarray(judge(weights, x)) for x in others]  # PLANTED benchmark
    return float(np.mean([kinds.std() for kinds in same]))


def outputs_as_text(weights: Weights, x: np.ndarray, path: Path) -> None:
    with path.open("a") as file:
        for row in np.asarray(applied(weights, x)).tolist():
            file.write(" ".join(f"{value:.5f}" for value in row) + "\n")  # PLANTED outputs_as_text


def naive(weights: Weights, x: jax.Array) -> jax.Array:
    total = jnp.zeros(())
    for n in range(0, 256, 2):
        total = total + jnp.abs(x[:, n] - x[:, n + 1]).mean() * 0.1  # PLANTED naive
    return total


def ahead(source: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    held: queue.Queue[np.ndarray | None] = queue.Queue(4)

    def work() -> None:
        for each in source:
            held.put(each)
        held.put(None)

    threading.Thread(target=work, daemon=True).start()
    while (each := held.get()) is not None:
        yield each


def main(name: str, directory: str) -> None:
    weights = made()
    state = optimizer.init(weights)
    others = [np.random.rand(1024, 256).astype(np.float32) for _ in range(4)]
    source = decoded() if name == "decoded" else ahead(ready()) if name == "healthy_ahead" else ready()
    told: list[float] = []
    bell = threading.Event()
    hook = ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(source)):
            if name == "mixed":
                x = mixed(x)
            weights, state, value = train(weights, state, x)
            if name == "longer":
                grown(weights, x[:, : 100 + 9 * n]).block_until_ready()  # PLANTED longer
            elif name == "kept":
                kept(weights, state, Path(directory, "all.pickle"))
            elif name == "benchmark":
                benchmark(weights, others)
            elif name == "outputs_as_text":
                outputs_as_text(weights, x, Path(directory, "outputs.txt"))
            elif name == "naive":
                naive(weights, x)
            elif name == "waiting":
                bell.wait(0.05)  # PLANTED waiting
            elif name == "healthy_value":
                told.append(float(value))
            elif name == "healthy_waited":
                jax.block_until_ready(weights)
            elif name == "healthy_parts":
                in_parts(weights, x)
            elif name == "healthy_recomputed":
                saving(weights, x)
            elif name == "healthy_scalar":
                run.scalar("loss", value)
            elif name == "healthy_norm":
                told.append(optax.global_norm(weights))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
