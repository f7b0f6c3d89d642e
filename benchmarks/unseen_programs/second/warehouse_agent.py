"""Q-learning for a warehouse in JAX, with the memory of what happened on the device."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

CAPACITY, STATE, ACTIONS, NEW = 60_000, 48, 6, 16
Memory = dict[str, jax.Array]


def add(memory: Memory, place: jax.Array, rows: Memory) -> Memory:
    """Overwrite the oldest rows of the memory."""
    places = (place + jnp.arange(NEW)) % CAPACITY
    return {name: memory[name].at[places].set(rows[name]) for name in memory}


add_copying = jax.jit(add)
add_in_place = jax.jit(add, donate_argnums=0)


def q_values(params: dict, states: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(states @ params["w1"] + params["b1"])
    return jax.nn.relu(hidden @ params["w2"] + params["b2"]) @ params["w3"]


def td_error(params: dict, target: dict, rows: Memory) -> jax.Array:
    goal = rows["reward"] + 0.95 * q_values(target, rows["after"]).max(1)
    chosen = jnp.take_along_axis(q_values(params, rows["before"]), rows["action"][:, None], 1)[:, 0]
    return jnp.mean((chosen - jax.lax.stop_gradient(goal)) ** 2)


@partial(jax.jit, static_argnames="rate")
def learn(params: dict, target: dict, memory: Memory, picked: jax.Array, rate: float = 1e-3):
    rows = {name: values[picked] for name, values in memory.items()}
    loss, gradients = jax.value_and_grad(td_error)(params, target, rows)
    params = jax.tree.map(lambda weight, slope: weight - rate * slope, params, gradients)
    target = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, target, params)
    return params, target, loss


def training(mended: bool) -> Iterator[float]:
    rng = np.random.default_rng(15)
    memory = {
        "before": jnp.zeros((CAPACITY, STATE)),
        "after": jnp.zeros((CAPACITY, STATE)),
        "action": jnp.zeros(CAPACITY, jnp.int32),
        "reward": jnp.zeros(CAPACITY),
    }
    params = {
        "w1": jnp.asarray(rng.normal(0, 0.15, (STATE, 128)), jnp.float32),
        "b1": jnp.zeros(128),
        "w2": jnp.asarray(rng.normal(0, 0.1, (128, 128)), jnp.float32),
        "b2": jnp.zeros(128),
        "w3": jnp.asarray(rng.normal(0, 0.1, (128, ACTIONS)), jnp.float32),
    }
    target = params
    filled = 0
    while True:
        rows = {
            "before": rng.normal(size=(NEW, STATE)).astype(np.float32),
            "after": rng.normal(size=(NEW, STATE)).astype(np.float32),
            "action": rng.integers(0, ACTIONS, NEW).astype(np.int32),
            "reward": rng.normal(size=NEW).astype(np.float32),
        }
        if mended:
            memory = add_in_place(memory, filled % CAPACITY, rows)
        else:
            memory = add_copying(memory, filled % CAPACITY, rows)  # cause
        filled += NEW
        picked = rng.integers(0, min(filled, CAPACITY), 64)
        params, target, loss = learn(params, target, memory, picked)
        yield float(loss)
