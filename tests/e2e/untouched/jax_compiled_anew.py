"""The function is compiled in each step, as it is made anew there; an evaluation has gradients, too."""

# steps: 12
import jax
import jax.numpy as jnp
import numpy as np


def train():
    rng = np.random.default_rng(0)
    w = jnp.ones((64, 1))
    sensitivity = jax.jit(jax.grad(lambda x, w: jnp.sum(jnp.tanh(x @ w))))
    for step in range(12):
        x = jnp.array(rng.normal(size=(32, 64)))
        gradient_of = jax.jit(jax.grad(lambda w, x=x: jnp.mean((x @ w - x[:, :1]) ** 2)))
        w = w - 0.1 * gradient_of(w)
        if step % 4 == 3:
            print("input", float(jnp.abs(sensitivity(x, w)).mean()))


train()
