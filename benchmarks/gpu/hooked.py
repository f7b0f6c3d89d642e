"""Steps of a run under a profiler's hook: without a capture, and with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import stepscope as ss
from gpu.device import Device


def idle_hook() -> Any:
    """Return a hook that captures nothing in any run that ends."""
    return ss.ProfilerHook(save_steps=10**9, skip_first=10**9)


def between_captures(
    device: Device, place: Path, step: Callable[[], object], *, secs: float
) -> tuple[list[float], list[float]]:
    """Return the seconds of a step without a run, and between the captures of one; they take turns."""
    with ss.Run(place, hooks=[idle_hook()]) as run:

        def hooked() -> None:
            with run.step():
                step()

        return device.paired(step, hooked, secs=secs, steps=device.size(20, 5))


def profile_of(
    place: Path, step: Callable[[], object], *, steps: int, skip_first: int = 2, **options: Any
) -> Path:
    """Return the profile of a run with one capture.

    Args:
        place: Directory of the run.
        step: What is done in each step.
        steps: How many there are.
        skip_first: Steps before the capture.
        options: Of the hook besides.
    """
    hook = ss.ProfilerHook(save_steps=1000, skip_first=skip_first, analyse=False, **options)
    with ss.Run(place, hooks=[hook]) as run:
        for _ in run.steps(range(steps)):
            step()
    profiles = place / "profiles"
    [profile] = [*profiles.rglob("*.pt.trace.json.gz"), *profiles.rglob("*.xplane.pb")]
    return profile
