# steps: 40
# series: Training_loss
# python: .venv-keras
# The guide to training loops of Keras 3 on TensorFlow: a compiled step for training, one for validation, `optimizer.apply`.
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)]
)
optimizer = keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
val_acc_metric = keras.metrics.SparseCategoricalAccuracy()
x = np.random.normal(size=(192, 16)).astype("float32")
y = np.random.randint(0, 4, 192)
train_dataset = tf.data.Dataset.from_tensor_slices((x[:160], y[:160])).shuffle(160).batch(8)
val_dataset = tf.data.Dataset.from_tensor_slices((x[160:], y[160:])).batch(8)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss_value = loss_fn(y, model(x, training=True))
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    return loss_value


@tf.function
def test_step(x, y):
    val_acc_metric.update_state(y, model(x, training=False))


for epoch in range(2):
    train = train_step if epoch == 0 else tf.function(train_step)
    for step, (x_batch, y_batch) in enumerate(train_dataset):
        loss_value = train(x_batch, y_batch)
        if step % 5 == 0:
            print(f"Training loss (for 1 batch) at step {step}: {float(loss_value):.4f}")
    for x_batch, y_batch in val_dataset:
        test_step(x_batch, y_batch)
    val_acc_metric.reset_state()
