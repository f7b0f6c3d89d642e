"""A JAX model that learns how the ground answers a tremor, by long convolutions."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

SAMPLES = 8191
ANSWERS = 2 * SAMPLES - 1


def convolve(signals: jax.Array, response: jax.Array, size: int) -> jax.Array:
    """Convolve without wrapping around: both are padded with zeros to `size`."""
    product = jnp.fft.rfft(signals, size) * jnp.fft.rfft(response, size)
    return jnp.fft.irfft(product, size)[..., :SAMPLES]


def training(mended: bool) -> Iterator[float]:
    rng = np.random.default_rng(16)
    size = 16_384 if mended else ANSWERS  # cause

    def misfit(params: dict, quakes: jax.Array, records: jax.Array) -> jax.Array:
        ground = convolve(quakes, params["response"], size)  # cause
        return jnp.mean((params["gain"] * ground - records) ** 2)

    @jax.jit
    def fit(params: dict, quakes: jax.Array, records: jax.Array):
        value, slopes = jax.value_and_grad(misfit)(params, quakes, records)
        return jax.tree.map(lambda one, slope: one - 1e-4 * slope, params, slopes), value

    decay = np.exp(-np.arange(SAMPLES) / 400)
    truth = (rng.normal(size=SAMPLES) * decay).astype(np.float32)
    params = {"response": jnp.zeros(SAMPLES).at[0].set(1.0), "gain": jnp.ones(())}
    while True:
        quakes = rng.normal(size=(4, SAMPLES)).astype(np.float32)
        records = quakes * truth[0]
        params, value = fit(params, quakes, records)
        yield float(value)
