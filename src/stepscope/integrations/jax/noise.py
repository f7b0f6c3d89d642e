"""The gradient noise scale in JAX: a pure function that may be jitted with the step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

MEMORY = 0.99
"""Weight of the past in the running means, as for PyTorch."""


def noise_scale(
    gradients: Any, state: Any = None, *, examples: int, axis_name: str | None = None
) -> tuple[Any, Any]:
    """Return by tag the gradient noise scale in examples, and the state for the next step.

    ``gradients/noise_scale_examples`` is ``examples`` times S / G² of running means of S = (l - r) / (1 -
    1/N) and G² = (N r - l) / (N - 1), where l is the mean of the squared norms of N gradients, each of one
    part of the batch, and r the squared norm of their mean: It is the batch size beyond which more examples
    help little. Source: McCandlish et al. 2018 (arXiv 1812.06162), appendix A.1. NaN until the estimate of G²
    is above 0. A step whose gradients are not finite is ignored.

    Args:
        gradients: A tree. If all parts are on this device, as ``vmap`` returns them: leaves [N, ...], N at
            least 2. With ``axis_name``: this device's own gradient before ``pmean``; leaves of any shape.
        state: As returned by the previous step: float32 [2], the running means of S and G². None at first.
        examples: Number of examples in each part.
        axis_name: Axis of ``pmap``, ``shard_map`` or ``vmap`` along which the parts are distributed.

    Raises:
        ValueError: There are fewer than 2 parts, leaves differ in their number, or parts have no examples.
    """
    if examples < 1:
        raise ValueError(f"examples={examples}: expected the number in each part, at least 1")
    leaves = [leaf.astype(jnp.float32) for leaf in jax.tree_util.tree_leaves(gradients)]
    if axis_name is None:
        counts = {leaf.shape[0] if leaf.ndim else 0 for leaf in leaves}
        if len(counts) != 1 or min(counts) < 2:
            raise ValueError(
                f"gradients need one leading axis of 2 or more parts, got sizes {sorted(counts)}"
            )
        parts = counts.pop()
        local = sum((jnp.vdot(leaf, leaf) for leaf in leaves), jnp.float32(0)) / parts
        means = [leaf.mean(0) for leaf in leaves]
    else:
        along: Any = jax.lax
        parts = along.psum(1, axis_name)
        if parts < 2:
            raise ValueError(f"axis {axis_name!r} has {parts} part; the noise scale needs 2 or more")
        own = sum((jnp.vdot(leaf, leaf) for leaf in leaves), jnp.float32(0))
        local = along.pmean(own, axis_name)
        means = [along.pmean(leaf, axis_name) for leaf in leaves]
    reduced = sum((jnp.vdot(mean, mean) for mean in means), jnp.float32(0))
    pair = jnp.stack([(local - reduced) / (1 - 1 / parts), (parts * reduced - local) / (parts - 1)])
    before = jnp.zeros(2, jnp.float32) if state is None else state
    state = jnp.where(jnp.isfinite(pair).all(), MEMORY * before + (1 - MEMORY) * pair, before)
    scale = jnp.where(state[1] > 0, state[0] / jnp.where(state[1] > 0, state[1], 1.0), jnp.nan)
    return {"gradients/noise_scale_examples": examples * scale}, state
