"""A loop that measures gradients: ``python gradients_job.py plain|mirrored|workers DIRECTORY [PARTS]``."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf
from distribute_job import strategy_of

import stepscope as ss
from stepscope.integrations.keras import measured, watch

RATE, STEPS, BATCH = 0.1, 5, 8


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(STEPS * BATCH, 3)).astype("float32")
    return x, x.sum(1, keepdims=True) + 1


def main(kind: str, directory: str, rotate: str = "1") -> None:
    strategy = tf.distribute.get_strategy() if kind == "plain" else strategy_of(kind)
    hook = ss.GradientHook(every_n_steps=2, dense_steps=0, histograms_every=4, rotate=int(rotate))
    with strategy.scope():
        kernel = tf.Variable(np.array([[0.5], [-1.0], [2.0]], "float32"), name="kernel")
        bias = tf.Variable(np.zeros(1, "float32"), name="bias")
        optimizer = measured(keras.optimizers.SGD(RATE), hook)
        optimizer.build([kernel, bias])
    batches = strategy.experimental_distribute_dataset(
        tf.data.Dataset.from_tensor_slices(data()).batch(BATCH)
    )

    @tf.function
    def step(batch):
        def one(batch):
            x, y = batch
            with tf.GradientTape() as tape:
                error = tf.matmul(x, kernel) + bias - y
                loss = tf.reduce_sum(error * error) / BATCH
            gradients = tape.gradient(loss, [kernel, bias])
            optimizer.apply_gradients(zip(gradients, [kernel, bias], strict=True))
            return loss

        return strategy.reduce("SUM", strategy.run(one, (batch,)), axis=None)

    with ss.Run(directory) as run:
        watch(run, optimizer)
        for batch in run.steps(batches):
            run.scalar("train/loss", step(batch))
        print("rank", run.role.rank, "of", run.role.world_size, "problems", run.problems)


if __name__ == "__main__":
    main(*sys.argv[1:])
