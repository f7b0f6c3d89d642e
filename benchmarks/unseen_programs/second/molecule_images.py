"""A JAX denoiser of microscope images. The work is what the model asks for."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np


def conv(images: jax.Array, kernel: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def predict_noise(params: dict, images: jax.Array) -> jax.Array:
    hidden = jax.nn.silu(conv(images, params["enter"]))
    hidden = jax.nn.silu(conv(hidden, params["wide"]))  # costliest
    return conv(hidden, params["leave"])


@jax.jit
def train_step(params: dict, images: jax.Array, noise: jax.Array, level: jax.Array):
    def loss_fn(params):
        noisy = jnp.sqrt(1 - level) * images + jnp.sqrt(level) * noise
        return jnp.mean((predict_noise(params, noisy) - noise) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


def training(mended: bool) -> Iterator[float]:
    rng = np.random.default_rng(18)
    width = 8 if mended else 32
    shapes = {"enter": (3, 3, 1, width), "wide": (3, 3, width, width), "leave": (3, 3, width, 1)}
    params = {
        name: jnp.asarray(rng.normal(0, 1 / np.sqrt(np.prod(shape[:3])), shape), jnp.float32)
        for name, shape in shapes.items()
    }
    while True:
        images = rng.random((4, 40, 40, 1), dtype=np.float32)
        noise = rng.normal(size=images.shape).astype(np.float32)
        level = rng.random((4, 1, 1, 1), dtype=np.float32)
        params, loss = train_step(params, images, noise, level)  # costliest
        yield float(loss)
