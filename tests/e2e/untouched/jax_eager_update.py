"""A loop of JAX in which only the gradients are compiled: the weights are updated outside, one by one."""

# steps: 40
import jax
import jax.numpy as jnp
import numpy as np


def predict(params, x):
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


def loss_fn(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


rng = np.random.default_rng(0)
params = {"w1": jnp.array(rng.normal(size=(8, 32)) * 0.3), "w2": jnp.array(rng.normal(size=(32, 1)) * 0.3)}
grad_fn = jax.jit(jax.value_and_grad(loss_fn))
for step in range(40):
    x = rng.normal(size=(16, 8))
    loss, grads = grad_fn(params, x, x[:, :1])
    params = jax.tree_util.tree_map(lambda p, g: p - 0.05 * g, params, grads)
print("error", float(loss_fn(params, x, x[:, :1])))
