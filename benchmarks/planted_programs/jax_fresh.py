"""Trainings in JAX, written after the rules and judged once: ``python jax_fresh.py NAME DIRECTORY``."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import stepscope as ss

ROWS, WIDTH, STEPS = 256, 512, 12
Weights = list[jax.Array]
seen: list[float] = []


def forward(weights: Weights, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return x


def plain_step(weights: Weights, x: jax.Array) -> Weights:
    slopes = jax.grad(lambda w: jnp.mean(forward(w, x) ** 2))(weights)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]


step = jax.jit(plain_step)


def remember(value: jax.Array) -> None:
    order = sorted(np.asarray(value).ravel().tolist())  # PLANTED debug_callback
    seen.append(order[0])


@jax.jit
def told_step(weights: Weights, x: jax.Array) -> Weights:
    jax.debug.callback(remember, forward(weights, x))
    return plain_step(weights, x)


def unpacked(slow: bool) -> Iterator[np.ndarray]:
    packed = zlib.compress(
        np.random.default_rng(0).integers(0, 9, (ROWS, WIDTH * 16)).astype("f4").tobytes(), 1
    )
    for _ in range(STEPS):
        if slow:
            raw = zlib.decompress(packed)  # PLANTED unpacking
            yield np.frombuffer(raw, np.float32).reshape(ROWS, -1)[:, :WIDTH]
        else:
            yield np.ones((ROWS, WIDTH), np.float32)


@jax.jit
def scanned(weights: Weights, x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda state, _: (forward(weights, state), None), x, None, length=4)[0].mean()


def main(name: str, directory: str) -> None:
    weights = [jnp.ones((WIDTH, WIDTH)) * 0.01 for _ in range(5)]
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(unpacked(name == "unpacking"))):
            if name == "batch_sizes":
                weights = step(weights, x[: ROWS - 8 * n])  # PLANTED batch_sizes
            elif name == "forgot_jit":
                for _ in range(4):
                    weights = plain_step(weights, x[:8])  # PLANTED forgot_jit
            elif name == "debug_callback":
                weights = told_step(weights, x)
            elif name == "healthy_scan":
                run.scalar("mean", float(scanned(weights, x)))
            else:
                weights = step(weights, x)
            if name == "values_one_by_one":
                row = forward(weights, x[:1])[0]
                seen.append(max(float(row[k]) for k in range(200)))  # PLANTED values_one_by_one
            jax.block_until_ready(weights)
            if name == "healthy_metrics":
                run.scalar("norm", float(jnp.linalg.norm(weights[0])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
