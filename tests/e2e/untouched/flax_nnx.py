# steps: 40
import jax
import optax
from flax import nnx

m = nnx.Linear(10, 1, rngs=nnx.Rngs(0))
o = nnx.Optimizer(m, optax.adam(1e-3), wrt=nnx.Param)


@nnx.jit
def train_step(m, o, x, y):
    loss, g = nnx.value_and_grad(lambda m: ((m(x) - y) ** 2).mean())(m)
    o.update(m, g)
    return loss


for i in range(40):
    x = jax.random.normal(jax.random.PRNGKey(i), (32, 10))
    loss = train_step(m, o, x, x.sum(1, keepdims=True))
