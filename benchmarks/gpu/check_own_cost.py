"""What a run with everything on costs a training on a GPU, against the same training with nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepscope as ss
from gpu.check_capture import transformer
from gpu.claims import Claim
from gpu.device import Device, ratio, spread
from gpu.hooked import idle_hook

CLAIMS = (
    Claim("Everything on, a step takes 1.02 times at most.", "wall_ratio", most=1.02),
    Claim("Everything on, the training thread takes 50 µs more a step at most.", "thread_us", most=50),
    Claim("The run's own account of its cost is right within a third.", "account", 0.67, 1.5),
)
TAGS = [f"train/metric_{number}" for number in range(20)]


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure blocks of steps in turns, with a new run for each block."""
    step, steps = transformer(device), device.size(100, 10)
    pairs = device.size(6, 2)
    walls: dict[bool, list[float]] = {False: [], True: []}
    threads: dict[bool, list[float]] = {False: [], True: []}
    said = []
    for number in range(pairs):
        for on in (False, True) if number % 2 == 0 else (True, False):
            wall, thread = with_run(device, place / str(number), step, steps) if on else plain(
                device, step, steps
            )  # fmt: skip
            walls[on].append(wall)
            threads[on].append(thread)
        with ss.open(place / str(number)) as logs:
            said += list(logs.runs()[0].series("stepscope/overhead_us_per_step")["value"])
    thread_us = 1e6 * statistics.median(
        one - two for one, two in zip(threads[True], threads[False], strict=True)
    )
    return {
        "step_ms": round(1e3 * statistics.median(walls[False]), 3),
        "wall_ratio": round(ratio(walls[False], walls[True]), 4),
        "wall_quartiles": spread(walls[False], walls[True]),
        "thread_us": round(thread_us, 1),
        "said_us": round(float(statistics.median(said)), 1) if said else None,
        "account": round(float(statistics.median(said)) / thread_us, 2) if said and thread_us > 0 else None,
    }


def plain(device: Device, step: Any, steps: int) -> tuple[float, float]:
    """Return what :func:`timed` does of the training with nothing."""

    def loop() -> None:
        for _ in range(steps):
            step()

    return timed(device, loop, steps)


def with_run(device: Device, place: Path, step: Any, steps: int) -> tuple[float, float]:
    """Return the same of a run with every hook that does not change the training."""
    hooks = [
        ss.StepCounterHook(), ss.SystemHook(every_secs=1), ss.HealthHook(),
        idle_hook(), ss.HangHook(),
    ]  # fmt: skip
    with ss.Run(place, hooks=hooks) as run:

        def loop() -> None:
            for number in run.steps(range(steps)):
                step()
                for tag in TAGS:
                    run.scalar(tag, 0.5, number)

        return timed(device, loop, steps)


def timed(device: Device, loop: Callable[[], None], steps: int) -> tuple[float, float]:
    """Return the seconds of a step of a loop, by the clock and of the training thread."""
    device.synchronize()
    begun, thread = time.perf_counter(), time.thread_time()
    loop()
    thread = time.thread_time() - thread
    device.synchronize()
    return (time.perf_counter() - begun) / steps, thread / steps
