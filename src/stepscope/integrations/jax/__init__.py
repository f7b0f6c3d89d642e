"""JAX: loops around jitted steps, optax and Flax. The names below load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.jax.attention import attention_statistics as attention_statistics
    from stepscope.integrations.jax.attention import router_load as router_load
    from stepscope.integrations.jax.curvature import SharpnessHook as SharpnessHook
    from stepscope.integrations.jax.facts import describe as describe
    from stepscope.integrations.jax.gradients import statistics_in as statistics_in
    from stepscope.integrations.jax.gradients import watch as watch
    from stepscope.integrations.jax.gradients import with_statistics as with_statistics
    from stepscope.integrations.jax.noise import noise_scale as noise_scale
    from stepscope.integrations.jax.optimizer import optimizer_scalars as optimizer_scalars
    from stepscope.integrations.jax.optimizer import prefixed as prefixed
    from stepscope.integrations.jax.stages import CompletionTimer as CompletionTimer
    from stepscope.integrations.jax.stages import dispatched as dispatched
    from stepscope.integrations.jax.stages import wait as wait
    from stepscope.integrations.jax.statistics import measure as measure

_HOMES = {
    "CompletionTimer": "stages",
    "SharpnessHook": "curvature",
    "attention_statistics": "attention",
    "describe": "facts",
    "dispatched": "stages",
    "measure": "statistics",
    "noise_scale": "noise",
    "optimizer_scalars": "optimizer",
    "prefixed": "optimizer",
    "router_load": "attention",
    "statistics_in": "gradients",
    "wait": "stages",
    "watch": "gradients",
    "with_statistics": "gradients",
}
"""Which module of this package each public name is in; add a line for a new one, and an import above."""

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
