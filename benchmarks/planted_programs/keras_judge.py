"""Trainings in Keras on JAX, unseen by the rules when written: ``python keras_judge.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS = 256


class Watching(keras.callbacks.Callback):
    """Does something after every batch."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.history = name, []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Compute what takes long."""
        if self.name == "slow_callback":
            weights = [
                np.sort(each.flatten()) for each in self.model.get_weights() for _ in range(2)
            ]  # PLANTED slow_callback
            self.history.append(float(weights[0][0]))
        elif self.name == "predicting":
            self.model.predict(np.ones((ROWS, 512), np.float32), verbose=0)  # PLANTED predicting


def main(name: str, directory: str) -> None:
    model = keras.Sequential([keras.layers.Dense(512, "tanh") for _ in range(6)] + [keras.layers.Dense(10)])
    model.compile("sgd", "mse", run_eagerly=name == "run_eagerly")
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), Watching(name)]
    x, y = np.ones((14 * ROWS, 512), np.float32), np.ones((14 * ROWS, 10), np.float32)
    model.fit(x, y, batch_size=ROWS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
