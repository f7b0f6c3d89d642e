# steps: 60
# series: loss
# python: .venv-tensorflow
# TensorFlow's guide to training loops: variables in a tf.Module, and `assign_sub` in place of an optimizer.
import tensorflow as tf


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.normal([3, 1], seed=1))
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return x @ self.w + self.b


tf.random.set_seed(0)
x = tf.random.normal([240, 3])
y = x @ tf.constant([[3.0], [-1.0], [0.5]]) + 2.0
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
model = Linear()


def train_step(x, y, learning_rate):
    with tf.GradientTape() as t:
        current_loss = tf.reduce_mean(tf.square(y - model(x)))
    dw, db = t.gradient(current_loss, [model.w, model.b])
    model.w.assign_sub(learning_rate * dw)
    model.b.assign_sub(learning_rate * db)
    return current_loss


for epoch in range(4):
    for batch_x, batch_y in dataset:
        loss = train_step(batch_x, batch_y, 0.05)
    print(f"Epoch {epoch}: loss = {loss:2.5f}")
