# steps: 40
# series: Training_loss
# Writing a training loop from scratch in JAX, as in the Keras guide.
import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np

model = keras.Sequential(
    [keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)]
)
optimizer = keras.optimizers.Adam(learning_rate=1e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer.build(model.trainable_variables)


def compute_loss_and_updates(trainable_variables, non_trainable_variables, x, y):
    y_pred, non_trainable_variables = model.stateless_call(trainable_variables, non_trainable_variables, x)
    return loss_fn(y, y_pred), non_trainable_variables


grad_fn = jax.value_and_grad(compute_loss_and_updates, has_aux=True)


@jax.jit
def train_step(state, data):
    trainable_variables, non_trainable_variables, optimizer_variables = state
    x, y = data
    (loss, non_trainable_variables), grads = grad_fn(trainable_variables, non_trainable_variables, x, y)
    trainable_variables, optimizer_variables = optimizer.stateless_apply(
        optimizer_variables, grads, trainable_variables
    )
    return loss, (trainable_variables, non_trainable_variables, optimizer_variables)


@jax.jit
def eval_step(state, data):
    trainable_variables, non_trainable_variables, _ = state
    x, y = data
    y_pred, _ = model.stateless_call(trainable_variables, non_trainable_variables, x)
    return loss_fn(y, y_pred)


x_train = np.random.normal(size=(320, 16)).astype("float32")
y_train = np.random.randint(0, 4, 320)
state = (
    [v.value for v in model.trainable_variables],
    [v.value for v in model.non_trainable_variables],
    [v.value for v in optimizer.variables],
)
for epoch in range(4):
    for step in range(10):
        data = (x_train[step * 32 : step * 32 + 32], y_train[step * 32 : step * 32 + 32])
        loss, state = train_step(state, data)
        if step % 5 == 0:
            print(f"Training loss (for 1 batch) at step {step}: {float(loss):.4f}")
            print(f"Seen so far: {(step + 1) * 32} samples")
    for step in range(3):
        val_loss = eval_step(state, (x_train[:32], y_train[:32]))
