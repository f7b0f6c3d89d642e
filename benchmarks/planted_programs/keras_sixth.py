"""Trainings in Keras, a sixth set judged at first sight: ``python keras_sixth.py NAME DIRECTORY``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS, STEPS = 64, 14


class Folded(keras.utils.PyDataset):
    """Signals that are made longer and shorter as they are asked for."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        signals = np.random.default_rng(at).normal(size=(ROWS, 2000))
        rows = [np.interp(np.linspace(0, 1999, 4096), np.arange(2000), row)[:128] for row in signals]
        return self.scaled(np.array(rows)), np.zeros((ROWS, 1))

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Bring every row to its ranks."""
        for _ in range(12):
            rows = np.apply_along_axis(
                lambda row: np.argsort(np.argsort(row)) / 128.0, 1, rows
            )  # PLANTED folded
        return rows.astype(np.float32)


class Journal(keras.callbacks.Callback):
    """A file with the weights of every batch."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Write."""
        with self.path.open("a") as file:
            json.dump([weight.tolist() for weight in self.model.get_weights()[:2]], file)  # PLANTED journal


class Saved(keras.callbacks.Callback):
    """The model after every batch."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Save."""
        self.model.save(self.path)  # PLANTED saved


def network() -> keras.Model:
    layers = [keras.layers.Dense(768, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((128,)), *layers, keras.layers.Dense(1)])


def main(name: str, directory: str) -> None:
    model = network()
    model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    x, y = np.random.rand(ROWS * STEPS, 128).astype(np.float32), np.zeros((ROWS * STEPS, 1), np.float32)
    run = ss.Run(directory, hooks=[hook])
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(run)]
    if name == "journal":
        callbacks.append(Journal(Path(directory, "weights.json")))
    elif name == "saved":
        callbacks.append(Saved(Path(directory, "model.keras")))
    if name == "folded":
        model.fit(Folded(), verbose=0, callbacks=callbacks)
    else:
        model.fit(x, y, batch_size=ROWS, verbose=0, callbacks=callbacks)
    run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
