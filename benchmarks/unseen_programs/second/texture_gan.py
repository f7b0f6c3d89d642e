"""A generator of small textures and its critic in JAX, with optax."""

from collections.abc import Iterator
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

Params = list[dict[str, jax.Array]]


def dense_stack(rng: np.random.Generator, sizes: list[int]) -> Params:
    return [
        {
            "kernel": jnp.asarray(rng.normal(0, fan_in**-0.5, (fan_in, fan_out)), jnp.float32),
            "bias": jnp.zeros(fan_out),
            "scale": jnp.ones(fan_out),
        }
        for fan_in, fan_out in pairwise(sizes)
    ]


def apply(params: Params, values: jax.Array) -> jax.Array:
    for layer in params[:-1]:
        values = jax.nn.leaky_relu((values @ layer["kernel"]) * layer["scale"] + layer["bias"], 0.2)
    return values @ params[-1]["kernel"] * params[-1]["scale"] + params[-1]["bias"]


def critic_loss(critic: Params, generator: Params, real: jax.Array, noise: jax.Array) -> jax.Array:
    fake = jnp.tanh(apply(generator, noise))
    return (jax.nn.softplus(-apply(critic, real)) + jax.nn.softplus(apply(critic, fake))).mean()


def generator_loss(generator: Params, critic: Params, noise: jax.Array) -> jax.Array:
    return jax.nn.softplus(-apply(critic, jnp.tanh(apply(generator, noise)))).mean()


critic_gradients = jax.jit(jax.value_and_grad(critic_loss))
generator_gradients = jax.jit(jax.value_and_grad(generator_loss))
critic_optimizer, generator_optimizer = optax.adam(2e-4, b1=0.5), optax.adam(2e-4, b1=0.5)


def update_critic(gradients: Params, state: optax.OptState, params: Params):
    changes, state = critic_optimizer.update(gradients, state, params)  # cause
    return optax.apply_updates(params, changes), state  # cause


def update_generator(gradients: Params, state: optax.OptState, params: Params):
    changes, state = generator_optimizer.update(gradients, state, params)  # cause
    return optax.apply_updates(params, changes), state  # cause


def training(mended: bool) -> Iterator[float]:
    rng = np.random.default_rng(14)
    generator = dense_stack(rng, [32, 128, 128, 256])
    critic = dense_stack(rng, [256, 128, 128, 1])
    generator_state = generator_optimizer.init(generator)
    critic_state = critic_optimizer.init(critic)
    step_critic = jax.jit(update_critic) if mended else update_critic
    step_generator = jax.jit(update_generator) if mended else update_generator
    while True:
        real = rng.uniform(-1, 1, (64, 256)).astype(np.float32)
        noise = rng.normal(size=(2, 64, 32)).astype(np.float32)
        critic_value, gradients = critic_gradients(critic, generator, real, noise[0])
        critic, critic_state = step_critic(gradients, critic_state, critic)
        generator_value, gradients = generator_gradients(generator, critic, noise[1])
        generator, generator_state = step_generator(gradients, generator_state, generator)
        yield float(critic_value) + float(generator_value)
