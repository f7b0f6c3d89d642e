"""Points whose values are still on a device, in the order of each tag.

A point of a tag never overtakes an earlier one of the same tag; other tags do not wait.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stepscope.record.encode import Columns

Point = tuple[str, Any, int, float]
"""Tag, value (a float or a Pending), step, wall time in seconds."""


class Held:
    """Holds points until their devices are done.

    Args:
        lost: Called with the point and the exception where a value cannot be had any more.
    """

    def __init__(self, lost: Callable[[Point, Exception], None]) -> None:
        self._lost = lost
        self._points: dict[str, deque[Point]] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._points.values())))

    def add(self, point: Point) -> None:
        """Take a point."""
        self._points.setdefault(point[0], deque()).append(point)

    def ready(self) -> list[Point]:
        """Let go of the points that no device keeps any more, their values read."""
        found: list[Point] = []
        for tag, points in list(self._points.items()):
            while points and self._read_first(points, found):
                points.popleft()
            if not points:
                del self._points[tag]
        return found

    def put_back(self, points: list[Point]) -> None:
        """Take points again that ``ready`` gave."""
        for point in reversed(points):
            self._points.setdefault(point[0], deque()).appendleft(point)

    def clear(self) -> list[Point]:
        """Let go of everything."""
        points = [point for points in self._points.values() for point in points]
        self._points.clear()
        return points

    def _read_first(self, points: deque[Point], found: list[Point]) -> bool:
        """Read a tag's first point; True where that is done with, be it lost."""
        tag, value, step, wall = points[0]
        if isinstance(value, float):
            found.append(points[0])
            return True
        try:
            if not value.ready():
                return False
            number = value.read()
            found.append((tag, number, getattr(value, "step", step), wall))
        except Exception as error:  # noqa: BLE001  whatever a framework raises must not end the thread
            self._lost(points[0], error)
        return True


def as_columns(points: list[Point], numbers: Mapping[str, int]) -> Columns:
    """Return points, whose values are all there, as columns."""
    tags, values, steps, walls = zip(*points, strict=True)
    ids = array("i", [numbers[tag] for tag in tags])
    return Columns(len(points), ids, array("d", values), array("q", steps), array("d", walls))
