# steps: 40
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

inputs = keras.Input((10,))
hidden = keras.layers.Dense(16, activation="relu")(inputs)
model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(hidden))
model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(np.random.randn(320, 10), np.random.randint(0, 3, 320), batch_size=16, epochs=2, verbose=0)
