"""The clocks of a run, in one place so that tests can pass time in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Four readings, each in seconds.

    Attributes:
        wall: Time of day; what a point carries.
        steady: Never goes back; what steps are measured with.
        cpu: Processor time of the calling thread.
        pause: Waits.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time
    pause: Callable[[float], None] = time.sleep

    @property
    def own_wall(self) -> Callable[[], float] | None:
        """``wall``; None where it is the system's, which compiled code reads by itself."""
        return None if self.wall is time.time else self.wall

    @property
    def own_steady(self) -> Callable[[], float] | None:
        """``steady``, likewise."""
        return None if self.steady is time.perf_counter else self.steady


SYSTEM = Clock()
