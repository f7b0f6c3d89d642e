"""JAX: steps between captures, what an XPlane holds, and planted causes with their gains."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepscope as ss
from gpu.claims import Claim, Skipped
from gpu.device import Device, ratio
from gpu.hooked import between_captures, profile_of
from gpu.planted import Program, judged
from stepscope.trace.model import Kind

CLAIMS = (
    Claim("Between captures a JAX step runs at 0.998 of its speed at least.", "speed_between", least=0.998),
    Claim("An XPlane of a GPU holds the kernels of its steps.", "kernels_per_step", least=1),
    Claim("The planted cause is the first finding of each JAX program.", "causes_ratio", least=0.66),
    Claim("Predicted gains are within a quarter of the measured ones, or a bound that holds.",
          "gains_ratio", least=0.66),
)  # fmt: skip


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure a transformer's steps, then the planted causes."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        import jax
    except ImportError as error:
        raise Skipped("jax is not installed") from error
    on_gpu = jax.default_backend() == "gpu"
    if device.decides and not on_gpu:
        raise Skipped(f"jax sees no GPU: its backend is {jax.default_backend()}")
    step = transformer(device)
    plain, between = between_captures(device, place / "between", step, secs=device.size(5, 1))
    profile = profile_of(place / "capture", step, steps=15, num_steps=5, backend="jax")
    trace = ss.load_trace(profile, cache=False)
    kernels = int((trace.kind == Kind.KERNEL).sum())
    return {
        "jax": jax.__version__,
        "step_ms": round(1e3 * statistics.median(plain), 3),
        "speed_between": round(1 / ratio(plain, between), 4),
        "bytes": profile.stat().st_size,
        "events": len(trace.kind),
        "kernels_per_step": kernels / max(1, len(trace.steps)) if device.is_gpu else None,
    } | judged(device, place, PROGRAMS, backend="jax")


def transformer(device: Device) -> Callable[[], object]:
    import jax
    import jax.numpy as jnp

    width, layers = device.size(1024, 64), device.size(8, 2)
    weights = [jnp.ones((width, 3 * width)) * 0.01 for _ in range(layers)]
    data = jnp.ones((device.size(8, 2), device.size(512, 16), width))

    def loss(weights: Any, data: Any) -> Any:
        for weight in weights:
            query, key, value = jnp.split(data @ weight, 3, axis=-1)
            data = data + jax.nn.softmax(query @ key.swapaxes(-1, -2) / width**0.5) @ value
        return (data**2).mean()

    @jax.jit
    def update(weights: Any) -> Any:
        gradient = jax.grad(loss)(weights, data)
        return jax.tree.map(lambda one, two: one - 1e-3 * two, weights, gradient)

    state = [weights]

    def step() -> None:
        state[0] = jax.block_until_ready(update(state[0]))

    return step


# --- planted ----------------------------------------------------------------------------------------


def callback(device: Device, mended: bool) -> Callable[[], object]:
    """Clip on the host by a callback, or in the graph."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    side = device.size(2048, 64)
    weight, x = jnp.eye(side), jnp.ones((side, side))

    def clip(value: Any) -> Any:
        if mended:
            return jnp.clip(value, -1, 1)
        shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
        return jax.pure_callback(lambda given: np.clip(np.asarray(given), -1, 1), shape, value)

    @jax.jit
    def update(weight: Any) -> Any:
        return weight - 1e-3 * clip(x @ weight)

    return stepping(weight, update)


def recompiled(device: Device, mended: bool) -> Callable[[], object]:
    """Compile for each new length, or pad to one."""
    import jax
    import jax.numpy as jnp

    width, longest = device.size(1024, 32), 4096
    weight, count = jnp.eye(width), [0]

    @jax.jit
    def loss_step(weight: Any, data: Any) -> Any:
        return weight - 1e-3 * (data.T @ (data @ weight))

    def update(weight: Any) -> Any:
        count[0] += 1
        length = longest if mended else 64 + count[0]
        return loss_step(weight, jnp.ones((length, width)))

    return stepping(weight, update)


def undonated(device: Device, mended: bool) -> Callable[[], object]:
    """Keep the old weights while the new ones are made, or give their memory away."""
    import jax
    import jax.numpy as jnp

    weight = jnp.ones((device.size(16384, 64), device.size(8192, 64)))
    return stepping(weight, jax.jit(lambda weight: weight * 0.999, donate_argnums=(0,) if mended else ()))


def stepping(state: Any, update: Callable[[Any], Any]) -> Callable[[], object]:
    import jax

    held = [state]

    def step() -> None:
        held[0] = jax.block_until_ready(update(held[0]))

    return step


PROGRAMS = (
    Program("jax_callback", callback, ("host-callback",)),
    Program("jax_recompiled", recompiled, ("compilation", "growing-steps")),
    Program("jax_undonated", undonated, ()),
)
