"""Curvature of a loss in JAX: its largest eigenvalue, by power iteration on Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def sharpness(
    loss: Callable[[Any], Any], parameters: Any, key: Any, *, iterations: int = 20
) -> tuple[Any, Any]:
    """Return the largest eigenvalue of the Hessian in size, with its sign, and the vector that it belongs to.

    May be jitted. Record it where it is wanted: ``run.scalar("curvature/sharpness", value)``. Gradient
    descent is stable below 2 / learning rate (Cohen et al. 2021, arXiv 2103.00065).

    Args:
        loss: Of the parameters, on a fixed small batch.
        parameters: A tree of arrays.
        key: Of the vector that it begins with.
        iterations: Products of the Hessian with a vector, each about two backward passes.
    """
    leaves, shape = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(one, leaf.shape, leaf.dtype) for one, leaf in zip(keys, leaves, strict=True)]

    def dot(one: Any, two: Any) -> Any:
        return sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))

    def turn(_: int, known: tuple[Any, Any]) -> tuple[Any, Any]:
        vector = known[1]
        norm = jnp.maximum(jnp.sqrt(dot(vector, vector)), 1e-30)
        vector = jax.tree.map(lambda leaf: leaf / norm, vector)
        turned = jax.jvp(jax.grad(loss), (parameters,), (vector,))[1]
        return dot(vector, turned), turned

    found: tuple[Any, Any] = jax.lax.fori_loop(
        0, iterations, turn, (jnp.zeros((), leaves[0].dtype), jax.tree.unflatten(shape, drawn))
    )
    return found
