"""The cost of recording to the training: measured, and reported every few seconds.

Of the ordinary calls one in ``EVERY`` is timed and counts for all of them (``kernels.points``), as two
readings of the clock take half as long as the call itself; the others, which do more, are timed each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from stepscope.kernels.points import Points
from stepscope.kernels.steps import Spent
from stepscope.record.clock import Clock

EVERY = 61  # prime, so that it does not fall in step with the number of tags a loop logs
UNSEEN = 1.2
"""Factor for the way into the calls and out of them, which a clock inside cannot see: a tenth to a quarter
of the rest, as ``benchmarks/step_cost.py`` measures it from outside."""
REPORT_SECS, SHORTEST_SECS = 5.0, 0.5

OVERHEAD_US_PER_STEP = "stepscope/overhead_us_per_step"
OVERHEAD_RATIO = "stepscope/overhead_ratio"
WRITER_CPU_RATIO = "stepscope/writer_cpu_ratio"
QUEUED_BYTES = "stepscope/queued_bytes"
DROPPED_POINTS = "stepscope/dropped_points"

T = TypeVar("T")


class Cost(Spent):
    """The time spent on recording one run, with reports of it.

    Args:
        points: Account for the time of ordinary calls.
        clock: Gives the time.

    Attributes:
        readings: The newest values that were recorded about it, by tag.
    """

    def __init__(self, points: Points, clock: Clock) -> None:
        super().__init__()
        self.readings: Mapping[str, float] = {}
        self._points, self._steady = points, clock.steady
        self._seconds_before, self._steps_before = 0.0, 0
        self._reported = False
        self.restart(clock.steady(), 0.0)

    @property
    def spent(self) -> float:
        """Seconds that logging has taken the threads that log so far, hooks included."""
        return self.seconds + self._points.spent

    def charge(self, begun: float, spent: float | None = None) -> None:
        """Count the time since a call began.

        Args:
            begun: Steady time in seconds.
            spent: ``spent`` at that time, if the call may have logged: that time is counted already.
        """
        logged = 0.0 if spent is None else self.spent - spent
        self.seconds += self._steady() - begun - logged

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function of the user's: its time is not counted as cost, but its logging is.

        Args:
            function: The function.
            *arguments: Arguments of the call.
        """
        begun, spent = self._steady(), self.spent
        try:
            return function(*arguments)
        finally:
            self.theirs += self._steady() - begun - (self.spent - spent)

    # --- reports ------------------------------------------------------------------------------------

    def restart(self, now: float, cpu: float) -> None:
        """Start measuring the time until the first report."""
        self._since, self._cpu_since = now, cpu

    def due(self, now: float) -> bool:
        """Return whether it is time for the next report."""
        return now - self._since >= REPORT_SECS

    def report(self, now: float, cpu: float) -> dict[str, float]:
        """Return the readings since the last report, by tag, without unmeasured ones.

        Args:
            now: Steady time in seconds.
            cpu: Processor time of the writer's thread in seconds.
        """
        elapsed = now - self._since
        total = UNSEEN * self.spent
        seconds, steps = total - self._seconds_before, self.steps - self._steps_before
        shares: dict[str, float] = {}
        if elapsed <= 0 or (elapsed < SHORTEST_SECS and self._reported):
            return shares  # at the end of a run, right after a report: too short to say anything
        if steps:
            shares[OVERHEAD_US_PER_STEP] = 1e6 * seconds / steps
        shares[OVERHEAD_RATIO] = seconds / elapsed
        shares[WRITER_CPU_RATIO] = (cpu - self._cpu_since) / elapsed
        self._since, self._cpu_since, self._reported = now, cpu, True
        self._seconds_before, self._steps_before = total, self.steps
        return shares
