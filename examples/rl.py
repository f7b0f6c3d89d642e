"""Policy gradients in JAX on a walk to a goal: steps begun by hand, one for each update.

``python examples/rl.py [RUN_DIRECTORY] [--steps N]``, then ``stepscope serve runs``.

The page then shows rollout/ep_rew_mean rising, and under Health nothing though policy_loss does not fall: by
its names the run is known as reinforcement learning.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import optax

import stepscope as ss
from stepscope.integrations.jax import describe

WALKERS, LENGTH, SIZE = 32, 24, 6


def move(place: Any, action: Any) -> tuple[Any, Any]:
    """Walk right, left, up or down on a board of 6 x 6; earn 1 for each step that ends on its last field."""
    way = jnp.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[action]
    place = jnp.clip(place + way, 0, SIZE - 1)
    return place, jnp.all(place == SIZE - 1, axis=-1).astype(jnp.float32)


def logits_of(params: Any, place: Any) -> Any:
    seen = jnp.concatenate([jax.nn.one_hot(place[..., axis], SIZE) for axis in (0, 1)], -1)
    return jnp.tanh(seen @ params["in"]) @ params["out"]


def play(params: Any, key: Any) -> tuple[Any, Any, Any]:
    """Return places, actions and rewards of one episode of every walker, [LENGTH, WALKERS]."""

    def turn(place: Any, key: Any) -> Any:
        action = jax.random.categorical(key, logits_of(params, place))
        after, reward = move(place, action)
        return after, (place, action, reward)

    start = jnp.zeros((WALKERS, 2), jnp.int32)
    return jax.lax.scan(turn, start, jax.random.split(key, LENGTH))[1]


def policy_loss(params: Any, places: Any, actions: Any, rewards: Any) -> tuple[Any, Any]:
    to_go = jnp.cumsum(rewards[::-1], axis=0)[::-1]
    advantage = to_go - to_go.mean(axis=1, keepdims=True)
    logs = jax.nn.log_softmax(logits_of(params, places))
    taken = jnp.take_along_axis(logs, actions[..., None], -1)[..., 0]
    entropy = -(jnp.exp(logs) * logs).sum(-1).mean()
    return -(taken * advantage).mean() - 0.01 * entropy, entropy


def main(directory: str, steps: int, *, lr: float = 0.01) -> None:
    first, second, key = jax.random.split(jax.random.key(0), 3)
    params = {
        "in": jax.random.normal(first, (2 * SIZE, 32)) * 0.3,
        "out": jax.random.normal(second, (32, 4)) * 0.1,
    }
    optimizer = optax.adam(lr)
    state = optimizer.init(params)

    @jax.jit
    def update(params: Any, state: Any, key: Any) -> Any:
        places, actions, rewards = play(params, key)
        (loss, entropy), gradients = jax.value_and_grad(policy_loss, has_aux=True)(
            params, places, actions, rewards
        )
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss, entropy, rewards.sum(0).mean()

    with ss.Run(directory, config={"lr": lr}, hooks=[ss.HealthHook()], total_steps=steps) as run:
        describe(run, params)
        for _ in range(steps):
            with run.step():
                key, used = jax.random.split(key)
                params, state, loss, entropy, reward = update(params, state, used)
                run.count(examples=WALKERS * LENGTH)
                run.scalar("train/policy_loss", loss)
                run.scalar("train/entropy", entropy)
                run.scalar("rollout/ep_rew_mean", reward)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="runs/rl")
    parser.add_argument("--steps", type=int, default=400)
    main(**vars(parser.parse_args()))
