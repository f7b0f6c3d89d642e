"""A network that values orders on a gas market; a slow copy of it gives the values to learn."""

import os
from collections.abc import Iterator

import numpy as np

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras

STATE, ORDERS, KEPT = 24, 6, 0.99


def network() -> keras.Model:
    hidden = [keras.layers.Dense(48, "relu") for _ in range(6)]
    return keras.Sequential([keras.Input((STATE,)), *hidden, keras.layers.Dense(ORDERS)])


@jax.jit
def averaged(slow: list, fast: list) -> list:
    return [KEPT * one + (1 - KEPT) * other for one, other in zip(slow, fast, strict=True)]


def follow(slow: keras.Model, fast: keras.Model, mended: bool) -> None:
    if mended:
        values = averaged([one.value for one in slow.weights], [one.value for one in fast.weights])
        for weight, value in zip(slow.weights, values, strict=True):
            weight._value = value  # what `assign` does after its checks
        return
    pairs = zip(slow.get_weights(), fast.get_weights(), strict=True)
    slow.set_weights([KEPT * one + (1 - KEPT) * other for one, other in pairs])  # cause


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    days = random.normal(size=(1024, STATE)).astype(np.float32)
    profits = np.tanh(days @ random.normal(size=(STATE, ORDERS))).astype(np.float32)
    model, target = network(), network()
    target.set_weights(model.get_weights())
    model.compile(keras.optimizers.SGD(0.01), "mse")
    target.compile()
    while True:
        for chosen in random.permutation(1024).reshape(-1, 64):
            later = target.predict_on_batch(days[(chosen + 1) % 1024])
            loss = model.train_on_batch(days[chosen], profits[chosen] + 0.5 * np.asarray(later))
            follow(target, model, mended)
            yield float(loss)
