"""Small real trainings that record what the health rules look at, by a clock that is passed in.

The network is numpy: its step takes a tenth of what a framework's call overhead alone would.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import numpy as np

import stepscope as ss
from stepscope.record.clock import SYSTEM

SAMPLED = 10
"""Steps between two samples of the layers."""


@cache
def digits():
    """Inputs and labels of scikit-learn's digits, shuffled: 1,500 to train on, 297 to evaluate."""
    from sklearn.datasets import load_digits  # seconds, for every worker that collects this

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    inputs, labels = data.data[order] / 16.0, data.target[order]
    return inputs[:1500], labels[:1500], inputs[1500:], labels[1500:]


ACTIVATIONS = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: 1 - a * a),
    "sigmoid": (lambda z: 1 / (1 + np.exp(-np.clip(z, -500, 500))), lambda a: a * (1 - a)),
}


class Network:
    """A multi-layer perceptron with softmax cross entropy and its gradients.

    Args:
        act: "relu", "tanh" or "sigmoid".
        scale: Of the initial weights, times He's.
    """

    def __init__(self, act="relu", *, width=48, depth=2, scale=1.0, seed=0):
        rng = np.random.default_rng(seed)
        sizes = [64, *[width] * depth, 10]
        self.weights = [
            scale * rng.normal(size=(a, b)) * np.sqrt((2 if act == "relu" else 1) / a)
            for a, b in pairwise(sizes)
        ]
        self.biases = [np.zeros(size) for size in sizes[1:]]
        self.kind = act
        self.act, self.slope = ACTIVATIONS[act]
        self.frozen = set()
        self.outputs = []

    def forward(self, x):
        """Return the logits; keep what each layer gave."""
        self.outputs = [x]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.act(x @ weight + bias)
            self.outputs.append(x)
        return x @ self.weights[-1] + self.biases[-1]

    def loss(self, x, labels):
        """Return the mean cross entropy and what it is to the logits."""
        logits = self.forward(x)
        logits = logits - logits.max(1, keepdims=True)
        exp = np.exp(logits)
        shares = exp / exp.sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -np.log(shares[rows, labels] + 1e-300).mean()
        shares[rows, labels] -= 1
        return float(loss), shares / len(labels)

    def gradients(self, delta):
        """Return the gradients of weights and biases by name."""
        found = {}
        for at in reversed(range(len(self.weights))):
            found[f"layer{at}/weight"] = self.outputs[at].T @ delta
            found[f"layer{at}/bias"] = delta.sum(0)
            if at:
                delta = (delta @ self.weights[at].T) * self.slope(self.outputs[at])
        return {name: value for name, value in sorted(found.items()) if name not in self.frozen}

    @property
    def parameters(self):
        """Weights and biases by name."""
        found = {}
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found |= {f"layer{at}/weight": weight, f"layer{at}/bias": bias}
        return found


class Time:
    """A clock that goes on by what a loop says it took."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now

    @property
    def clock(self):
        return replace(SYSTEM, wall=self, steady=self)


@dataclass
class Training:
    """What to do at each step, and what goes wrong.

    Attributes:
        rate: Learning rate; it may be a function of the step, as may ``step_s`` and ``wait_s``.
        momentum: Of SGD.
        noise: Of the labels, share of wrong ones.
        inputs: Changes the inputs.
        before: Called with the training and the step before each step.
        record: Called with the run and the step after each.
        step_s: Time that a step takes, of which ``wait_s`` is waiting for data.
    """

    network: Network = field(default_factory=Network)
    steps: int = 400
    rate: object = 0.05
    momentum: float = 0.9
    batch: int = 64
    samples: int = 1500
    clip: float = float("inf")
    evaluate: int = 0
    noise: float = 0.0
    inputs: object = lambda x: x
    before: object = None
    record: object = None
    step_s: object = 0.01
    wait_s: object = 0.0002
    seed: int = 0

    def run(self, directory, hook=None, **options):
        """Train and record; return the hook."""
        hook = hook or ss.HealthHook()
        time = Time()
        with np.errstate(all="ignore"), ss.Run(directory, hooks=[hook], _clock=time.clock, **options) as run:
            self.loop(run, time)
        return hook

    def loop(self, run, time):
        """Train."""
        rng = np.random.default_rng(self.seed)
        train_x, train_y, eval_x, eval_y = digits()
        train_x, train_y = self.inputs(train_x[: self.samples]), train_y[: self.samples].copy()
        wrong = rng.random(len(train_y)) < self.noise
        train_y[wrong] = rng.integers(0, 10, wrong.sum())
        eval_x = self.inputs(eval_x)
        speed = dict.fromkeys(self.network.parameters, 0.0)

        def batches():
            for step in range(self.steps):
                time.now += at(self.wait_s, step)
                rows = rng.choice(len(train_x), min(self.batch, len(train_x)), replace=False)
                yield train_x[rows], train_y[rows]

        for x, y in run.steps(batches()):
            step = run.current_step
            if self.before is not None:
                self.before(self, step)
            rate, sampled = at(self.rate, step), step % SAMPLED == 0
            loss, delta = self.network.loss(x, y)
            grads = self.network.gradients(delta)
            norm = float(np.sqrt(sum((each**2).sum() for each in grads.values())))
            factor = min(1.0, self.clip / norm) if norm > 0 else 1.0
            run.scalar("train/loss", loss)
            run.scalar("train/learning_rate", rate)
            run.scalar("gradients/norm", norm)
            run.scalar("gradients/clipped_norm", norm * factor)
            if sampled:
                run.scalars(activations(self.network))
            for name, each in self.network.parameters.items():
                grad = grads.get(name)
                change = 0.0
                if grad is not None:
                    speed[name] = self.momentum * speed[name] + factor * grad
                    change = rate * speed[name]
                if sampled:
                    run.scalars(layer(name, each, grad, change))
                each -= change
            if self.evaluate and (step + 1) % self.evaluate == 0:
                run.scalar("eval/loss", self.network.loss(eval_x, eval_y)[0])
            if self.record is not None:
                self.record(run, step)
            time.now += at(self.step_s, step) - at(self.wait_s, step)


def at(value, step):
    """Return a value that may depend on the step."""
    return value(step) if callable(value) else value


def activations(network):
    """Return statistics of what each layer but the last gave."""
    found = {}
    for number, values in enumerate(network.outputs[1:]):
        tag = f"activations/layer{number}"
        found[f"{tag}/std"] = float(values.std())
        found[f"{tag}/nonfinite_count"] = float((~np.isfinite(values)).sum())
        if network.kind == "relu":
            found[f"{tag}/fraction_of_zero_values"] = float((values == 0).mean())
        else:
            low = 0.01 if network.kind == "sigmoid" else -0.99
            found[f"{tag}/saturation_ratio"] = float(((values < low) | (values > 0.99)).mean())
    return found


def layer(name, value, grad, change):
    """Return what a parameter does at a step."""
    weight = float(np.linalg.norm(value))
    found = {f"weights/{name}/norm": weight}
    if grad is not None:
        found[f"gradients/{name}/norm"] = float(np.linalg.norm(grad))
        found[f"gradients/{name}/nonfinite_count"] = float((~np.isfinite(grad)).sum())
    if weight > 0:
        found[f"updates/{name}/weight_ratio"] = float(np.linalg.norm(change)) / weight
    return found
