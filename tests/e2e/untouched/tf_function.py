# steps: 40
# python: .venv-tensorflow
# says: batches come from no loader that is known here
import numpy as np
import tensorflow as tf

x, y = np.random.randn(320, 10).astype("float32"), np.random.randint(0, 3, 320)
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320).batch(16)
test = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(3)])
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def test_step(x, y):
    return loss_of(y, model(x, training=False))


for epoch in range(2):
    for batch in train:
        train_step(*batch)
    losses = [float(test_step(*batch)) for batch in test]
    print(f"epoch {epoch} loss {np.mean(losses):.3f}")
