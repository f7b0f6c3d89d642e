# steps: 20
# says: which loops over gradients
# points: loss 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
import jax
import jax.numpy as jnp
from jax import lax

key = jax.random.PRNGKey(0)
X = jax.random.normal(key, (64, 8))
Y = X @ jnp.arange(8.0)


def loss_fn(w):
    return jnp.mean((X @ w - Y) ** 2)


def one(w, _):
    l, g = jax.value_and_grad(loss_fn)(w)
    return w - 0.01 * g, l


@jax.jit
def ten(w):
    return lax.scan(one, w, None, length=10)


w = jnp.zeros(8)
for i in range(20):
    w, losses = ten(w)
    print(f"iter {i * 10}: loss {losses[-1]:.4f}")
