"""Trainings in TensorFlow, a fourth set judged once: ``python tensorflow_fourth.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import stepscope as ss

ROWS, WIDTH, STEPS = 192, 384, 14
net = tf.keras.Sequential([tf.keras.layers.Dense(WIDTH, "relu") for _ in range(4)])
net.build((None, WIDTH))
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
    for _ in range(STEPS):
        walk = [np.zeros(ROWS)]
        for _ in range(WIDTH * 4 - 1):
            walk.append(walk[-1] + np.random.normal(size=ROWS))  # PLANTED simulated
        yield np.stack(walk[:WIDTH], 1).astype(np.float32)


def main(name: str, directory: str) -> None:
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="tensorflow"
    )  # fmt: skip
    data = tf.data.Dataset.from_tensors(np.ones((ROWS, WIDTH), np.float32)).repeat(STEPS)
    if name == "simulated":
        data = tf.data.Dataset.from_generator(simulated, output_signature=tf.TensorSpec((ROWS, WIDTH)))
    writer = tf.summary.create_file_writer(directory)
    with ss.Run(directory, hooks=[hook]) as run, writer.as_default():
        for n, x in enumerate(run.steps(data)):
            loss = learn(x[: ROWS - 2 * n] if name == "narrower" else x)  # PLANTED narrower
            if name == "summaries":
                for variable in net.trainable_variables:
                    tf.summary.histogram(variable.name, variable, step=n)  # PLANTED summaries
            elif name == "weights":
                net.save_weights(f"{directory}/now.h5")  # PLANTED weights
            elif name == "healthy_value":
                run.scalar("loss", float(loss))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
