# steps: 36
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax.training import train_state


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(16)(x)))


net = Net()
params = net.init(jax.random.PRNGKey(0), jnp.ones((1, 10)))
state = train_state.TrainState.create(apply_fn=net.apply, params=params, tx=optax.sgd(0.01))


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        return ((state.apply_fn(params, x) - y) ** 2).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


@jax.jit
def evaluate(params, x, y):
    return ((net.apply(params, x) - y) ** 2).mean()


x = jax.random.normal(jax.random.PRNGKey(1), (32, 10))
for epoch in range(3):
    for _ in range(12):
        state, loss = train_step(state, x, x.sum(1, keepdims=True))
    print(f"epoch {epoch}: val_loss {evaluate(state.params, x, x.sum(1, keepdims=True)):.4f}")
