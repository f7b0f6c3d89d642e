"""Trainings in TensorFlow, one cause planted or none: ``python tensorflow_programs.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import stepscope as ss

WIDTH, ROWS, STEPS = 512, 256, 14


def batches(slow: bool) -> Iterator[np.ndarray]:
    """Give batches, each after some work in Python where that is planted."""
    for _ in range(STEPS):
        if slow:
            end = time.perf_counter() + 0.08
            while time.perf_counter() < end:  # PLANTED slow_loader
                pass
        yield np.ones((ROWS, WIDTH), np.float32)


def augment(x: np.ndarray) -> np.ndarray:
    return np.sort(x + np.random.default_rng(0).normal(size=x.shape), axis=1)  # PLANTED slow_transform


class Training:
    """A dense network and its step."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(tf.random.normal((WIDTH, WIDTH)) * 0.01) for _ in range(6)]
        self.step = tf.function(self.eager_step)

    def loss(self, x: tf.Tensor) -> tf.Tensor:
        """Return the mean square of what the network makes of a batch."""
        for weight in self.weights:
            x = tf.tanh(x @ weight)
        return tf.reduce_mean(x * x)

    def eager_step(self, x: tf.Tensor) -> tf.Tensor:
        """Descend once, operation by operation unless it is traced."""
        with tf.GradientTape() as tape:
            value = self.loss(x)
        for weight, slope in zip(self.weights, tape.gradient(value, self.weights), strict=True):
            weight.assign_sub(0.1 * slope)  # PLANTED eager
        return value


def rows_one_by_one(values: tf.Tensor) -> float:
    return sum(float(values[n]) for n in range(ROWS))  # PLANTED item_in_loop


def main(name: str, directory: str) -> None:
    training, saver = Training(), None
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="tensorflow"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(batches(name == "slow_loader"))):
            if name == "slow_transform":
                x = augment(x).astype(np.float32)
            if name == "recompilation":
                training.step(tf.constant(x[: ROWS - n]))  # PLANTED recompilation
            elif name == "eager":
                training.eager_step(tf.constant(x))
            else:
                training.step(tf.constant(x))
            if name == "item_in_loop":
                rows_one_by_one(tf.constant(x[:, 0]))
            if name == "checkpoint":
                saver = saver or tf.train.Checkpoint(**{f"w{k}": w for k, w in enumerate(training.weights)})
                saver.save(f"{directory}/checkpoint")  # PLANTED checkpoint


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
