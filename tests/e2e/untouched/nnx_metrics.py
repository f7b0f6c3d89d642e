# steps: 24
# series: train/loss, train/accuracy
import jax
import jax.numpy as jnp
import optax
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(6, 16, rngs=rngs)
        self.two = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.two(nnx.relu(self.one(x)))


def loss_fn(model, batch):
    logits = model(batch["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"]).mean(), logits


@nnx.jit
def train_step(model, optimizer, metrics, batch):
    (loss, logits), grads = nnx.value_and_grad(loss_fn, has_aux=True)(model, batch)
    metrics.update(loss=loss, logits=logits, labels=batch["y"])
    optimizer.update(model, grads)


model = MLP(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
metrics = nnx.MultiMetric(accuracy=nnx.metrics.Accuracy(), loss=nnx.metrics.Average("loss"))
x = jax.random.normal(jax.random.key(1), (24, 32, 6))
for step in range(24):
    train_step(model, optimizer, metrics, {"x": x[step], "y": jnp.argmax(x[step][:, :3], -1)})
    if (step + 1) % 8 == 0:
        history = {f"train_{name}": value for name, value in metrics.compute().items()}
        metrics.reset()
        print(
            f"[train] step: {step + 1}, loss: {history['train_loss']}, accuracy: {history['train_accuracy'] * 100}"
        )
