"""Trainings in TensorFlow, judged once after the rules: ``python tensorflow_fresh.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import stepscope as ss

ROWS, WIDTH, STEPS = 256, 512, 14
weights = [tf.Variable(tf.random.normal((WIDTH, WIDTH)) * 0.01) for _ in range(6)]


@tf.function
def step(x: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.nn.relu(y @ weight)
        loss = tf.reduce_mean(y * y) * scale
    for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.01 * slope)
    return loss


def sorted_rows(x: tf.Tensor) -> np.ndarray:
    return np.sort(np.tile(x.numpy(), (6, 1)), axis=0)[:ROWS]  # PLANTED py_function


def dataset(slow: bool) -> tf.data.Dataset:
    found = tf.data.Dataset.from_tensors(np.ones((ROWS, WIDTH), np.float32)).repeat(STEPS)
    return found.map(lambda x: tf.py_function(sorted_rows, [x], tf.float32)) if slow else found.prefetch(2)


def main(name: str, directory: str) -> None:
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="tensorflow"
    )  # fmt: skip
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(dataset(name == "py_function"))):
            loss = step(x, 1.0 + n) if name == "python_argument" else step(x)  # PLANTED python_argument
            if name == "numpy_values":
                parts = [float(weight[k, k]) for weight in weights for k in range(60)]  # PLANTED numpy_values
                assert len(parts) == 60 * len(weights)
            run.scalar("loss", float(loss))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
