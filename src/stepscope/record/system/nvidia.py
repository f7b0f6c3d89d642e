"""NVIDIA's GPUs, through NVML, the driver's own library, by ``nvidia-ml-py``.

A question that a GPU does not answer, such as the utilization of a MIG slice, has no reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

_SLOWED = (
    pynvml.nvmlClocksThrottleReasonHwSlowdown
    | pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
)
_NUMBERS = (
    ("power_watts", "nvmlDeviceGetPowerUsage", (), 1e-3),
    ("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    ("temperature_celsius", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), 1.0),
    ("clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), 1.0),
    ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_MEM,), 1.0),
)


class Nvidia:
    """Reads the GPUs that this process may use, or all of them.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES``; None for all GPUs.

    Raises:
        pynvml.NVMLError: There is no driver, or it does not answer.
    """

    def __init__(self, visible: str | None = None) -> None:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        chosen = choose(visible, [_text("nvmlDeviceGetUUID", handle) for handle in handles])
        self._gpus = [(index, handles[index]) for index in chosen]

    def names(self) -> dict[str, str]:
        """Return the name of each GPU, by group of tags."""
        return {f"gpu{index}": _text("nvmlDeviceGetName", handle) or "NVIDIA" for index, handle in self._gpus}

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        return {
            f"system/gpu{index}/{name}": value
            for index, handle in self._gpus
            for name, value in _readings(handle)
        }


def _readings(handle: Any) -> Iterator[tuple[str, float]]:
    if (share := _ask("nvmlDeviceGetUtilizationRates", handle)) is not None:
        yield "utilization_ratio", share.gpu / 100
        yield "memory_utilization_ratio", share.memory / 100
    if (memory := _ask("nvmlDeviceGetMemoryInfo", handle)) is not None:
        yield "memory_used_bytes", float(memory.used)
        if memory.total:
            yield "memory_used_ratio", memory.used / memory.total
    for name, question, arguments, unit in _NUMBERS:
        if (number := _ask(question, handle, *arguments)) is not None:
            yield name, number * unit
    if (reasons := _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)) is not None:
        yield "slowed", float(bool(reasons & _SLOWED))


def _text(question: str, handle: Any) -> str:
    found = _ask(question, handle) or ""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found


def _ask(question: str, handle: Any, *arguments: Any) -> Any:
    """Ask the driver; None where it does not know the question or the answer."""
    try:
        return getattr(pynvml, question)(handle, *arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def nvidia(environ: Mapping[str, str] = os.environ, *, every: bool = False) -> Nvidia | None:
    """Return the GPUs of this machine; None where there is no driver or no GPU.

    Args:
        environ: The process environment.
        every: Also those that ``CUDA_VISIBLE_DEVICES`` hides.
    """
    try:
        found = Nvidia(None if every else environ.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError:
        return None
    return found if found.names() else None


def choose(visible: str | None, uuids: list[str]) -> list[int]:
    """Return the numbers of the GPUs that CUDA shows to this process, as ``nvidia-smi`` numbers them.

    CUDA reads the list up to the first word that means no GPU. A slice of a GPU (MIG) has a UUID that is not
    among those of whole GPUs; nothing is read of it.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES``; None where it is not set.
        uuids: UUID of each GPU.
    """
    if visible is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for word in (word.strip() for word in visible.split(",")):
        if word.isdigit():
            matches = [int(word)] if int(word) < len(uuids) else []
        else:
            matches = [index for index, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(matches) != 1 or matches[0] in found:
            break
        found += matches
    return found
