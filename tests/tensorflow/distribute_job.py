"""TensorFlow 2 under a strategy: ``python distribute_job.py mirrored|workers [fit:]DIRECTORY``.

With ``fit:`` Keras trains and its callback records; otherwise a loop that the run steps through does.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback


def strategy_of(kind: str):
    if kind == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def fit(strategy: tf.distribute.Strategy, directory: str) -> None:
    """Train 3 epochs of 4 batches with Keras: y = 2 x."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=(1,))])
        model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
    x = np.linspace(0, 1, 32, dtype=np.float32)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(8)
    callback = StepscopeCallback(directory)
    history = model.fit(data, epochs=3, verbose=0, callbacks=[callback], validation_data=data)
    print("losses", history.history["val_loss"])


def main(kind: str, directory: str) -> None:
    strategy = strategy_of(kind)
    if directory.startswith("fit:"):
        fit(strategy, directory.removeprefix("fit:"))
        return
    with strategy.scope():
        weight = tf.Variable(2.0, aggregation=tf.VariableAggregation.MEAN)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(40).batch(4))

    @tf.function
    def step(batch):
        def one(numbers):
            loss = tf.reduce_mean(tf.cast(numbers, tf.float32)) * weight
            weight.assign(weight * 0.9)
            return loss

        each = strategy.run(one, (batch,))
        return each, strategy.reduce("MEAN", each, axis=None)

    with ss.Run(directory) as run:
        for batch in run.steps(data):
            each, loss = step(batch)
            run.scalar("train/loss", loss)
            run.scalar("weight", weight)
            if kind == "mirrored":
                try:
                    run.scalar("each", each)
                except ss.StepscopeError as error:
                    print("refused:", error)
        print("rank", run.role.rank, "of", run.role.world_size, "writes", run.role.writes)


if __name__ == "__main__":
    main(*sys.argv[1:])
