"""A JAX network that gives the energy of a particle in a well, from the shape of the well."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

POINTS, BATCH = 48, 512


def wave(params: dict, well: jax.Array) -> jax.Array:
    hidden = jnp.tanh(well @ params["in"] + params["shift"])
    return jnp.tanh(hidden @ params["mid"]) @ params["out"] + 1e-3


def energy(params: dict, well: jax.Array) -> jax.Array:
    """Return the Rayleigh quotient of one wave."""
    psi = wave(params, well)
    bent = 2 * psi - jnp.roll(psi, 1) - jnp.roll(psi, -1)
    return (psi @ (bent + well * psi)) / (psi @ psi + 1e-3)


def training(mended: bool) -> Iterator[float]:
    def error(params: dict, wells: jax.Array) -> jax.Array:
        one = lambda well: energy(params, well)  # noqa: E731
        return (jax.vmap(one)(wells) if mended else jax.lax.map(one, wells)).mean()  # cause

    @jax.jit
    def update(params: dict, wells: jax.Array) -> tuple[dict, jax.Array]:
        loss, slopes = jax.value_and_grad(error)(params, wells)
        return jax.tree.map(lambda value, slope: value - 0.01 * slope, params, slopes), loss

    random = np.random.default_rng(0)
    params = {
        "in": jnp.asarray(random.normal(0, 0.15, (POINTS, 64)), jnp.float32),
        "shift": jnp.zeros(64),
        "mid": jnp.asarray(random.normal(0, 0.12, (64, 64)), jnp.float32),
        "out": jnp.asarray(random.normal(0, 0.12, (64, POINTS)), jnp.float32),
    }
    while True:
        wells = jnp.asarray(random.random((BATCH, POINTS)), jnp.float32)
        params, loss = update(params, wells)
        yield float(loss)
