"""The state of the program that a profile cannot show: debugging that was left on, precision, threads.

It is read in the training thread when a capture starts, from modules that the program has imported;
nothing is imported for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import tracemalloc
from typing import Any

Setting = bool | int | str

_JAX = (
    "jax_enable_x64", "jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_check_tracer_leaks",
)  # fmt: skip


def settings() -> dict[str, Setting]:
    """Return the settings of the program by name; without those of modules that it has not imported."""
    found: dict[str, Setting] = {
        "python.trace": _name(sys.gettrace() or threading.gettrace()),
        "python.profile": _name(sys.getprofile() or threading.getprofile()),
        "python.tracemalloc": tracemalloc.is_tracing(),
        "python.dev_mode": bool(sys.flags.dev_mode),
        "processors": _processors(),
    }
    for read in (_torch, _jax, _tensorflow):
        # Each is a private detail of a version; one that has gone is unknown.
        with contextlib.suppress(Exception):
            found |= read()
    return found


def _name(function: Any) -> str:
    """Return who set a function, ``""`` if there is none."""
    if function is None:
        return ""
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _torch() -> dict[str, Setting]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch.detect_anomaly": bool(torch.is_anomaly_enabled()),
        "torch.default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "torch.num_threads": int(torch.get_num_threads()),
    }


def _jax() -> dict[str, Setting]:
    jax = sys.modules.get("jax")
    return {} if jax is None else {name: bool(getattr(jax.config, name)) for name in _JAX}


def _tensorflow() -> dict[str, Setting]:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return {}
    return {"tensorflow.run_functions_eagerly": bool(tensorflow.config.functions_run_eagerly())}
