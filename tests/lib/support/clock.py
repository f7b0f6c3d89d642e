"""A clock that tests move on."""

from dataclasses import dataclass, replace

from stepscope.record.clock import SYSTEM, Clock


@dataclass
class Time:
    """Stands still until ``now`` is moved on: the clock of a run, or a function that returns the time."""

    now: float = 1e9

    def __call__(self) -> float:
        return self.now

    @property
    def clock(self) -> Clock:
        return replace(SYSTEM, wall=self, steady=self)
