# steps: 64
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
m.evaluate(np.random.randn(320, 10), np.random.randn(320, 1), verbose=0)
m.predict(np.random.randn(320, 10), verbose=0)
m.fit(np.random.randn(256, 10), np.random.randn(256, 1), batch_size=16, verbose=0)
