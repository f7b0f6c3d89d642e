"""Trainings in Keras, a second set judged at first sight: ``python keras_second.py NAME DIRECTORY``."""

from __future__ import annotations

import csv
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS, WIDTH, STEPS = 192, 416, 14


class Batches(keras.utils.PyDataset):
    """Batches, slow ones where that is planted."""

    def __init__(self, slow: bool) -> None:
        super().__init__()
        self.slow = slow

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.ones((ROWS, WIDTH), np.float32)
        if self.slow:
            x = np.array([[(n * k) % 7 for n in range(WIDTH)] for k in range(ROWS * 4)])  # PLANTED sequence
        return x[:ROWS].astype(np.float32), np.ones((ROWS, 10), np.float32)


class Doing(keras.callbacks.Callback):
    """Does what is planted, once a batch."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__()
        self.name, self.directory = name, directory

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Write, wait or judge."""
        if self.name == "table":
            with Path(self.directory, "weights.csv").open("w") as file:
                csv.writer(file).writerows(self.model.get_weights()[0].tolist())  # PLANTED table
        elif self.name == "throttled":
            time.sleep(0.05)  # PLANTED throttled
        elif self.name == "judged":
            x = np.ones((ROWS * 8, WIDTH), np.float32)
            self.model.evaluate(x, x[:, :10], verbose=0)  # PLANTED judged


def main(name: str, directory: str) -> None:
    layers = [keras.layers.Dense(WIDTH, "gelu") for _ in range(6)]
    model = keras.Sequential([*layers, keras.layers.Dropout(0.1), keras.layers.Dense(10)])
    model.compile("adamw", "mse")
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), Doing(name, directory)]
    if name == "healthy_watched":
        callbacks += [keras.callbacks.CSVLogger(f"{directory}/log.csv"), keras.callbacks.TerminateOnNaN()]
    if name in ("sequence", "healthy_sequence"):
        model.fit(Batches(name == "sequence"), epochs=1, verbose=0, callbacks=callbacks)
    else:
        x, y = np.ones((ROWS * STEPS, WIDTH), np.float32), np.ones((ROWS * STEPS, 10), np.float32)
        model.fit(x, y, batch_size=ROWS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
