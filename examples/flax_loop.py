"""A Flax NNX loop: metrics, the learning rate of optax, and steps timed when their results are there.

``python examples/flax_loop.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import stepscope as ss
from stepscope.integrations.jax import CompletionTimer, describe, optimizer_scalars, prefixed


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(16, 64, rngs=rngs)
        self.out = nnx.Linear(64, 1, rngs=rngs)

    def __call__(self, inputs: jnp.ndarray) -> jnp.ndarray:
        return self.out(nnx.tanh(self.hidden(inputs)))


def loss_of(model: Model, inputs: jnp.ndarray, targets: jnp.ndarray) -> jnp.ndarray:
    return jnp.mean((model(inputs) - targets) ** 2)


@nnx.jit
def train_step(model: Model, optimizer: nnx.Optimizer, metrics: nnx.MultiMetric, batch: tuple) -> jnp.ndarray:
    loss, gradients = nnx.value_and_grad(loss_of)(model, *batch)
    optimizer.update(model, gradients)
    metrics.update(loss=loss)
    return loss


def main(directory: str = "runs/flax") -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(2048, 16)).astype(np.float32)
    targets = np.sin(inputs).sum(1, keepdims=True).astype(np.float32)
    batches = [(inputs[at : at + 64], targets[at : at + 64]) for at in range(0, 2048, 64)]
    epochs = 5

    model = Model(nnx.Rngs(0))
    schedule = optax.cosine_decay_schedule(3e-3, epochs * len(batches))
    optimizer = nnx.Optimizer(model, optax.inject_hyperparams(optax.adam)(schedule), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))

    with ss.Run(directory, config={"batch_size": 64}, total_steps=epochs * len(batches)) as run:
        describe(run, model)
        timer = CompletionTimer(run)
        for _ in range(epochs):
            for batch in run.steps(batches):
                loss = train_step(model, optimizer, metrics, batch)
                timer(loss)
                run.scalars(optimizer_scalars(optimizer))
            run.scalars(prefixed("train", metrics))
            run.scalars({"eval/loss": loss_of(model, inputs, targets)})
            metrics.reset()


if __name__ == "__main__":
    main(*sys.argv[1:])
