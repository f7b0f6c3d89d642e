"""NVIDIA's GPUs, through the driver's own library: what ``nvidia-smi`` and ``nvidia-ml-py`` ask, too.

The library comes with the driver, so there is nothing to install. A question that a GPU does not answer, such
as the utilization of a MIG slice, has no reading.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TEMPERATURE_OF_GPU, _CLOCK_SM, _CLOCK_MEMORY = 0, 1, 2
# nvmlClocksThrottleReasons: hardware slowdown, thermal by software and by hardware, power brake.
_SLOWED = 0x08 | 0x20 | 0x40 | 0x80


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class Nvidia:
    """Reads the GPUs that this process may use, or all of them.

    Args:
        library: The driver's, loaded.
        visible: ``CUDA_VISIBLE_DEVICES``; None for all GPUs.

    Raises:
        OSError: The driver does not answer.
    """

    def __init__(self, library: Any, visible: str | None = None) -> None:
        self._library = library
        if library.nvmlInit_v2() != 0:
            raise OSError("NVML does not start")
        handles = list(self._handles())
        chosen = choose(visible, [self._text("nvmlDeviceGetUUID", handle) or "" for handle in handles])
        self._gpus = [(index, handles[index]) for index in chosen]

    def names(self) -> dict[str, str]:
        """Return the name of each GPU, by group of tags."""
        return {
            f"gpu{index}": self._text("nvmlDeviceGetName", handle) or "NVIDIA" for index, handle in self._gpus
        }

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        return {
            f"system/gpu{index}/{name}": value
            for index, handle in self._gpus
            for name, value in self._read(handle)
        }

    def _read(self, handle: Any) -> Iterator[tuple[str, float]]:
        share = _Utilization()
        if self._ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(share)):
            yield "utilization_ratio", share.gpu / 100
            yield "memory_utilization_ratio", share.memory / 100
        memory = _Memory()
        if self._ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory)):
            yield "memory_used_bytes", float(memory.used)
            if memory.total:
                yield "memory_used_ratio", memory.used / memory.total
        for name, question, arguments, unit in _NUMBERS:
            number = ctypes.c_uint()
            if self._ask(question, handle, *arguments, ctypes.byref(number)):
                yield name, number.value * unit
        reasons = ctypes.c_ulonglong()
        if self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(reasons)):
            yield "slowed", float(bool(reasons.value & _SLOWED))

    def _handles(self) -> Iterator[Any]:
        number = ctypes.c_uint()
        if not self._ask("nvmlDeviceGetCount_v2", ctypes.byref(number)):
            return
        for index in range(number.value):
            handle = ctypes.c_void_p()
            self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            yield handle

    def _text(self, question: str, handle: Any) -> str | None:
        buffer = ctypes.create_string_buffer(96)
        if not self._ask(question, handle, buffer, ctypes.c_uint(96)):
            return None
        return buffer.value.decode("utf-8", "replace")

    def _ask(self, question: str, *arguments: Any) -> bool:
        """Ask the driver; False where it does not know the question or the answer."""
        function = getattr(self._library, question, None)
        return function is not None and function(*arguments) == 0


_NUMBERS = (
    ("power_watts", "nvmlDeviceGetPowerUsage", (), 1e-3),
    ("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    ("temperature_celsius", "nvmlDeviceGetTemperature", (ctypes.c_uint(_TEMPERATURE_OF_GPU),), 1.0),
    ("clock_mhz", "nvmlDeviceGetClockInfo", (ctypes.c_uint(_CLOCK_SM),), 1.0),
    ("memory_clock_mhz", "nvmlDeviceGetClockInfo", (ctypes.c_uint(_CLOCK_MEMORY),), 1.0),
)


def nvidia(environ: Mapping[str, str] = os.environ, *, every: bool = False) -> Nvidia | None:
    """Return the GPUs of this machine; None where there is no driver or no GPU.

    Args:
        environ: The process environment.
        every: Also those that ``CUDA_VISIBLE_DEVICES`` hides.
    """
    try:
        found = Nvidia(ctypes.CDLL(LIBRARY), None if every else environ.get("CUDA_VISIBLE_DEVICES"))
    except (OSError, AttributeError):
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
