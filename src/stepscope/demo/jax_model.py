"""A small convolutional network in JAX, with nothing but JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from stepscope.integrations.jax.graph import trace
from stepscope.record import Run

Weights = dict[str, Any]


class Classifier:
    """Two convolutions and two dense layers, trained with Adam."""

    name = "cnn 32-64-128"

    def __init__(self, seed: int = 0) -> None:
        self.weights = initial_weights(jax.random.key(seed))
        self.parameters = sum(leaf.size for leaf in jax.tree.leaves(self.weights))
        # Two sets of zeros: a step donates both, and a buffer is donated once.
        self.moments = tuple(jax.tree.map(jnp.zeros_like, self.weights) for _ in range(2))
        self.steps = 0

    def step(self, images: Any, labels: Any, learning_rate: float) -> tuple[Any, Any, Any]:
        """Train on one batch; return loss, accuracy and gradient norm as arrays.

        It waits for them: a step lasts as long as its work, not as long as its dispatch.
        """
        self.steps += 1
        self.weights, self.moments, loss, accuracy, norm = train_step(
            self.weights, self.moments, self.steps, images, labels, learning_rate
        )
        jax.block_until_ready(loss)  # type: ignore[no-untyped-call]
        return loss, accuracy, norm

    def evaluate(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return loss and accuracy as arrays."""
        loss, accuracy = evaluate(self.weights, images, labels)
        return loss, accuracy

    def chances(self, images: Any) -> tuple[Any, Any]:
        """Return the probability of each number, [n, 10], and the last hidden layer, [n, 128]."""
        result: tuple[Any, Any] = chances(self.weights, images)
        return result

    def watch(self, run: object) -> None:
        """Do nothing: the loop records ``tensors``."""

    def record_graph(self, run: Run, images: Any) -> None:
        """Record the graph of a batch."""
        traced = trace(forward, self.weights, jnp.asarray(images))
        run.graph(traced.nodes, costs=traced.costs)

    def tensors(self) -> dict[str, Any]:
        """Return its weights by name."""
        return {f"{layer}/{name}": leaf for layer, own in self.weights.items() for name, leaf in own.items()}


def initial_weights(key: Any) -> Weights:
    """Return He-normal weights."""
    shapes = {"conv1": (3, 3, 1, 32), "conv2": (3, 3, 32, 64), "dense1": (1024, 128), "dense2": (128, 10)}
    weights: Weights = {}
    for name, shape in shapes.items():
        key, own = jax.random.split(key)
        inputs = int(jnp.prod(jnp.array(shape[:-1])))
        weights[name] = {
            "kernel": jax.random.normal(own, shape) * (2 / inputs) ** 0.5,
            "bias": jnp.zeros(shape[-1]),
        }
    return weights


def forward(weights: Weights, images: Any) -> tuple[Any, Any]:
    """Return logits, [n, 10], and the last hidden layer, [n, 128]."""
    hidden = images[..., None]
    for name in ("conv1", "conv2"):
        with jax.named_scope(name):
            hidden = jax.lax.conv_general_dilated(
                hidden, weights[name]["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            hidden = jax.nn.relu(hidden + weights[name]["bias"])
    with jax.named_scope("pool"):
        hidden = hidden.reshape(len(hidden), 4, 2, 4, 2, 64).max((2, 4)).reshape(len(hidden), -1)
    with jax.named_scope("dense1"):
        hidden = jax.nn.relu(hidden @ weights["dense1"]["kernel"] + weights["dense1"]["bias"])
    with jax.named_scope("dense2"):
        return hidden @ weights["dense2"]["kernel"] + weights["dense2"]["bias"], hidden


def loss_and_accuracy(weights: Weights, images: Any, labels: Any) -> tuple[Any, Any]:
    """Return mean cross-entropy in nats and accuracy."""
    logits, _ = forward(weights, images)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -chosen.mean(), (logits.argmax(1) == labels).mean()


evaluate = jax.jit(loss_and_accuracy)


@jax.jit
def chances(weights: Weights, images: Any) -> tuple[Any, Any]:
    """Return the probability of each number, and the last hidden layer."""
    logits, hidden = forward(weights, images)
    return jax.nn.softmax(logits), hidden


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(
    weights: Weights, moments: Any, step: Any, images: Any, labels: Any, learning_rate: Any
) -> Any:
    """One step of Adam (Kingma and Ba 2015, algorithm 1) with its default coefficients."""
    (loss, accuracy), gradients = jax.value_and_grad(loss_and_accuracy, has_aux=True)(weights, images, labels)
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradients)))
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments[0], gradients)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new * new, moments[1], gradients)
    rate = learning_rate * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return weights, (first, second), loss, accuracy, norm
