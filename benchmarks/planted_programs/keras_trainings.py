"""Trainings in Keras on JAX.

Called as ``python keras_trainings.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
from hook import profiler_hook
from PIL import Image, ImageDraw

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


def dense_layers(name: str, directory: str) -> None:
    model = keras.Sequential([keras.layers.Dense(512, "tanh") for _ in range(6)] + [keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    hook = profiler_hook(backend="jax")
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(ss.Run(directory, hooks=[hook]))]
    if name == "checkpoint":
        callbacks.append(Saver(directory))
    model.fit(Data(slow=name == "slow_loader"), epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


EAGER_ROWS = 256


class EagerWatching(keras.callbacks.Callback):
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
            self.model.predict(np.ones((EAGER_ROWS, 512), np.float32), verbose=0)  # PLANTED predicting


def eager_layers(name: str, directory: str) -> None:
    model = keras.Sequential([keras.layers.Dense(512, "tanh") for _ in range(6)] + [keras.layers.Dense(10)])
    model.compile("sgd", "mse", run_eagerly=name == "run_eagerly")
    hook = profiler_hook(backend="jax")
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), EagerWatching(name)]
    x, y = np.ones((14 * EAGER_ROWS, 512), np.float32), np.ones((14 * EAGER_ROWS, 10), np.float32)
    model.fit(x, y, batch_size=EAGER_ROWS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


RELU_ROWS, RELU_WIDTH, RELU_STEPS = 256, 384, 14


class ReluWatching(keras.callbacks.Callback):
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
    x, y = np.ones((RELU_ROWS, RELU_WIDTH), np.float32), np.ones((RELU_ROWS, 10), np.float32)
    while True:
        if slow:
            x = np.sort(np.random.default_rng(0).random((RELU_ROWS * 8, RELU_WIDTH)), axis=0)[
                :RELU_ROWS
            ]  # PLANTED generator
        yield x.astype(np.float32), y


def relu_layers(name: str, directory: str) -> None:
    layers = [keras.layers.Dense(RELU_WIDTH, "relu") for _ in range(5)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    model.compile("adam", "mse", metrics=["mae"])
    hook = profiler_hook(backend="jax")
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), ReluWatching(name, directory)]
    data = generated(name == "generator")
    model.fit(data, steps_per_epoch=RELU_STEPS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


GELU_ROWS, GELU_WIDTH, GELU_STEPS = 192, 416, 14


class Batches(keras.utils.PyDataset):
    """Batches, slow ones where that is planted."""

    def __init__(self, slow: bool) -> None:
        super().__init__()
        self.slow = slow

    def __len__(self) -> int:
        return GELU_STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.ones((GELU_ROWS, GELU_WIDTH), np.float32)
        if self.slow:
            x = np.array(
                [[(n * k) % 7 for n in range(GELU_WIDTH)] for k in range(GELU_ROWS * 4)]
            )  # PLANTED sequence
        return x[:GELU_ROWS].astype(np.float32), np.ones((GELU_ROWS, 10), np.float32)


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
            x = np.ones((GELU_ROWS * 8, GELU_WIDTH), np.float32)
            self.model.evaluate(x, x[:, :10], verbose=0)  # PLANTED judged


def gelu_layers(name: str, directory: str) -> None:
    layers = [keras.layers.Dense(GELU_WIDTH, "gelu") for _ in range(6)]
    model = keras.Sequential([*layers, keras.layers.Dropout(0.1), keras.layers.Dense(10)])
    model.compile("adamw", "mse")
    hook = profiler_hook(backend="jax")
    callbacks = [StepscopeCallback(ss.Run(directory, hooks=[hook])), Doing(name, directory)]
    if name == "healthy_watched":
        callbacks += [keras.callbacks.CSVLogger(f"{directory}/log.csv"), keras.callbacks.TerminateOnNaN()]
    if name in ("sequence", "healthy_sequence"):
        model.fit(Batches(name == "sequence"), epochs=1, verbose=0, callbacks=callbacks)
    else:
        x, y = (
            np.ones((GELU_ROWS * GELU_STEPS, GELU_WIDTH), np.float32),
            np.ones((GELU_ROWS * GELU_STEPS, 10), np.float32),
        )
        model.fit(x, y, batch_size=GELU_ROWS, epochs=1, verbose=0, callbacks=callbacks)
    callbacks[0].run.close()


PICTURES_ROWS, PICTURES_SIDE, PICTURES_STEPS = 96, 16, 14


class Crops(keras.utils.PyDataset):
    """Pictures, each cropped and turned in Python."""

    def __len__(self) -> int:
        return PICTURES_STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        large = np.ones((PICTURES_ROWS, PICTURES_SIDE + 8, PICTURES_SIDE + 8, 3), np.float32)
        found = [self.crop(each) for each in large for _ in range(12)]
        return np.stack(found[:PICTURES_ROWS]), np.zeros((PICTURES_ROWS, 10), np.float32)

    def crop(self, picture: np.ndarray) -> np.ndarray:
        """Return a part of a picture, turned."""
        top, left = np.random.randint(0, 8, 2)
        return np.rot90(
            picture[top : top + PICTURES_SIDE, left : left + PICTURES_SIDE]
        ).copy()  # PLANTED crops


def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches that are mixed, pixel by pixel of a row."""
    x = np.ones((PICTURES_ROWS, PICTURES_SIDE, PICTURES_SIDE, 3), np.float32)
    while True:
        for a in range(PICTURES_ROWS):
            for row in range(PICTURES_SIDE):
                for column in range(0, PICTURES_SIDE, 2):
                    x[a, row, column] = 0.5 * x[a, row, column] + 0.5 * x[-a, row, column]  # PLANTED pairs
        yield x, np.zeros((PICTURES_ROWS, 10), np.float32)


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


def pictures_network(name: str) -> keras.Model:
    inputs = keras.Input((PICTURES_SIDE, PICTURES_SIDE, 3))
    x = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Conv2D(48, 3, padding="same", activation="relu")(x)
    x = keras.layers.Flatten()(keras.layers.MaxPooling2D()(x))
    return keras.Model(inputs, keras.layers.Dense(10)(x))


def pictures(name: str, directory: str) -> None:
    model = pictures_network(name)
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9), "mse", metrics=["mae"] if "metrics" in name else None
    )
    hook = profiler_hook(backend="jax")
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
        model.fit(pairs(), steps_per_epoch=PICTURES_STEPS, verbose=0, callbacks=callbacks)
    else:
        x = np.ones((PICTURES_ROWS * PICTURES_STEPS, PICTURES_SIDE, PICTURES_SIDE, 3), np.float32)
        model.fit(
            x, np.zeros((len(x), 10), np.float32), batch_size=PICTURES_ROWS, verbose=0, callbacks=callbacks
        )
    callbacks[0].run.close()


TEXTS_ROWS, TEXTS_STEPS, WORDS, TEXTS_LENGTH = 64, 14, 4000, 48

TEXT = "a rose is a rose is a rose, said the poet who counted petals until the evening came. " * 6


class Reviews(keras.utils.PyDataset):
    """Texts that become numbers as they are asked for."""

    def __len__(self) -> int:
        return TEXTS_STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.stack([self.numbers(TEXT[n % 7 :]) for n in range(TEXTS_ROWS)])
        return x, np.zeros((TEXTS_ROWS, 1), np.float32)

    def numbers(self, text: str) -> np.ndarray:
        """Count pairs of letters."""
        counts: dict[str, int] = {}
        for a, b in zip(text[:-1], text[1:], strict=True):  # noqa: RUF007
            counts[a + b] = counts.get(a + b, 0) + hash(a + b) % 3  # PLANTED reviews
        found = np.zeros(TEXTS_LENGTH, np.int32)
        found[: min(TEXTS_LENGTH, len(counts))] = list(counts.values())[:TEXTS_LENGTH]
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


def texts_network() -> keras.Model:
    inputs = keras.Input((TEXTS_LENGTH,), dtype="int32")
    x = keras.layers.Embedding(WORDS, 32)(inputs)
    for _ in range(2):
        x = keras.layers.Conv1D(128, 5, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(x)))


def texts(name: str, directory: str) -> None:
    model = texts_network()
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    hook = profiler_hook(backend="jax")
    x = np.random.randint(0, WORDS, (TEXTS_ROWS * TEXTS_STEPS, TEXTS_LENGTH)).astype(np.int32)
    y = np.zeros((len(x), 1), np.float32)
    run = ss.Run(directory, hooks=[hook])
    if name in {"batches", "compared", "healthy_batches"}:
        for n in run.steps(range(TEXTS_STEPS)):
            size = TEXTS_ROWS - n if name == "batches" else TEXTS_ROWS
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
        model.fit(x, y, batch_size=TEXTS_ROWS, verbose=0, callbacks=callbacks)
    run.close()
    if name == "formatted":
        Path(directory, "done").touch()


SIGNALS_ROWS, SIGNALS_STEPS = 64, 14


class Folded(keras.utils.PyDataset):
    """Signals that are made longer and shorter as they are asked for."""

    def __len__(self) -> int:
        return SIGNALS_STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        signals = np.random.default_rng(at).normal(size=(SIGNALS_ROWS, 2000))
        rows = [np.interp(np.linspace(0, 1999, 4096), np.arange(2000), row)[:128] for row in signals]
        return self.scaled(np.array(rows)), np.zeros((SIGNALS_ROWS, 1))

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


def signals_network() -> keras.Model:
    layers = [keras.layers.Dense(768, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((128,)), *layers, keras.layers.Dense(1)])


def signals(name: str, directory: str) -> None:
    model = signals_network()
    model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
    hook = profiler_hook(backend="jax")
    x, y = (
        np.random.rand(SIGNALS_ROWS * SIGNALS_STEPS, 128).astype(np.float32),
        np.zeros((SIGNALS_ROWS * SIGNALS_STEPS, 1), np.float32),
    )
    run = ss.Run(directory, hooks=[hook])
    callbacks: list[keras.callbacks.Callback] = [StepscopeCallback(run)]
    if name == "journal":
        callbacks.append(Journal(Path(directory, "weights.json")))
    elif name == "saved":
        callbacks.append(Saved(Path(directory, "model.keras")))
    if name == "folded":
        model.fit(Folded(), verbose=0, callbacks=callbacks)
    else:
        model.fit(x, y, batch_size=SIGNALS_ROWS, verbose=0, callbacks=callbacks)
    run.close()


DRAWN_ROWS, DRAWN_STEPS, DRAWN_SIDE, DRAWN_LENGTH = 48, 14, 40, 60


class Captchas(keras.utils.PyDataset):
    """Pictures of digits among lines, drawn as they are asked for."""

    def __len__(self) -> int:
        return DRAWN_STEPS

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(at)
        kinds = rng.integers(0, 10, DRAWN_ROWS)
        return np.stack([self.drawn(int(kind), rng) for kind in kinds]), kinds

    def drawn(self, kind: int, rng: np.random.Generator) -> np.ndarray:
        """Draw large, and make it small."""
        picture = Image.new("L", (240, 240))
        pen = ImageDraw.Draw(picture)
        pen.text((80, 40), str(kind), 255)
        places = rng.integers(0, 240, (12, 4)).tolist()
        pen.line([tuple(place[:2]) for place in places], 128, 9)
        small = picture.rotate(rng.uniform(-30, 30), Image.Resampling.BICUBIC).resize(
            (DRAWN_SIDE, DRAWN_SIDE)
        )  # PLANTED captchas
        return np.asarray(small, np.float32)[..., None] / 255


class Overlap(keras.callbacks.Callback):
    """How long the longest common part of two texts is, after every batch."""

    def __init__(self, x: np.ndarray) -> None:
        super().__init__()
        self.texts = [row.tolist() for row in x[:40, :DRAWN_LENGTH]]

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
        return keras.utils.pad_sequences(rows, DRAWN_LENGTH)


def pictured() -> keras.Model:
    layers = [
        keras.layers.Conv2D(32, 3, 2, activation="relu"),
        keras.layers.Conv2D(64, 3, 2, activation="relu"),
    ]
    ends = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.2), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((DRAWN_SIDE, DRAWN_SIDE, 1)), *layers, *ends])


def worded() -> keras.Model:
    layers = [keras.layers.Embedding(2000, 64), keras.layers.Conv1D(128, 5, activation="gelu")]
    ends = [keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(256, "gelu"), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((DRAWN_LENGTH,), dtype="int32"), *layers, *ends])


def by_hand(name: str, model: keras.Model, run: ss.Run) -> None:
    """Train with a loop of one's own."""
    rng, numbers = np.random.default_rng(0), Vocabulary()
    texts = [
        [", ".join(f"Word{n}!" for n in rng.integers(1, 2000, 300)) for _ in range(DRAWN_ROWS)]
        for _ in range(3)
    ]
    pictures, kinds = (
        rng.random((DRAWN_ROWS, DRAWN_SIDE, DRAWN_SIDE, 1), np.float32),
        rng.integers(0, 10, DRAWN_ROWS),
    )
    x = numbers(texts[0])
    for n in run.steps(range(DRAWN_STEPS)):
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


def captchas_or_words(name: str, directory: str) -> None:
    model = worded() if name in {"summaries", "letters", "healthy_words"} else pictured()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    hook = profiler_hook(backend="jax")
    run = ss.Run(directory, hooks=[hook])
    if name in {"letters", "uncertain", "healthy_words"}:
        by_hand(name, model, run)
        run.close()
        return
    rng, callbacks = np.random.default_rng(0), [StepscopeCallback(run)]
    x, y = (
        rng.random((DRAWN_ROWS * DRAWN_STEPS, DRAWN_SIDE, DRAWN_SIDE, 1), np.float32),
        rng.integers(0, 10, DRAWN_ROWS * DRAWN_STEPS),
    )
    if name == "summaries":
        x = rng.integers(1, 2000, (DRAWN_ROWS * DRAWN_STEPS, DRAWN_LENGTH))
        callbacks.append(Overlap(x))
    if name == "captchas":
        model.fit(Captchas(), verbose=0, callbacks=callbacks)
    elif name == "restored":
        callbacks.append(keras.callbacks.BackupAndRestore(Path(directory, "backup"), save_freq=1))
        model.fit(x, y, batch_size=DRAWN_ROWS, verbose=0, callbacks=callbacks)  # PLANTED restored
    else:
        model.fit(x, y, batch_size=DRAWN_ROWS, verbose=0, callbacks=callbacks)
    run.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
