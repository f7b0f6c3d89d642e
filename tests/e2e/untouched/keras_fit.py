# steps: 48
import keras
import numpy as np

m = keras.Sequential(
    [keras.layers.Input((10,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
)
m.compile("adam", "mse", metrics=["mae"])
m.fit(
    np.random.randn(320, 10),
    np.random.randn(320, 1),
    epochs=3,
    batch_size=16,
    validation_split=0.2,
    verbose=2,
)
