"""Curvature of a loss in JAX: its largest eigenvalue, by power iteration on Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record import Run


def sharpness(
    loss: Callable[[Any], Any], parameters: Any, key: Any, *, iterations: int = 20
) -> tuple[Any, Any]:
    """Return the largest eigenvalue of the Hessian in size, with its sign, and the vector that it belongs to.

    May be jitted. Record it if you want it: ``run.scalar("curvature/sharpness", value)``. Gradient
    descent is stable below 2 / learning rate (Cohen et al. 2021, arXiv 2103.00065).

    Args:
        loss: Of the parameters, on a fixed small batch.
        parameters: A tree of arrays.
        key: Random key of the initial vector.
        iterations: Products of the Hessian with a vector, each about two backward passes.
    """
    leaves, shape = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(one, leaf.shape, leaf.dtype) for one, leaf in zip(keys, leaves, strict=True)]

    return iterate(loss, parameters, jax.tree.unflatten(shape, drawn), iterations)


def iterate(loss: Callable[[Any], Any], parameters: Any, vector: Any, iterations: int) -> tuple[Any, Any]:
    """Compute ``sharpness``, beginning with a vector."""

    def dot(one: Any, two: Any) -> Any:
        return sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))

    def turn(_: int, known: tuple[Any, Any]) -> tuple[Any, Any]:
        vector = known[1]
        norm = jnp.maximum(jnp.sqrt(dot(vector, vector)), 1e-30)
        vector = jax.tree.map(lambda leaf: leaf / norm, vector)
        turned = jax.jvp(jax.grad(loss), (parameters,), (vector,))[1]
        return dot(vector, turned), turned

    zero = jnp.zeros((), jax.tree.leaves(vector)[0].dtype)
    estimate: tuple[Any, Any] = jax.lax.fori_loop(0, iterations, turn, (zero, vector))
    return estimate


class SharpnessHook(Hook):
    """Records the largest eigenvalue of a loss's Hessian, and how near it is to the edge of stability.

    ``curvature/sharpness`` and, if the learning rate is given, ``curvature/edge_ratio``: sharpness over
    2 (1 + momentum) / learning rate, 1 at the edge (Cohen et al. 2021, arXiv 2103.00065). This is the edge of
    gradient descent: give no rate for an adaptive optimizer. The product is compiled once.

    Args:
        loss: A function of the parameters, on a fixed small batch.
        parameters: Returns the current parameters.
        learning_rate: The rate, or a function of the step that returns it.
        momentum: The momentum of the optimizer.
        every_n_steps: Distance between measurements.
        iterations: Number of products in each; the next measurement begins with the vector of the last.
    """

    def __init__(
        self,
        loss: Callable[[Any], Any],
        parameters: Callable[[], Any],
        *,
        learning_rate: float | Callable[[int], Any] | None = None,
        momentum: float = 0.0,
        every_n_steps: int = 200,
        iterations: int = 6,
    ) -> None:
        self._parameters, self._rate, self._momentum = parameters, learning_rate, momentum
        self._every = max(every_n_steps, 1)
        self._vector: Any = None
        steps = max(iterations, 2)
        self._first = jax.jit(lambda known, key: sharpness(loss, known, key, iterations=steps))
        self._next = jax.jit(lambda known, vector: iterate(loss, known, vector, steps))
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the run."""
        self._run = run

    def after_step(self, step: int) -> None:
        """Measure if it is time."""
        if step % self._every == 0:
            self._run.cost.call(self._measure, step)

    def _measure(self, step: int) -> None:
        known = self._parameters()
        if self._vector is None:
            value, self._vector = self._first(known, jax.random.key(0))
        else:
            value, self._vector = self._next(known, self._vector)
        numbers = {"curvature/sharpness": value}
        rate = self._rate(step) if callable(self._rate) else self._rate
        if rate is not None:
            numbers["curvature/edge_ratio"] = value * rate / (2 * (1 + self._momentum))
        self._run.record(numbers, step)
