"""Trainings in TensorFlow.

Called as ``python tensorflow_trainings.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from hook import profiler_hook

import stepscope as ss

CLASS_WIDTH, CLASS_ROWS, CLASS_STEPS = 512, 256, 14


def batches(slow: bool) -> Iterator[np.ndarray]:
    """Give batches, each after some work in Python where that is planted."""
    for _ in range(CLASS_STEPS):
        if slow:
            end = time.perf_counter() + 0.08
            while time.perf_counter() < end:  # PLANTED slow_loader
                pass
        yield np.ones((CLASS_ROWS, CLASS_WIDTH), np.float32)


def augment(x: np.ndarray) -> np.ndarray:
    return np.sort(x + np.random.default_rng(0).normal(size=x.shape), axis=1)  # PLANTED slow_transform


class Training:
    """A dense network and its step."""

    def __init__(self) -> None:
        self.weights = [tf.Variable(tf.random.normal((CLASS_WIDTH, CLASS_WIDTH)) * 0.01) for _ in range(6)]
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
    return sum(float(values[n]) for n in range(CLASS_ROWS))  # PLANTED item_in_loop


def eager_or_graph(name: str, directory: str) -> None:
    training, saver = Training(), None
    hook = profiler_hook(backend="tensorflow")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(batches(name == "slow_loader"))):
            if name == "slow_transform":
                x = augment(x).astype(np.float32)
            if name == "recompilation":
                training.step(tf.constant(x[: CLASS_ROWS - n]))  # PLANTED recompilation
            elif name == "eager":
                training.eager_step(tf.constant(x))
            else:
                training.step(tf.constant(x))
            if name == "item_in_loop":
                rows_one_by_one(tf.constant(x[:, 0]))
            if name == "checkpoint":
                saver = saver or tf.train.Checkpoint(**{f"w{k}": w for k, w in enumerate(training.weights)})
                saver.save(f"{directory}/checkpoint")  # PLANTED checkpoint


GRAPH_ROWS, GRAPH_WIDTH, GRAPH_STEPS = 256, 512, 14

weights = [tf.Variable(tf.random.normal((GRAPH_WIDTH, GRAPH_WIDTH)) * 0.01) for _ in range(6)]


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
    return np.sort(np.tile(x.numpy(), (6, 1)), axis=0)[:GRAPH_ROWS]  # PLANTED py_function


def dataset(slow: bool) -> tf.data.Dataset:
    found = tf.data.Dataset.from_tensors(np.ones((GRAPH_ROWS, GRAPH_WIDTH), np.float32)).repeat(GRAPH_STEPS)
    return found.map(lambda x: tf.py_function(sorted_rows, [x], tf.float32)) if slow else found.prefetch(2)


def graph_layers(name: str, directory: str) -> None:
    hook = profiler_hook(backend="tensorflow")
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(dataset(name == "py_function"))):
            loss = step(x, 1.0 + n) if name == "python_argument" else step(x)  # PLANTED python_argument
            if name == "numpy_values":
                parts = [float(weight[k, k]) for weight in weights for k in range(60)]  # PLANTED numpy_values
                assert len(parts) == 60 * len(weights)
            run.scalar("loss", float(loss))


KERAS_ROWS, KERAS_WIDTH, KERAS_STEPS = 192, 384, 14

net = tf.keras.Sequential([tf.keras.layers.Dense(KERAS_WIDTH, "relu") for _ in range(4)])

net.build((None, KERAS_WIDTH))

optimizer = tf.keras.optimizers.legacy.SGD(0.01, momentum=0.9)


@tf.function
def learn(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - x))
    optimizer.apply_gradients(
        zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables, strict=True)
    )
    return loss


def simulated() -> Iterator[np.ndarray]:
    """Yield walks of many particles, drawn a step at a time."""
    for _ in range(KERAS_STEPS):
        walk = [np.zeros(KERAS_ROWS)]
        for _ in range(KERAS_WIDTH * 4 - 1):
            walk.append(walk[-1] + np.random.normal(size=KERAS_ROWS))  # PLANTED simulated
        yield np.stack(walk[:KERAS_WIDTH], 1).astype(np.float32)


def keras_layers(name: str, directory: str) -> None:
    hook = profiler_hook(backend="tensorflow")
    data = tf.data.Dataset.from_tensors(np.ones((KERAS_ROWS, KERAS_WIDTH), np.float32)).repeat(KERAS_STEPS)
    if name == "simulated":
        data = tf.data.Dataset.from_generator(
            simulated, output_signature=tf.TensorSpec((KERAS_ROWS, KERAS_WIDTH))
        )
    writer = tf.summary.create_file_writer(directory)
    with ss.Run(directory, hooks=[hook]) as run, writer.as_default():
        for n, x in enumerate(run.steps(data)):
            loss = learn(x[: KERAS_ROWS - 2 * n] if name == "narrower" else x)  # PLANTED narrower
            if name == "summaries":
                for variable in net.trainable_variables:
                    tf.summary.histogram(variable.name, variable, step=n)  # PLANTED summaries
            elif name == "weights":
                net.save_weights(f"{directory}/now.h5")  # PLANTED weights
            elif name == "healthy_value":
                run.scalar("loss", float(loss))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
