"""Series of the driver, as a run records them, against what ``nvidia-smi`` prints in the same seconds.

On the processor a driver with fixed answers stands in for both.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pynvml
import torch

import stepscope as ss
from gpu.claims import Claim, Skipped
from gpu.device import Device

CLAIMS = (
    Claim("Memory in use is nvidia-smi's, within 1 %.", "memory_error", most=0.01),
    Claim("Power is nvidia-smi's, within 10 %.", "power_error", most=0.10),
    Claim("The temperature is nvidia-smi's, within 3 degrees.", "temperature_off", most=3),
    Claim("The clock is nvidia-smi's, within 5 %.", "clock_error", most=0.05),
    Claim("A GPU that works without a pause is utilised to 90 % at least.", "utilization", least=0.9),
    Claim("An idle card is not reported as slowed by heat or power.", "slowed", most=0),
)
COLUMNS = {
    "memory_used_bytes": ("memory.used", float(1 << 20)),
    "power_watts": ("power.draw", 1.0),
    "temperature_celsius": ("temperature.gpu", 1.0),
    "clock_mhz": ("clocks.sm", 1.0),
}
"""nvidia-smi's name of a series, and its unit in ours."""


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Read both while the device works."""
    if not device.decides:
        with mock.patch.multiple(pynvml, **driver()):
            return compared(device, place, lambda: FIXED)
    if shutil.which("nvidia-smi") is None:
        raise Skipped("there is no nvidia-smi to compare with")
    return compared(device, place, nvidia_smi)


def compared(device: Device, place: Path, ask: Callable[[], dict[str, float]]) -> dict[str, Any]:
    side = device.size(8192, 128)
    a = torch.randn(side, side, device=device.place, dtype=torch.bfloat16)
    theirs: list[dict[str, float]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.3):
            theirs.append(ask())

    with ss.Run(place, hooks=[ss.SystemHook(every_secs=0.3)]) as run:
        time.sleep(1)  # the card is idle
        thread = threading.Thread(target=look)
        thread.start()
        begun, end = time.time() + 1, time.perf_counter() + device.size(6, 2)
        for _ in run.steps(iter(int, 1)):
            for _ in range(20):
                torch.mm(a, a)
            device.synchronize()
            if time.perf_counter() > end:
                break
        finished = time.time()
        over.set()
        thread.join()
    with ss.open(place) as logs:
        saved = logs.runs()[0]
        ours = {name: of_window(saved, name, begun, finished) for name in [*COLUMNS, "utilization_ratio"]}
        slowed = of_window(saved, "slowed", 0, begun - 1)
    figures: dict[str, Any] = {"samples": len(ours["power_watts"]), "asked": len(theirs)}
    for name, figure in (
        ("memory_used_bytes", "memory_error"), ("power_watts", "power_error"), ("clock_mhz", "clock_error"),
    ):  # fmt: skip
        one, two = statistics.median(ours[name]), statistics.median(each[name] for each in theirs[2:])
        figures |= {figure: round(abs(one / two - 1), 4), name: [one, two]}
    heat = statistics.median(each["temperature_celsius"] for each in theirs[2:])
    figures["temperature_off"] = abs(statistics.median(ours["temperature_celsius"]) - heat)
    figures["utilization"] = statistics.median(ours["utilization_ratio"])
    figures["slowed"] = max(slowed, default=None)
    return figures


def of_window(saved: Any, name: str, begin: float, end: float) -> list[float]:
    """Return the values of the first GPU's series between two moments."""
    tag = next((tag for tag in saved.tags("scalar") if tag.endswith(f"/{name}") and "/gpu" in tag), None)
    if tag is None:
        return []
    series = saved.series(tag)
    return [
        float(value)
        for value, wall in zip(series["value"], series["wall_time"], strict=True)
        if begin <= float(wall) <= end
    ]


def nvidia_smi() -> dict[str, float]:
    query = ",".join(column for column, _ in COLUMNS.values())
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    words = printed.strip().split(", ")
    return {name: float(word) * unit for (name, (_, unit)), word in zip(COLUMNS.items(), words, strict=True)}


FIXED = {"memory_used_bytes": 2.0 * (1 << 30), "power_watts": 350.0, "temperature_celsius": 50.0,
         "clock_mhz": 1500.0}  # fmt: skip


def driver() -> dict[str, Any]:
    """Return the functions of a driver with one GPU whose readings are fixed."""
    answers: dict[str, Any] = {
        "nvmlInit": None, "nvmlDeviceGetCount": 1, "nvmlDeviceGetHandleByIndex": 0,
        "nvmlDeviceGetUUID": "GPU-0", "nvmlDeviceGetName": "stand-in",
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=100, memory=10),
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=2 << 30, total=80 << 30),
        "nvmlDeviceGetPowerUsage": 350_000, "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetTemperature": 50, "nvmlDeviceGetClockInfo": 1500,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0,
    }  # fmt: skip
    return {name: (lambda *_, value=value: value) for name, value in answers.items()}
