"""Pre-training and fine-tuning by two compiled functions; between them an attack that computes gradients, too."""

# steps: 50
# says: the wait for data
# series: pretrain_loss, finetune_loss, robust_acc
from functools import partial

import jax
import jax.numpy as jnp


def loss_of(weights, x):
    return jnp.mean((jnp.tanh(x @ weights["in"]) @ weights["out"] - x) ** 2)


@jax.jit
def pretrain(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, gradients), loss


@partial(jax.jit, donate_argnums=0)
def finetune(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    return jax.tree_util.tree_map(lambda w, g: w - 0.01 * g, weights, gradients), loss


@jax.jit
def attack(x, weights):
    return x + 0.01 * jnp.sign(jax.grad(loss_of, argnums=1)(weights, x))


key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (16, 8))
weights = {"in": 0.1 * jax.random.normal(key, (8, 4)), "out": 0.1 * jax.random.normal(key, (4, 8))}
for step in range(20):
    weights, loss = pretrain(weights, x)
    if step % 5 == 0:
        print(f"pretrain loss {loss.item():.4f}")
moved = x
for _ in range(7):
    moved = attack(moved, weights)
print(f"robust acc {loss_of(weights, moved).item():.3f}")
weights = {"in": weights["in"], "out": 0.1 * jax.random.normal(key, (4, 8))}
for step in range(30):
    weights, loss = finetune(weights, x)
    if step % 5 == 0:
        print(f"finetune loss {loss.item():.4f}")
