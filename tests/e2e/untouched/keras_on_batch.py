# steps: 36
# series: loss, accuracy
# says: batches come from no loader that is known here
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(192, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")[:, None]
model = keras.Sequential(
    [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])


def batches(x, y, batch_size=16):
    order = rng.permutation(len(x))
    for start in range(0, len(x), batch_size):
        index = order[start : start + batch_size]
        yield x[index], y[index]


for epoch in range(3):
    model.reset_metrics()
    for step, (xb, yb) in enumerate(batches(x, y)):
        loss, acc = model.train_on_batch(xb, yb)
    print(f"Epoch {epoch + 1}/3 - loss: {loss:.4f} - accuracy: {acc:.4f}")
print(model.test_on_batch(x, y))
