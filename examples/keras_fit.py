"""A Keras model on any backend: metrics, time and data wait of batches, weights and validation of epochs.

``KERAS_BACKEND=jax python examples/keras_fit.py [RUN_DIRECTORY]`` (or ``torch``, or ``tensorflow``), then
``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import keras
import numpy as np

from stepscope.integrations.keras import StepscopeCallback


def main(directory: str = "runs/keras") -> None:
    keras.utils.set_random_seed(0)
    inputs = np.random.default_rng(0).normal(size=(2048, 16)).astype("float32")
    targets = np.sin(inputs).sum(1, keepdims=True)
    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    model.fit(
        inputs,
        targets,
        batch_size=64,
        epochs=5,
        validation_data=(inputs, targets),
        verbose=0,
        callbacks=[StepscopeCallback(directory, histogram_freq=1)],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
