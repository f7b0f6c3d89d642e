"""How fast a run advances, from its newest points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RECENT = 65
"""Points that are looked at: a median over 64 intervals forgets a pause for evaluation or a checkpoint."""


def steps_per_second(step: NDArray[Any], wall: NDArray[Any]) -> float | None:
    """Return the median rate over the newest points of a series; None where no step or no time has passed.

    Args:
        step: Steps in recorded order.
        wall: Wall times in seconds.
    """
    steps = np.diff(step[-RECENT:].astype(np.float64))
    seconds = np.diff(wall[-RECENT:])
    forward = (steps > 0) & (seconds > 0)
    return float(1 / np.median(seconds[forward] / steps[forward])) if forward.any() else None


def eta_seconds(step: int | None, total_steps: int | None, rate: float | None) -> float | None:
    """Return the time until all steps are done, None where the step, their number or the rate is not known.

    Steps count from 0, so the last of ``total_steps`` is ``total_steps - 1``.
    """
    if step is None or total_steps is None or not rate:
        return None
    return max(0, total_steps - 1 - step) / rate
