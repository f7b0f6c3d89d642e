"""The step that runs now: its number, when it began, how long it waited for its data.

Numbers begin at ``start`` and count on over every loop of the run. A step's time goes from the moment its
data was asked for to its end, so the wait for data is part of it. It is time of the host: a device that works
asynchronously is seen through it once its queue is full.
"""

from __future__ import annotations

from typing import NamedTuple

from stepscope.kernels.steps import Steps as Steps

STEP_TIME = "speed/step_time_ms"
DATA_WAIT = "speed/data_wait_ms"


class StepFacts(NamedTuple):
    """What was measured of a step.

    Attributes:
        step: Its number.
        seconds: How long it took.
        waited: How much of that it waited for data; None where nobody measured it.
    """

    step: int
    seconds: float
    waited: float | None


class Follower:
    """What was measured of each step, for a hook that rests and looks now and then.

    Args:
        steps: Those that end from now on; the oldest are forgotten where nobody looks for ``PAST`` of them.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps, self._seen = steps, steps.done

    def take(self) -> list[tuple[int, float, float | None]]:
        """Return number, seconds and wait of each step that ended since the last call."""
        found = self._steps.since(self._seen)
        self._seen = self._steps.done
        return found
