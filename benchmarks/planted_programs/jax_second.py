"""Trainings in JAX, a second set judged at first sight: ``python jax_second.py NAME DIRECTORY``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import io_callback

import stepscope as ss

ROWS, WIDTH, STEPS = 192, 448, 12
Weights = dict[str, jax.Array]
optimizer = optax.adam(1e-4)


def model(weights: Weights, x: jax.Array) -> jax.Array:
    for weight in weights.values():
        x = jax.nn.silu(x @ weight)
    return x


def loss(weights: Weights, x: jax.Array) -> jax.Array:
    return jnp.mean((model(weights, x) - 1) ** 2)


@jax.jit
def update(weights: Weights, state: optax.OptState, x: jax.Array) -> tuple[Weights, optax.OptState]:
    changes, state = optimizer.update(jax.grad(loss)(weights, x), state)
    return optax.apply_updates(weights, changes), state


def parsed() -> Iterator[np.ndarray]:
    lines = [" ".join(str(n * 0.25) for n in range(WIDTH))] * ROWS
    for _ in range(STEPS):
        yield np.array([[float(one) for one in line.split()] for line in lines], "f4")  # PLANTED parsed


def plain() -> Iterator[np.ndarray]:
    for _ in range(STEPS):
        yield np.ones((ROWS, WIDTH), np.float32)


def kept(value: np.ndarray) -> None:
    with Path(sys.argv[2], "values").open("w") as file:
        file.write("\n".join(repr(float(one)) for one in value.ravel()))  # PLANTED written_callback


@jax.jit
def watched(weights: Weights, x: jax.Array) -> jax.Array:
    out = model(weights, x)
    io_callback(kept, None, out, ordered=True)
    return out.mean()


def decomposed(weights: Weights) -> list[np.ndarray]:
    return [np.linalg.eigvals(np.asarray(each)[:160, :160]) for each in weights.values()]  # PLANTED spectra


def unrolled(weights: Weights, x: jax.Array) -> jax.Array:
    state = jnp.zeros(WIDTH)
    for row in range(160):
        state = jnp.tanh(state + x[row] * 0.5)  # PLANTED unrolled
    return state


def evaluate(weights: Weights, held: list[np.ndarray]) -> float:
    return sum(float(jitted_loss(weights, each)) for each in held)  # PLANTED held_out


jitted_loss = jax.jit(loss)


def wait_for(lock: threading.Lock) -> None:
    with lock:  # PLANTED locked
        pass


def holding(lock: threading.Lock) -> None:
    while True:
        with lock:
            time.sleep(0.06)
        time.sleep(0.001)


@jax.jit
def accumulated(weights: Weights, state: optax.OptState, x: jax.Array) -> tuple[Weights, optax.OptState]:
    parts = x.reshape(4, -1, WIDTH)
    slopes = jax.lax.map(lambda part: jax.grad(loss)(weights, part), parts)
    changes, state = optimizer.update(jax.tree.map(lambda each: each.mean(0), slopes), state)
    return optax.apply_updates(weights, changes), state


def main(name: str, directory: str) -> None:
    weights = {str(n): jnp.eye(WIDTH) * 0.5 for n in range(5)}
    state = optimizer.init(weights)
    lock = threading.Lock()
    if name == "locked":
        threading.Thread(target=holding, args=(lock,), daemon=True).start()
    held = [np.ones((ROWS * 4, WIDTH), np.float32) for _ in range(3)]
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(parsed() if name == "parsed" else plain())):
            if name == "locked":  # before anything is dispatched that could run meanwhile
                wait_for(lock)
            if name == "healthy_parts":
                weights, state = accumulated(weights, state, x)
            else:
                weights, state = update(weights, state, x)
            if name == "written_callback":
                watched(weights, x).block_until_ready()
            elif name == "spectra":
                decomposed(weights)
            elif name == "unrolled":
                for _ in range(2):
                    unrolled(weights, x).block_until_ready()
            elif name == "held_out":
                evaluate(weights, held)
            elif name == "new_keys":
                extra = {f"{n}-{k}": x[:8] for k in range(n + 1)}
                jax.jit(lambda w: jax.tree.map(jnp.tanh, w))(extra)  # PLANTED new_keys
            elif name == "saved_arrays":
                np.savez(f"{directory}/weights.npz", **{k: np.asarray(v) for k, v in weights.items()},
                         adam=np.zeros(4_000_000))  # PLANTED saved_arrays  # fmt: skip
            elif name == "leaf_norms":
                for _ in range(20):
                    [float(jnp.abs(each[0]).max()) for each in weights.values()]  # PLANTED leaf_norms
            elif name == "healthy_loss":
                run.scalar("loss", float(jitted_loss(weights, x)))
            jax.block_until_ready(weights)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
