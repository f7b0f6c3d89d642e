"""AMD's GPUs, from the files of the kernel's own driver (amdgpu): nothing is to be installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from stepscope.record.system import files

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
            number: [f"{path}/hwmon/{name}" for name in files.names(f"{path}/hwmon")]
            for number, path in self._devices.items()
        }

    def names(self) -> dict[str, str]:
        """Return the name of each GPU, by group of tags."""
        return {
            f"gpu{number}": (files.text(f"{path}/product_name") or "").strip() or "AMD"
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
        if (percent := files.integer(f"{path}/{file}")) is not None:
            yield name, percent / 100
    used, total = (files.integer(f"{path}/mem_info_vram_{what}") for what in ("used", "total"))
    if used is not None:
        yield "memory_used_bytes", float(used)
        if total:
            yield "memory_used_ratio", used / total


def _sensors(monitors: list[str]) -> Iterator[tuple[str, float]]:
    for path in monitors:
        power = files.integer(f"{path}/power1_average")  # of older GPUs; newer ones have the other
        power = files.integer(f"{path}/power1_input") if power is None else power
        if power is not None:
            yield "power_watts", power / 1e6
        if (cap := files.integer(f"{path}/power1_cap")) is not None:
            yield "power_limit_watts", cap / 1e6
        labels = _labels(path)
        for label in ("edge", "junction"):  # data centre GPUs have the junction's only
            if label in labels and (heat := files.integer(f"{path}/{labels[label]}_input")) is not None:
                yield "temperature_celsius", heat / 1e3
                break
        for name, label in (("clock_mhz", "sclk"), ("memory_clock_mhz", "mclk")):
            if label in labels and (hertz := files.integer(f"{path}/{labels[label]}_input")) is not None:
                yield name, hertz / 1e6


def _labels(path: str) -> dict[str, str]:
    """Return which sensor has which label."""
    return {
        (files.text(f"{path}/{name}") or "").strip(): name.removesuffix("_label")
        for name in files.names(path)
        if name.endswith("_label")
    }


def amd(
    environ: Mapping[str, str] = os.environ, *, every: bool = False, sys: str = "/sys", first: int = 0
) -> Amd | None:
    """Return the GPUs of this machine; None where there is none.

    Args:
        environ: The process environment.
        every: Also those that ``ROCR_VISIBLE_DEVICES`` or ``HIP_VISIBLE_DEVICES`` hide.
        sys: Where the kernel's files are.
        first: Number of the first one.
    """
    cards = [
        (int(match[1]), name) for name in files.names(f"{sys}/class/drm") if (match := _CARD.match(name))
    ]
    paths = [f"{sys}/class/drm/{name}/device" for _, name in sorted(cards)]
    paths = [path for path in paths if (files.text(f"{path}/vendor") or "").strip() == _VENDOR]
    paths = [path for path in paths if files.integer(f"{path}/mem_info_vram_total")]
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
