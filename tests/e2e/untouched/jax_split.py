# steps: 45
import jax
import jax.numpy as jnp

params = {"w": jnp.zeros((10, 1))}


def loss(params, x, y):
    return ((x @ params["w"] - y) ** 2).mean()


gradients = jax.jit(jax.grad(loss))
update = jax.jit(lambda params, grads: jax.tree.map(lambda p, g: p - 0.1 * g, params, grads))
key = jax.random.PRNGKey(0)
for _ in range(45):
    key, sub = jax.random.split(key)
    x = jax.random.normal(sub, (32, 10))
    params = update(params, gradients(params, x, x.sum(1, keepdims=True)))
