"""Trainings in Keras, written after the rules and judged once: ``python keras_fresh.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS, WIDTH, STEPS = 256, 384, 14


class Watching(keras.callbacks.Callback):
    """Does what is planted after every batch."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__()
        self.name, self.directory = name, directory

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Save or print."""
        if self.name == "saving_weights":
            self.model.save_weights(f"{self.directory}/last.weights.h5")  # PLANTED saving_weights
        elif self.name == "printing":
            with Path(os.devnull).open("w") as out:
                print(
                    [weight.tolist() for weight in self.model.get_weights()[:2]], file=out
                )  # PLANTED printing


def generated(slow: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    x, y = np.ones((ROWS, WIDTH), np.float32), np.ones((ROWS, 10), np.float32)
    while True:
        if slow:
            x = np.sort(np.random.default_rng(0).random((ROWS * 8, WIDTH)), axis=0)[
                :ROWS
            ]  # PLANTED generator
        yield x.astype(np.float32), y


def main(name: str, directory: str) -> None:
    layers = [keras.layers.Dense(WIDTH, "relu") for _ in range(5)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    model.compile("adam", "mse", metrics=["mae"])
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), Watching(name, directory)]
    data = generated(name == "generator")
    model.fit(data, steps_per_epoch=STEPS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
