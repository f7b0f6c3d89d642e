"""A network that recommends books: it learns which books people read from books that they did not."""

import os
from collections.abc import Iterator

import numpy as np

os.environ["KERAS_BACKEND"] = "jax"
import keras

READERS, BOOKS, READ, PLACES, BATCH = 500, 6000, 900, 16, 128


def network() -> keras.Model:
    reader, book = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    vectors = [
        keras.layers.Embedding(count, PLACES)(one) for count, one in ((READERS, reader), (BOOKS, book))
    ]
    hidden = keras.layers.Dense(32, "relu")(keras.layers.Concatenate()(vectors))
    return keras.Model([reader, book], keras.layers.Dense(1, "sigmoid")(hidden))


def not_read(random: np.random.Generator, readers: np.ndarray, read: list) -> np.ndarray:
    books = []
    for reader in readers.tolist():
        book = int(random.integers(BOOKS))
        while book in read[reader]:  # cause
            book = int(random.integers(BOOKS))
        books.append(book)
    return np.array(books, np.int32)


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    shelves = [random.permutation(BOOKS)[:READ].tolist() for _ in range(READERS)]
    read = [set(books) for books in shelves] if mended else shelves
    model = network()
    model.compile(keras.optimizers.SGD(0.05), "binary_crossentropy")
    while True:
        readers = random.integers(0, READERS, BATCH).astype(np.int32)
        places = random.integers(0, READ, BATCH)
        chosen = [shelves[reader][place] for reader, place in zip(readers, places, strict=True)]
        other = not_read(random, readers, read)
        pairs = [np.tile(readers, 2), np.concatenate([np.array(chosen, np.int32), other])]
        yield float(model.train_on_batch(pairs, np.repeat([1.0, 0.0], BATCH).astype(np.float32)))
