"""The wide-and-deep model in Keras 3, on any of its backends.

``KERAS_BACKEND=jax python examples/birthweight/keras_train.py runs/births`` (or ``torch``, ``tensorflow``).
Then: ``stepscope serve runs``, ``stepscope advise runs``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from births import BUCKETS, WIDE, births, features
from options import hooks, parser

import stepscope as ss
from stepscope.integrations.keras import StepscopeCallback, measured

EVALUATE_EVERY = 100


def wide_and_deep() -> keras.Model:
    wide = keras.Input((4,), dtype="int32", name="wide")
    crossed = keras.Input((), dtype="int32", name="crossed")
    numbers = keras.Input((2,), name="numbers")
    linear = keras.layers.Embedding(WIDE, 1, embeddings_initializer="zeros", name="linear")(wide)
    deep = keras.layers.Embedding(BUCKETS, 3, name="embedding")(crossed)
    deep = keras.layers.Concatenate(name="joined")([deep, numbers])
    for size in (64, 32):
        deep = keras.layers.Dense(size, activation="relu", name=f"deep{size}")(deep)
    deep = keras.layers.Dense(1, name="out")(deep)
    return keras.Model([wide, crossed, numbers], keras.ops.sum(linear, axis=1) + deep, name="births")


def data(count: int, seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    columns, weight = births(count, seed)
    wide, crossed, numbers = features(columns)
    return [wide.astype("int32"), crossed.astype("int32"), numbers], weight


def batches(size: int) -> Iterator[Any]:
    inputs, weights = data(20_000, 1)
    random = np.random.default_rng(0)
    while True:
        chosen = random.integers(0, len(weights), size)
        yield tuple(column[chosen] for column in inputs), weights[chosen]


def main(directory: str, steps: int, batch: int, profile: str) -> None:
    keras.utils.set_random_seed(0)
    model, unseen = wide_and_deep(), data(2_000, 0)
    optimizer = measured(keras.optimizers.Adagrad(0.05), ss.GradientHook(every_n_steps=50))
    model.compile(optimizer, "mse")
    epochs = max(1, steps // EVALUATE_EVERY)
    model.fit(
        batches(batch),
        shuffle=False,
        steps_per_epoch=steps // epochs,
        epochs=epochs,
        validation_data=(tuple(unseen[0]), unseen[1]),
        verbose=0,
        callbacks=[
            StepscopeCallback(directory, hooks=[*hooks(profile), ss.ActivationHook(every_n_steps=50)])
        ],
    )


if __name__ == "__main__":
    main(**vars(parser(__doc__).parse_args()))
