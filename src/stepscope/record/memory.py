"""How much memory this process holds, on the host and on its devices.

Nothing here waits for a device or starts one: allocators are asked for counters that they keep anyway.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

NAN = math.nan
_STATM = Path("/proc/self/statm")


def resident_bytes() -> float:
    """Return the memory of this process that is in RAM, NaN if the system does not tell at once."""
    try:
        return float(int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return NAN


def device_bytes(modules: Mapping[str, Any] = sys.modules) -> float:
    """Return the bytes of live arrays on the devices of this process, NaN if no allocator tells.

    Args:
        modules: Imported modules, to look frameworks up; none is imported.
    """
    totals = [number for ask in (_torch_bytes, _jax_bytes) if (number := _asked(ask, modules)) is not None]
    return sum(totals) if totals else NAN


def device_names(modules: Mapping[str, Any] = sys.modules) -> list[str]:
    """Return the kinds of device that this process has started, an entry for each device."""
    return [name for ask in (_torch_names, _jax_names) for name in _asked(ask, modules) or []]


def _asked(ask: Callable[[Mapping[str, Any]], Any], modules: Mapping[str, Any]) -> Any:
    with suppress(Exception):  # another version, or a device that is gone
        return ask(modules)
    return None


def _torch_bytes(modules: Mapping[str, Any]) -> float | None:
    cuda = modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return None
    return float(sum(cuda.memory_allocated(device) for device in range(cuda.device_count())))


def _torch_names(modules: Mapping[str, Any]) -> list[str]:
    cuda = modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return []
    used = [device for device in range(cuda.device_count()) if cuda.memory_reserved(device)]
    return [str(cuda.get_device_name(device)) for device in used or [cuda.current_device()]]


def _jax_devices(modules: Mapping[str, Any]) -> list[Any]:
    """Return the local devices of back ends that are started; ``jax.devices()`` would start them."""
    backends = getattr(modules.get("jax._src.xla_bridge"), "_backends", None) or {}
    return [device for backend in dict(backends).values() for device in backend.local_devices()]


def _jax_bytes(modules: Mapping[str, Any]) -> float | None:
    statistics = [device.memory_stats() for device in _jax_devices(modules)]
    used = [stats["bytes_in_use"] for stats in statistics if stats and "bytes_in_use" in stats]
    return float(sum(used)) if used else None


def _jax_names(modules: Mapping[str, Any]) -> list[str]:
    return [str(device.device_kind) for device in _jax_devices(modules) if device.platform != "cpu"]
