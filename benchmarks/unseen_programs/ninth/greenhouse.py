"""A Keras model of the air in a greenhouse, whose learning rate falls from round to round."""

import os
from collections.abc import Iterator

import numpy as np

os.environ["KERAS_BACKEND"] = "jax"
import keras

SENSORS, ROUND = 16, 8


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    air = random.normal(size=(4096, SENSORS)).astype(np.float32)
    later = np.tanh(air @ random.normal(size=(SENSORS, 3))).astype(np.float32)
    model = keras.Sequential([keras.Input((SENSORS,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(3)])
    rate = 0.05
    model.compile(keras.optimizers.SGD(rate), "mse")
    while True:
        for _ in range(ROUND):
            rows = random.integers(0, len(air), 64)
            loss = model.train_on_batch(air[rows], later[rows])
        rate *= 0.99
        if mended:
            model.optimizer.learning_rate = rate
        else:
            model.compile(keras.optimizers.SGD(rate), "mse")  # cause
        yield float(loss)
