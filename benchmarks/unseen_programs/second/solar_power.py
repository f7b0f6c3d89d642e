"""Tomorrow's solar power from a week of weather, with Keras on JAX. The work is what the model asks for."""

import os
from collections.abc import Iterator

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

HOURS, SENSORS = 168, 12


def build(filters: int) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((HOURS, SENSORS)),
            keras.layers.Conv1D(filters, 9, padding="same", activation="relu"),
            keras.layers.Conv1D(filters, 9, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(24),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    return model


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(20)
    rng = np.random.default_rng(20)
    model = build(16 if mended else 64)
    while True:
        weather = rng.normal(size=(16, HOURS, SENSORS)).astype("float32")
        power = weather[:, -24:, 0].clip(0)
        yield float(model.train_on_batch(weather, power))  # costliest
