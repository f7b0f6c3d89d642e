# steps: 50
import jax
import jax.numpy as jnp
import optax

tx = optax.adam(1e-2)
params = {"w": jnp.zeros((10, 1)), "b": jnp.zeros(1)}
state = tx.init(params)


@jax.jit
def step(params, state, x, y):
    loss, g = jax.value_and_grad(lambda p: ((x @ p["w"] + p["b"] - y) ** 2).mean())(params)
    up, state = tx.update(g, state)
    return optax.apply_updates(params, up), state, loss


key = jax.random.PRNGKey(0)
for i in range(50):
    key, k = jax.random.split(key)
    x = jax.random.normal(k, (32, 10))
    params, state, loss = step(params, state, x, x.sum(1, keepdims=True))
    if i % 10 == 0:
        print(f"step {i} loss {loss:.4f}")
