"""The clocks of a run, in one place so that tests can pass time in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

OPEN_SECS = 3.0
"""The longest that training waits for a file to be opened; after that it is opened in the background."""


@dataclass(frozen=True)
class Clock:
    """Four readings, each in seconds.

    Attributes:
        wall: Time of day, for points.
        steady: Never goes back; for the durations of steps.
        cpu: Processor time of the calling thread.
        pause: Waits.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time
    pause: Callable[[float], None] = time.sleep

    @property
    def own_wall(self) -> Callable[[], float] | None:
        """``wall``; None if it is the system's, which compiled code reads by itself."""
        return None if self.wall is time.time else self.wall

    @property
    def own_steady(self) -> Callable[[], float] | None:
        """``steady``, likewise."""
        return None if self.steady is time.perf_counter else self.steady


SYSTEM = Clock()


@dataclass(frozen=True)
class Deadline:
    """The moment by which something has to be done.

    It is handed down: waits that follow each other share one deadline instead of each taking the full time.

    Attributes:
        at: Steady time in seconds.
        steady: Gives the steady time.
    """

    at: float = math.inf
    steady: Callable[[], float] = time.perf_counter

    @classmethod
    def after(cls, seconds: float, clock: Clock = SYSTEM) -> Deadline:
        """Return the deadline that lies the given number of seconds ahead."""
        return cls(clock.steady() + seconds, clock.steady)

    def left(self, most: float = math.inf) -> float:
        """Return how many seconds are left, 0 if it has passed.

        Args:
            most: Return no more than this.
        """
        return max(min(self.at - self.steady(), most), 0.0)

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline this many seconds before this one, to leave time for later work."""
        return Deadline(self.at - seconds, self.steady)

    def within(self, seconds: float) -> Deadline:
        """Return this deadline, or the one the given number of seconds from now if that is sooner."""
        return Deadline(min(self.at, self.steady() + seconds), self.steady)


NO_DEADLINE = Deadline()
