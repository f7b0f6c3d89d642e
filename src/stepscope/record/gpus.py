"""GPUs: NVIDIA's through NVML, the driver's own library; AMD's from the files of the kernel's driver."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pynvml

from stepscope.record.machine import file_integer, file_names, file_text

_VENDOR = "0x1002"
_CARD = re.compile(r"card(\d+)$")


class Amd:
    """Reads GPUs.

    Args:
        devices: Directory of each, by its number.
    """

    def __init__(self, devices: Mapping[int, str]) -> None:
        self._devices = dict(devices)
        self._monitors = {
            number: [f"{path}/hwmon/{name}" for name in file_names(f"{path}/hwmon")]
            for number, path in self._devices.items()
        }

    def names(self) -> dict[str, str]:
        """Return the name of each GPU, by group of tags."""
        return {
            f"gpu{number}": (file_text(f"{path}/product_name") or "").strip() or "AMD"
            for number, path in self._devices.items()
        }

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        return {
            f"system/gpu{number}/{name}": value
            for number, path in self._devices.items()
            for name, value in [*_device(path), *_sensors(self._monitors[number])]
        }


def _device(path: str) -> Iterator[tuple[str, float]]:
    for name, file in (
        ("utilization_ratio", "gpu_busy_percent"),
        ("memory_utilization_ratio", "mem_busy_percent"),
    ):
        if (percent := file_integer(f"{path}/{file}")) is not None:
            yield name, percent / 100
    used, total = (file_integer(f"{path}/mem_info_vram_{what}") for what in ("used", "total"))
    if used is not None:
        yield "memory_used_bytes", float(used)
        if total:
            yield "memory_used_ratio", used / total


def _sensors(monitors: list[str]) -> Iterator[tuple[str, float]]:
    for path in monitors:
        power = file_integer(f"{path}/power1_average")  # of older GPUs; newer ones have the other
        power = file_integer(f"{path}/power1_input") if power is None else power
        if power is not None:
            yield "power_watts", power / 1e6
        if (cap := file_integer(f"{path}/power1_cap")) is not None:
            yield "power_limit_watts", cap / 1e6
        labels = _labels(path)
        for label in ("edge", "junction"):  # data centre GPUs have the junction's only
            if label in labels and (heat := file_integer(f"{path}/{labels[label]}_input")) is not None:
                yield "temperature_celsius", heat / 1e3
                break
        for name, label in (("clock_mhz", "sclk"), ("memory_clock_mhz", "mclk")):
            if label in labels and (hertz := file_integer(f"{path}/{labels[label]}_input")) is not None:
                yield name, hertz / 1e6


def _labels(path: str) -> dict[str, str]:
    """Return which sensor has which label."""
    return {
        (file_text(f"{path}/{name}") or "").strip(): name.removesuffix("_label")
        for name in file_names(path)
        if name.endswith("_label")
    }


def amd(
    environ: Mapping[str, str] = os.environ, *, every: bool = False, sys: str = "/sys", first: int = 0
) -> Amd | None:
    """Return the GPUs of this machine; None if there is none.

    Args:
        environ: The process environment.
        every: Also those that ``ROCR_VISIBLE_DEVICES`` or ``HIP_VISIBLE_DEVICES`` hide.
        sys: Directory of the kernel's files.
        first: Number of the first one.
    """
    cards = [(int(match[1]), name) for name in file_names(f"{sys}/class/drm") if (match := _CARD.match(name))]
    paths = [f"{sys}/class/drm/{name}/device" for _, name in sorted(cards)]
    paths = [path for path in paths if (file_text(f"{path}/vendor") or "").strip() == _VENDOR]
    paths = [path for path in paths if file_integer(f"{path}/mem_info_vram_total")]
    chosen = range(len(paths)) if every else visible(environ, len(paths))
    devices = {first + number: paths[number] for number in chosen}
    return Amd(devices) if devices else None


def visible(environ: Mapping[str, str], count: int) -> list[int]:
    """Return the numbers of the GPUs that this process may use."""
    shown = list(range(count))
    for variable in (
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
    ):  # the second numbers what the first shows
        words = [word.strip() for word in environ.get(variable, "").split(",")]
        if words and all(word.isdigit() for word in words):
            shown = [shown[int(word)] for word in words if int(word) < len(shown)]
    return shown


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
    answer = _ask(question, handle) or ""
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _ask(question: str, handle: Any, *arguments: Any) -> Any:
    """Ask the driver; None if it does not know the question or the answer."""
    try:
        return getattr(pynvml, question)(handle, *arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def nvidia(environ: Mapping[str, str] = os.environ, *, every: bool = False) -> Nvidia | None:
    """Return the GPUs of this machine; None if there is no driver or no GPU.

    Args:
        environ: The process environment.
        every: Also those that ``CUDA_VISIBLE_DEVICES`` hides.
    """
    try:
        devices = Nvidia(None if every else environ.get("CUDA_VISIBLE_DEVICES"))
    except pynvml.NVMLError:
        return None
    return devices if devices.names() else None


def choose(visible: str | None, uuids: list[str]) -> list[int]:
    """Return the numbers of the GPUs that CUDA shows to this process, as ``nvidia-smi`` numbers them.

    CUDA reads the list up to the first word that means no GPU. A slice of a GPU (MIG) has a UUID that is not
    among those of whole GPUs; nothing is read of it.

    Args:
        visible: ``CUDA_VISIBLE_DEVICES``; None if it is not set.
        uuids: UUID of each GPU.
    """
    if visible is None:
        return list(range(len(uuids)))
    numbers: list[int] = []
    for word in (word.strip() for word in visible.split(",")):
        if word.isdigit():
            matches = [int(word)] if int(word) < len(uuids) else []
        else:
            matches = [index for index, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(matches) != 1 or matches[0] in numbers:
            break
        numbers += matches
    return numbers
