# steps: 20
# points: train/loss 0 5 10 15
# python: .venv-tensorflow
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
writer = tf.summary.create_file_writer("logs")
optimizer = tf.keras.optimizers.SGD(0.01)
for step in range(20):
    x = np.random.randn(16, 10).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if step % 5 == 0:
        with writer.as_default():
            tf.summary.scalar("train/loss", loss, step=step)
