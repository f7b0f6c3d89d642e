# lacks: the steps: they are within a call of train, which loops over gradients
# PureJaxRL's way: the whole training is one compiled call, a scan over epochs of a scan over batches.
import jax
import jax.numpy as jnp
import optax


def train(key):
    kx, kw = jax.random.split(key)
    x = jax.random.normal(kx, (10, 16, 6))
    params = {"w": jax.random.normal(kw, (6, 1)), "b": jnp.zeros(1)}
    tx = optax.adam(1e-2)

    def loss_fn(params, batch):
        return jnp.mean((batch @ params["w"] + params["b"] - batch.sum(1, keepdims=True)) ** 2)

    def update(carry, batch):
        params, state = carry
        loss, grads = jax.value_and_grad(loss_fn)(params, batch)
        updates, state = tx.update(grads, state)
        return (optax.apply_updates(params, updates), state), loss

    def epoch(carry, _):
        carry, losses = jax.lax.scan(update, carry, x)
        return carry, losses.mean()

    (params, _), losses = jax.lax.scan(epoch, (params, tx.init(params)), None, length=12)
    return params, losses


params, losses = jax.jit(train)(jax.random.key(0))
for number, value in enumerate(losses):
    print(f"epoch {number + 1:2d}  loss {float(value):.4f}")
