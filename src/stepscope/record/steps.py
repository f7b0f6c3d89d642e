"""The step that runs now: its number, when it began, how long it waited for its data.

Numbers begin at ``start`` and count on over every loop of the run. A step's time goes from the moment its
data was asked for to its end, so the wait for data is part of it. It is time of the host: a device that works
asynchronously is seen through it once its queue is full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

STEP_TIME = "speed/step_time_ms"
DATA_WAIT = "speed/data_wait_ms"
STEP_TIME_NUMBER, DATA_WAIT_NUMBER = 0, 1
"""Their numbers where points wait, as every run admits them first."""


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


@dataclass
class Steps:
    """The steps of one run.

    Attributes:
        next: Number of the step that begins next.
        current: Number of the step that runs or ran last; None before the first.
        done: Steps ended.
        running: Whether a step has begun and not ended.
        asked: Steady time in seconds at which the data of the running step was asked for, or at which it
            began.
        waited: Seconds it waited for data; None where nobody measured that.
        last: The last step that came to its end.
        looping: Whether the data of the next step is asked for as soon as the running one has ended.
        on_leave: Called when a loop over data is over, all its steps whole; they must not raise.
    """

    next: int = 0
    current: int | None = None
    done: int = 0
    running: bool = False
    asked: float = 0.0
    waited: float | None = None
    last: StepFacts | None = None
    looping: bool = False
    on_leave: list[Callable[[], None]] = field(default_factory=list)

    def begin(self, asked: float, waited: float | None = None) -> int:
        """Begin the next step and return its number."""
        self.current, self.asked, self.waited, self.running = self.next, asked, waited, True
        self.next += 1
        return self.current

    def end(self, now: float) -> StepFacts:
        """End the running step and return what was measured of it."""
        self.running = False
        self.done += 1
        self.last = StepFacts(self.current or 0, now - self.asked, self.waited)
        return self.last

    def abandon(self) -> None:
        """Drop the running step unmeasured: it did not come to its end."""
        self.running = False
