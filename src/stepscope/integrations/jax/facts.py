"""Facts of the parameters and devices of a JAX program for the configuration of a run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from stepscope.integrations.guard import report_raised
from stepscope.record import Run


def describe(run: Run, params: Any = None, **facts: Any) -> None:
    """Add facts about the model and its devices to a run's configuration.

    Args:
        run: The run.
        params: The parameters: any tree of arrays, a Flax ``TrainState`` (its ``params`` are used), or an
            ``nnx.Module``. Sharded arrays count with their full size.
        facts: Any further facts.
    """
    try:
        facts_ = {"devices": device_facts(), **facts}
        if params is not None:
            facts_["model"] = parameter_facts(params)
    except Exception as error:  # noqa: BLE001  trees of the user's own types
        report_raised(run, "describe", error)
    else:
        run.describe(facts_)


def parameter_facts(params: Any) -> dict[str, Any]:
    """Return number, size and types of the arrays of a tree."""
    arrays = [leaf for leaf in jax.tree.leaves(getattr(params, "params", params)) if hasattr(leaf, "dtype")]
    # Keys of random numbers have sizes but no bytes that count, and are not trained.
    arrays = [array for array in arrays if not jnp.issubdtype(array.dtype, jax.dtypes.prng_key)]
    return {
        "parameters": sum(int(array.size) for array in arrays),
        "parameter_bytes": sum(int(array.size) * array.dtype.itemsize for array in arrays),
        "dtypes": sorted({str(array.dtype) for array in arrays}),
    }


def device_facts() -> dict[str, Any]:
    """Return facts about JAX's devices. It makes JAX look for them, as the first computation does."""
    devices = jax.devices()
    return {
        "platform": devices[0].platform,
        "kind": devices[0].device_kind,
        "count": len(devices),
        "processes": jax.process_count(),
    }
