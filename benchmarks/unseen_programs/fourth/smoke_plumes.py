"""A neural operator that predicts how smoke spreads, in the space of frequencies."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np


def spread(weights: dict, smoke: jax.Array) -> jax.Array:
    hidden = smoke[..., None] * weights["in"]
    for mixing, local in zip(weights["mixing"], weights["local"], strict=True):
        modes = jnp.fft.rfft2(hidden, axes=(1, 2))[:, :12, :12]
        mixed = jnp.einsum("bxyc,xycd->bxyd", modes, mixing)
        hidden = jax.nn.gelu(jnp.fft.irfft2(mixed, hidden.shape[1:3], axes=(1, 2)) + hidden @ local)
    return hidden @ weights["out"]


def loss_of(weights: dict, smoke: jax.Array, later: jax.Array) -> jax.Array:
    return ((spread(weights, smoke) - later) ** 2).mean()


@jax.jit
def update(weights: dict, smoke: jax.Array, later: jax.Array) -> tuple[dict, jax.Array]:
    loss, slopes = jax.value_and_grad(loss_of)(weights, smoke, later)
    return jax.tree.map(lambda one, slope: one - 0.01 * slope.conj(), weights, slopes), loss


def training(mended: bool) -> Iterator[float]:
    width = 8 if mended else 32
    keys = jax.random.split(jax.random.key(0), 8)
    weights = {
        "in": jax.random.normal(keys[0], (width,)),
        "mixing": [
            jax.random.normal(key, (12, 12, width, width), jnp.complex64) / width for key in keys[1:4]
        ],
        "local": [jax.random.normal(key, (width, width)) / width for key in keys[4:7]],
        "out": jax.random.normal(keys[7], (width,)) / width,
    }
    smoke = np.random.default_rng(0).standard_normal((64, 32, 32)).astype(np.float32)
    later = (smoke + np.roll(smoke, 1, 1) + np.roll(smoke, 1, 2)) / 3
    while True:
        for first in range(0, 64, 8):
            batch = slice(first, first + 8)
            weights, loss = update(weights, smoke[batch], later[batch])  # costliest
            yield float(loss)
