"""Points become records of an event file, many at a time."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel
from stepscope.kernels import warn_if_uncompiled

warn_if_uncompiled(kernel)

BYTES_PER_POINT = 64
"""Room for a point besides its tag: framing 16, time 9, step 11, lengths and keys 19, value 4."""


class Columns(NamedTuple):
    """Points as columns; only the first ``size`` rows are any."""

    size: int
    tags: array[int]
    values: array[float]
    steps: array[int]
    walls: array[float]

    def after(self, row: int) -> Columns:
        """Return the rows from one on."""
        size, tags, values, steps, walls = self
        return Columns(size - row, tags[row:size], values[row:size], steps[row:size], walls[row:size])


class Encoder:
    """Encodes points.

    Args:
        names: Tags by number; may grow.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._fields = bytearray()
        self._ends = array("i")
        self._longest = 0
        self._out = bytearray()

    def encode(self, columns: Columns, begin: int, end: int) -> tuple[bytes, int, int]:
        """Encode rows from ``begin`` to ``end``.

        It stops early at a value that is finite but no float32. Points that follow each other with the same
        wall time and step share a record.

        Returns:
            The records, the number of rows in them, and how often the step changed between two of these.
        """
        self._learn()
        room = (end - begin) * (BYTES_PER_POINT + self._longest)
        if len(self._out) < room:
            self._out = bytearray(room)
        rows = [memoryview(column)[begin:end] for column in columns[1:]]
        scalars: Any = kernel.scalars
        done, size, changes = scalars(*rows, self._fields, self._ends, self._out)
        return bytes(memoryview(self._out)[:size]), done, changes

    def _learn(self) -> None:
        """Get the fields of the tags that are new."""
        for tag in self._names[len(self._ends) :]:
            # Summary.Value: the tag, then the key of simple_value.
            field = b"\x0a" + length_prefixed(tag.encode()) + b"\x15"
            self._fields += field
            self._ends.append(len(self._fields))
            self._longest = max(self._longest, len(field))


# --- values on devices ------------------------------------------------------------------------------

Point = tuple[str, Any, int, float]
"""Tag, value (a float or a Pending), step, wall time in seconds."""


class DevicePoints:
    """Holds points whose values are still on a device, in the order of each tag.

    A point of a tag never overtakes an earlier one of the same tag; other tags do not wait.

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
