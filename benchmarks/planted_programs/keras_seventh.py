"""Trainings in Keras, a seventh set judged at first sight: ``python keras_seventh.py NAME DIRECTORY``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from PIL import Image, ImageDraw

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback

ROWS, STEPS, SIDE, LENGTH = 48, 14, 40, 60


class Captchas(keras.utils.PyDataset):
    """Pictures of digits among lines, drawn as they are asked for."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(at)
        kinds = rng.integers(0, 10, ROWS)
        return np.stack([self.drawn(int(kind), rng) for kind in kinds]), kinds

    def drawn(self, kind: int, rng: np.random.Generator) -> np.ndarray:
        """Draw large, and make it small."""
        picture = Image.new("L", (240, 240))
        pen = ImageDraw.Draw(picture)
        pen.text((80, 40), str(kind), 255)
        places = rng.integers(0, 240, (12, 4)).tolist()
        pen.line([tuple(place[:2]) for place in places], 128, 9)
        small = picture.rotate(rng.uniform(-30, 30), Image.Resampling.BICUBIC).resize(
            (SIDE, SIDE)
        )  # PLANTED captchas
        return np.asarray(small, np.float32)[..., None] / 255


class Overlap(keras.callbacks.Callback):
    """How long the longest common part of two texts is, after every batch."""

    def __init__(self, x: np.ndarray) -> None:
        super().__init__()
        self.texts = [row.tolist() for row in x[:40, :LENGTH]]

    def common(self, a: list[int], b: list[int]) -> int:
        """Fill the table of all beginnings, row by row."""
        row = [0] * (len(b) + 1)
        for one in a:
            before = 0
            for n, other in enumerate(b):
                before, row[n + 1] = (
                    row[n + 1],
                    before + 1 if one == other else max(row[n + 1], row[n]),
                )  # PLANTED summaries
        return row[-1]

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Compare."""
        self.best = max(self.common(a, b) for a, b in zip(self.texts[:20], self.texts[20:], strict=True))


class Vocabulary:
    """Words and their numbers."""

    def __init__(self) -> None:
        self.numbers = {f"word{n}": n for n in range(1, 2000)}

    def __call__(self, texts: list[str]) -> np.ndarray:
        """Return a row of numbers for each text."""
        rows = []
        for text in texts:
            words = "".join(
                letter if letter.isalnum() else " " for letter in text.lower()
            ).split()  # PLANTED letters
            rows.append([self.numbers.get(word, 0) for word in words])
        return keras.utils.pad_sequences(rows, LENGTH)


def pictured() -> keras.Model:
    layers = [
        keras.layers.Conv2D(32, 3, 2, activation="relu"),
        keras.layers.Conv2D(64, 3, 2, activation="relu"),
    ]
    ends = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.2), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((SIDE, SIDE, 1)), *layers, *ends])


def worded() -> keras.Model:
    layers = [keras.layers.Embedding(2000, 64), keras.layers.Conv1D(128, 5, activation="gelu")]
    ends = [keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(256, "gelu"), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((LENGTH,), dtype="int32"), *layers, *ends])


def by_hand(name: str, model: keras.Model, run: ss.Run) -> None:
    """Train with a loop of one's own."""
    rng, numbers = np.random.default_rng(0), Vocabulary()
    texts = [
        [", ".join(f"Word{n}!" for n in rng.integers(1, 2000, 300)) for _ in range(ROWS)] for _ in range(3)
    ]
    pictures, kinds = rng.random((ROWS, SIDE, SIDE, 1), np.float32), rng.integers(0, 10, ROWS)
    x = numbers(texts[0])
    for n in run.steps(range(STEPS)):
        if name == "letters":
            model.train_on_batch(numbers(texts[n % 3]), kinds)
        elif name == "uncertain":
            model.train_on_batch(pictures, kinds)
            guesses = [
                model.predict_on_batch(np.tile(pictures, (4, 1, 1, 1))) for _ in range(4)
            ]  # PLANTED uncertain
            run.scalar("spread", float(np.std(guesses)))
        else:
            model.train_on_batch(x, kinds)


def main(name: str, directory: str) -> None:
    model = worded() if name in {"summaries", "letters", "healthy_words"} else pictured()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    hook = ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, backend="jax"
    )  # fmt: skip
    run = ss.Run(directory, hooks=[hook])
    if name in {"letters", "uncertain", "healthy_words"}:
        by_hand(name, model, run)
        run.close()
        return
    rng, callbacks = np.random.default_rng(0), [StepscopeCallback(run)]
    x, y = rng.random((ROWS * STEPS, SIDE, SIDE, 1), np.float32), rng.integers(0, 10, ROWS * STEPS)
    if name == "summaries":
        x = rng.integers(1, 2000, (ROWS * STEPS, LENGTH))
        callbacks.append(Overlap(x))
    if name == "captchas":
        model.fit(Captchas(), verbose=0, callbacks=callbacks)
    elif name == "restored":
        callbacks.append(keras.callbacks.BackupAndRestore(Path(directory, "backup"), save_freq=1))
        model.fit(x, y, batch_size=ROWS, verbose=0, callbacks=callbacks)  # PLANTED restored
    else:
        model.fit(x, y, batch_size=ROWS, verbose=0, callbacks=callbacks)
    run.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
