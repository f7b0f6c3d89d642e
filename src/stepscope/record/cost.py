"""What recording costs the training: measured by sampling, reported every few seconds.

Timing a call takes two readings of the clock, about as long as the call itself. So calls are timed all while
they are rare, and one in ``PERIOD`` once they are many, each then counting for ``PERIOD``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, cycle, repeat

PERIOD = 17  # prime, so that it does not fall in step with the number of tags a loop logs
FIRST = 16
BUSY_PER_SECOND = 50.0
REPORT_SECS, SHORTEST_SECS = 5.0, 0.5

OVERHEAD_US_PER_STEP = "stepscope/overhead_us_per_step"
OVERHEAD_RATIO = "stepscope/overhead_ratio"
WRITER_CPU_RATIO = "stepscope/writer_cpu_ratio"
QUEUED_BYTES = "stepscope/queued_bytes"
DROPPED_POINTS = "stepscope/dropped_points"


class Cost:
    """The running account of one run.

    Attributes:
        seconds: Estimated time spent in this package by the threads that log.
        steps: Steps ended.
        weight: Called once per logging call: 0, or the number of calls for which this one is to be timed.
            Taken from a C iterator, as it runs on the hot path.
    """

    def __init__(self, now: float, cpu: float) -> None:
        self.seconds, self.steps = 0.0, 0
        self.weight: Callable[[], int] = chain(
            repeat(1, FIRST), cycle((0,) * (PERIOD - 1) + (PERIOD,))
        ).__next__
        self._busy, self._reported = True, False
        self._since, self._cpu_since = now, cpu
        self._seconds_before, self._steps_before = 0.0, 0

    def adapt(self, calls_per_second: float) -> None:
        """Time every call, or a sample of them, after how many there are."""
        busy = calls_per_second > BUSY_PER_SECOND
        if busy != self._busy:
            self._busy = busy
            self.weight = cycle((0,) * (PERIOD - 1) + (PERIOD,)).__next__ if busy else repeat(1).__next__

    def due(self, now: float) -> bool:
        """Whether it is time for the next report."""
        return now - self._since >= REPORT_SECS

    def report(self, now: float, cpu: float) -> dict[str, float]:
        """Return the readings since the last report, by tag; what was not measured is not there.

        Args:
            now: Steady time in seconds.
            cpu: Processor time of the writer's thread in seconds.
        """
        elapsed = now - self._since
        seconds, steps = self.seconds - self._seconds_before, self.steps - self._steps_before
        found: dict[str, float] = {}
        if elapsed < SHORTEST_SECS and self._reported:
            return found  # at the end of a run, right after a report: too short to say anything
        if steps:
            found[OVERHEAD_US_PER_STEP] = 1e6 * seconds / steps
        if elapsed > 0:
            found[OVERHEAD_RATIO] = seconds / elapsed
            found[WRITER_CPU_RATIO] = (cpu - self._cpu_since) / elapsed
        self._since, self._cpu_since, self._reported = now, cpu, True
        self._seconds_before, self._steps_before = self.seconds, self.steps
        return found
