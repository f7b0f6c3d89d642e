"""Values of several series at one step."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.health.batch import Point
from stepscope.health.series import Stream


@dataclass
class StepValues:
    """The points of one step, the latest of each stream."""

    step: int
    wall: float
    values: dict[Stream, float] = field(default_factory=dict)

    def of(self, role: str) -> dict[Stream, float]:
        """Return the values of one role."""
        return {stream: value for stream, value in self.values.items() if stream.role == role}


class StepRows:
    """Gathers points that follow each other and have the same step."""

    def __init__(self) -> None:
        self._row: StepValues | None = None

    def add(self, point: Point) -> StepValues | None:
        """Take a point; return the row before it if that is complete."""
        stream, step, value, wall = point
        done = None
        if self._row is None or self._row.step != step:
            done, self._row = self._row, StepValues(step, wall)
        self._row.values[stream] = value
        self._row.wall = wall
        return done

    def rest(self) -> StepValues | None:
        """Return the last row; there is nothing after it."""
        done, self._row = self._row, None
        return done
