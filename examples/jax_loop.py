"""A JAX loop: losses are logged as arrays that may not be computed yet.

``python examples/jax_loop.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stepscope as ss


def loss_of(weights: Any, inputs: Any, targets: Any) -> Any:
    hidden = jnp.tanh(inputs @ weights["in"])
    return jnp.mean((hidden @ weights["out"] - targets) ** 2)


@jax.jit
def step(weights: Any, inputs: Any, targets: Any) -> Any:
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return jax.tree.map(lambda weight, gradient: weight - 0.05 * gradient, weights, gradients), loss


def main(directory: str = "runs/jax") -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(2048, 16)).astype(np.float32)
    targets = np.sin(inputs).sum(1, keepdims=True).astype(np.float32)
    weights: Any = {
        "in": jnp.asarray(random.normal(size=(16, 64)) / 4, jnp.float32),
        "out": jnp.zeros((64, 1), jnp.float32),
    }
    order = [slice(start, start + 64) for start in range(0, 2048, 64)]

    with ss.Run(directory, config={"lr": 0.05, "batch_size": 64}, total_steps=5 * len(order)) as run:
        for _ in range(5):
            for batch in run.steps(order):
                weights, loss = step(weights, inputs[batch], targets[batch])
                run.scalar("train/loss", loss)
            run.scalar("eval/loss", loss_of(weights, inputs, targets))


if __name__ == "__main__":
    main(*sys.argv[1:])
