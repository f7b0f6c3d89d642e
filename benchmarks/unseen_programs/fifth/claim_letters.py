"""A model that sorts letters about claims, from the counts of their words."""

import os
from collections.abc import Iterator

import numpy as np

os.environ["KERAS_BACKEND"] = "jax"
import keras

WORDS, KINDS = 300, 6


def training(mended: bool) -> Iterator[float]:
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    letters = random.poisson(0.5, (512, WORDS)).astype(np.float32)
    kinds = (letters @ random.normal(size=(WORDS, KINDS))).argmax(1)
    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(32, "relu"), keras.layers.Dense(KINDS)]
    model = keras.Sequential([keras.Input((WORDS,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, run_eagerly=not mended)  # cause
    while True:
        for chosen in random.permutation(512).reshape(-1, 32):
            yield float(model.train_on_batch(letters[chosen], kinds[chosen]))
