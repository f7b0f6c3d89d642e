# steps: 48
# series: loss
import jax
import jax.numpy as jnp
import optax

key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (48, 16, 5))
y = x.sum(-1, keepdims=True)
params = {"w": jnp.zeros((5, 1)), "b": jnp.zeros((1,))}
tx = optax.MultiSteps(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)), every_k_schedule=4)
state = tx.init(params)


def loss_fn(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


@jax.jit
def train_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


for i in range(48):
    params, state, loss = train_step(params, state, x[i], y[i])
    if (i + 1) % 4 == 0:
        print(f"micro-step {i + 1}: loss = {float(loss):.4f}")
