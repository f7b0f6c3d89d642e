"""A dense network in numpy, for machines without a framework."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

SIZES = (64, 128, 64, 10)


class Classifier:
    """Two hidden layers of rectified units, trained with Adam (Kingma and Ba 2015, algorithm 1)."""

    name = "mlp 128-64"

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.weights: list[Any] = []
        for inputs, outputs in pairwise(SIZES):
            kernel = random.normal(0, (2 / inputs) ** 0.5, (inputs, outputs))
            self.weights += [kernel.astype(np.float32), np.zeros(outputs, np.float32)]
        self.parameters = sum(weight.size for weight in self.weights)
        self.first = [np.zeros_like(weight) for weight in self.weights]
        self.second = [np.zeros_like(weight) for weight in self.weights]
        self.steps = 0

    def step(self, images: Any, labels: Any, learning_rate: float) -> tuple[Any, Any, Any]:
        """Train on one batch; return loss, accuracy and gradient norm."""
        layers, chances = self._forward(images)
        loss, accuracy = scores(chances, labels)
        error = chances.copy()
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        gradients: list[Any] = []
        for layer in reversed(range(len(layers))):
            gradients = [layers[layer].T @ error, error.sum(0), *gradients]
            error = (error @ self.weights[2 * layer].T) * (layers[layer] > 0)
        self._update(gradients, learning_rate)
        return loss, accuracy, np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))

    def evaluate(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return loss and accuracy."""
        return scores(self._forward(images)[1], labels)

    def chances(self, images: Any) -> tuple[Any, Any]:
        """Return the probability of each number, [n, 10], and the last hidden layer, [n, 64]."""
        layers, chances = self._forward(images)
        return chances, layers[-1]

    def watch(self, run: object) -> None:
        """Do nothing: the loop records ``tensors``."""

    def record_graph(self, run: object, images: Any) -> None:
        """Do nothing: numpy has no graph."""

    def tensors(self) -> dict[str, Any]:
        """Return its weights by name."""
        names = [f"dense{layer}/{kind}" for layer in range(1, len(SIZES)) for kind in ("kernel", "bias")]
        return dict(zip(names, self.weights, strict=True))

    def _forward(self, images: Any) -> tuple[list[Any], Any]:
        """Return the input of every layer and the softmax."""
        layers = [images.reshape(len(images), -1)]
        for layer in range(len(SIZES) - 1):
            output = layers[-1] @ self.weights[2 * layer] + self.weights[2 * layer + 1]
            layers.append(np.maximum(output, 0))
        chances = np.exp(output - output.max(1, keepdims=True))
        return layers[:-1], chances / chances.sum(1, keepdims=True)

    def _update(self, gradients: list[Any], learning_rate: float) -> None:
        self.steps += 1
        rate = learning_rate * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        for weight, first, second, gradient in zip(
            self.weights, self.first, self.second, gradients, strict=True
        ):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            weight -= rate * first / (np.sqrt(second) + 1e-8)


def scores(chances: Any, labels: Any) -> tuple[Any, Any]:
    """Return mean cross-entropy in nats and accuracy."""
    right = chances[np.arange(len(labels)), labels]
    return -np.log(np.maximum(right, 1e-30)).mean(), (chances.argmax(1) == labels).mean()
