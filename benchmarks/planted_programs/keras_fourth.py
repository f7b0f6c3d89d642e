"""Trainings in Keras, a fourth set judged at first sight: ``python keras_fourth.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS, STEPS, WORDS, LENGTH = 64, 14, 4000, 48
TEXT = "a rose is a rose is a rose, said the poet who counted petals until the evening came. " * 6


class Reviews(keras.utils.PyDataset):
    """Texts that become numbers as they are asked for."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.stack([self.numbers(TEXT[n % 7 :]) for n in range(ROWS)])
        return x, np.zeros((ROWS, 1), np.float32)

    def numbers(self, text: str) -> np.ndarray:
        """Count pairs of letters."""
        counts: dict[str, int] = {}
        for a, b in zip(text[:-1], text[1:], strict=True):  # noqa: RUF007
            counts[a + b] = counts.get(a + b, 0) + hash(a + b) % 3  # PLANTED reviews
        found = np.zeros(LENGTH, np.int32)
        found[: min(LENGTH, len(counts))] = list(counts.values())[:LENGTH]
        return found


class Formatted(keras.callbacks.Callback):
    """Weights as text on the terminal."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Print."""
        for weight in self.model.get_weights():
            print(
                batch, np.array2string(weight.ravel()[:3000], precision=4, threshold=3000)
            )  # PLANTED formatted


class Neighbour(keras.callbacks.Callback):
    """Looks for the nearest word of some words, in Python."""

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Look."""
        table = self.model.layers[1].get_weights()[0].tolist()
        for a in table[:3]:
            min(
                range(WORDS), key=lambda n: sum((x - y) ** 2 for x, y in zip(a, table[n], strict=True))
            )  # PLANTED neighbour


def network() -> keras.Model:
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(WORDS, 32)(inputs)
    for _ in range(2):
        x = keras.layers.Conv1D(128, 5, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(x)))


def main(name: str, directory: str) -> None:
    model = network()
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    x = np.random.randint(0, WORDS, (ROWS * STEPS, LENGTH)).astype(np.int32)
    y = np.zeros((len(x), 1), np.float32)
    run = ss.Run(directory, hooks=[hook])
    if name in {"batches", "compared", "healthy_batches"}:
        for n in run.steps(range(STEPS)):
            size = ROWS - n if name == "batches" else ROWS
            model.train_on_batch(x[:size], y[:size])  # PLANTED batches
            if name == "compared":
                model.predict(x[:512], verbose=0)  # PLANTED compared
        run.close()
        return
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(run)]
    if name == "formatted":
        callbacks.append(Formatted())
    elif name == "neighbour":
        callbacks.append(Neighbour())
    if name == "reviews":
        model.fit(Reviews(), verbose=0, callbacks=callbacks)
    else:
        model.fit(x, y, batch_size=ROWS, verbose=0, callbacks=callbacks)
    run.close()
    if name == "formatted":
        Path(directory, "done").touch()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
