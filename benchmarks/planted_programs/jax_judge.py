"""Trainings in JAX, unseen by the rules when written: ``python jax_judge.py NAME DIRECTORY``."""

from __future__ import annotations

import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import stepscope as ss

WIDTH = 512
Weights = list[jax.Array]


def loss_of(weights: Weights, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = jax.nn.gelu(x @ weight)
    return jnp.mean(x**2)


@jax.jit
def update(weights: Weights, x: jax.Array) -> tuple[Weights, jax.Array]:
    value, slopes = jax.value_and_grad(loss_of)(weights, x)
    return [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)], value


@partial(jax.jit, static_argnums=2)
def scaled(weights: Weights, x: jax.Array, scale: float) -> jax.Array:
    return loss_of(weights, x) * scale


def slow_host(x: np.ndarray) -> np.ndarray:
    end = time.perf_counter() + 0.08
    while time.perf_counter() < end:  # PLANTED host_callback
        pass
    return np.asarray(x)


@jax.jit
def with_callback(weights: Weights, x: jax.Array) -> jax.Array:
    return jax.pure_callback(slow_host, jax.ShapeDtypeStruct((), jnp.float32), loss_of(weights, x))


def main(name: str, directory: str) -> None:
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    weights = [jnp.ones((WIDTH, WIDTH)) * 0.01 for _ in range(6)]
    data = np.ones((512, WIDTH), np.float32)
    with ss.Run(directory, hooks=[hook]) as run:
        for n in run.steps(range(10)):
            weights, value = update(weights, data)
            if name == "static_scalar":
                scaled(weights, data, 0.5 + n).block_until_ready()  # PLANTED static_scalar
            elif name == "jit_in_loop":
                jax.jit(lambda w: loss_of(w, data))(weights).block_until_ready()  # PLANTED jit_in_loop
            elif name == "host_callback":
                with_callback(weights, data).block_until_ready()
            elif name == "host_norms":
                norms = [
                    np.linalg.svd(np.asarray(each), compute_uv=False) for each in weights
                ]  # PLANTED host_norms
                assert len(norms) == len(weights)
            jax.block_until_ready((weights, value))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
