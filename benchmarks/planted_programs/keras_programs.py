"""Trainings in Keras on JAX, each with one cause or none: ``python keras_programs.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback


class Data(keras.utils.PyDataset):
    """Batches, slow ones where that is planted."""

    def __init__(self, *, slow: bool) -> None:
        super().__init__()
        self.slow = slow

    def __len__(self) -> int:
        return 16

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        if self.slow:
            time.sleep(0.08)  # PLANTED slow_loader
        return np.ones((256, 512), np.float32), np.ones((256, 10), np.float32)


class Saver(keras.callbacks.Callback):
    """Writes the model in every step."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.directory = directory

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Save."""
        self.model.save_weights(f"{self.directory}/all.weights.h5")  # PLANTED checkpoint


def main(name: str, directory: str) -> None:
    model = keras.Sequential([keras.layers.Dense(512, "tanh") for _ in range(6)] + [keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    hook = ss.ProfilerHook(
        save_steps=1000,
        num_steps=3,
        skip_first=4,
        max_overhead=None,
        analyse=False,
        backend="jax",
    )
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(ss.Run(directory, hooks=[hook]))]
    if name == "checkpoint":
        callbacks.append(Saver(directory))
    model.fit(Data(slow=name == "slow_loader"), epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
