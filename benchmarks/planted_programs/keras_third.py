"""Trainings in Keras, a third set judged at first sight: ``python keras_third.py NAME DIRECTORY``."""

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

ROWS, SIDE, STEPS = 96, 16, 14


class Crops(keras.utils.PyDataset):
    """Pictures, each cropped and turned in Python."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        large = np.ones((ROWS, SIDE + 8, SIDE + 8, 3), np.float32)
        found = [self.crop(each) for each in large for _ in range(12)]
        return np.stack(found[:ROWS]), np.zeros((ROWS, 10), np.float32)

    def crop(self, picture: np.ndarray) -> np.ndarray:
        """Return a part of a picture, turned."""
        top, left = np.random.randint(0, 8, 2)
        return np.rot90(picture[top : top + SIDE, left : left + SIDE]).copy()  # PLANTED crops


def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches that are mixed, pixel by pixel of a row."""
    x = np.ones((ROWS, SIDE, SIDE, 3), np.float32)
    while True:
        for a in range(ROWS):
            for row in range(SIDE):
                for column in range(0, SIDE, 2):
                    x[a, row, column] = 0.5 * x[a, row, column] + 0.5 * x[-a, row, column]  # PLANTED pairs
        yield x, np.zeros((ROWS, 10), np.float32)


class Pictures(keras.callbacks.Callback):
    """Draws and keeps a picture of the weights each batch."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self.directory = directory

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Write."""
        kernel = self.model.layers[-1].get_weights()[0]
        np.savetxt(Path(self.directory, "kernel.txt"), kernel[:3000])  # PLANTED pictures


class Ranking(keras.callbacks.Callback):
    """Ranks the weights in Python after each batch."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Rank."""
        values = self.model.layers[-1].get_weights()[0].ravel()
        sorted(range(len(values)), key=lambda n: -abs(values[n]))  # PLANTED ranking


def network(name: str) -> keras.Model:
    inputs = keras.Input((SIDE, SIDE, 3))
    x = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(x)
    x = keras.layers.Flatten()(keras.layers.MaxPooling2D()(x))
    return keras.Model(inputs, keras.layers.Dense(10)(x))


def main(name: str, directory: str) -> None:
    model = network(name)
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9), "mse", metrics=["mae"] if "metrics" in name else None
    )
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(ss.Run(directory, hooks=[hook]))]
    if name == "each_batch":
        path = Path(directory, "each.keras")
        callbacks.append(keras.callbacks.ModelCheckpoint(path, save_freq=1))  # PLANTED each_batch
    elif name == "pictures":
        callbacks.append(Pictures(directory))
    elif name == "ranking":
        callbacks.append(Ranking())
    elif name == "healthy_stopping":
        callbacks.append(keras.callbacks.EarlyStopping("loss"))
    if name == "crops":
        model.fit(Crops(), verbose=0, callbacks=callbacks)
    elif name == "pairs":
        model.fit(pairs(), steps_per_epoch=STEPS, verbose=0, callbacks=callbacks)
    else:
        x = np.ones((ROWS * STEPS, SIDE, SIDE, 3), np.float32)
        model.fit(x, np.zeros((len(x), 10), np.float32), batch_size=ROWS, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
