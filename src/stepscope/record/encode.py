"""Points on the writer's thread: encoded as records of an event file, and passed on to listeners."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import RecordError
from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel
from stepscope.kernels import warn_if_uncompiled
from stepscope.kernels.steps import STEP_TIME_NUMBER
from stepscope.record.problems import Problems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

warn_if_uncompiled(kernel)

BYTES_PER_POINT = 64
"""Room for a point besides its tag: framing 16, time 9, step 11, lengths and keys 19, value 4."""


class PointColumns(NamedTuple):
    """Points as columns; only the first ``size`` rows are in use."""

    size: int
    tags: array[int]
    values: array[float]
    steps: array[int]
    walls: array[float]

    def after(self, row: int) -> PointColumns:
        """Return the rows from one on."""
        size, tags, values, steps, walls = self
        return PointColumns(size - row, tags[row:size], values[row:size], steps[row:size], walls[row:size])


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

    def encode(self, columns: PointColumns, begin: int, end: int) -> tuple[bytes, int, int]:
        """Encode rows from ``begin`` to ``end``.

        It stops early at a value that is finite but does not fit into a float32. Points that follow each
        other with the same wall time and step share a record.

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
        """Prepare the encoded fields of new tags."""
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
        """Release the points whose devices have finished, with their values read."""
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
        """Read a tag's first point; return True once it is dealt with, even if it was lost."""
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


def as_columns(points: list[Point], numbers: Mapping[str, int]) -> PointColumns:
    """Return points whose values are all known, as columns."""
    tags, values, steps, walls = zip(*points, strict=True)
    ids = array("i", [numbers[tag] for tag in tags])
    return PointColumns(len(points), ids, array("d", values), array("q", steps), array("d", walls))


Take = Callable[[str, "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"], Any]
"""Called with a tag and its steps, values and wall times in seconds, in the order of recording."""
Wanted = Collection[str] | Callable[[str], bool] | None


class Listeners:
    """Passes the recorded numbers to listeners, on the writer's thread.

    Args:
        names: Tags by number; may grow.
        problems: Receives the exception of a listener, which is then no longer called.
    """

    def __init__(self, names: Sequence[str], problems: Problems) -> None:
        self._names, self._problems = names, problems
        self._all: list[tuple[Take, Callable[[str], bool]]] = []
        self._by_tag: dict[int, list[Take]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, take: Take, tags: Wanted) -> None:
        """Call ``take`` with numbers from now on.

        Args:
            take: Called on the writer's thread.
            tags: Names, or a function that says whether a name is wanted; None for all.
        """
        if tags is None:
            wanted: Callable[[str], bool] = _any
        elif callable(tags):
            wanted = tags
        else:
            wanted = frozenset([tags] if isinstance(tags, str) else tags).__contains__
        self._all.append((take, wanted))
        self._by_tag = {}

    def tell(self, columns: PointColumns, begin: int, end: int) -> None:
        """Pass on the rows from ``begin`` to ``end``."""
        import numpy as np

        size = columns.size
        tags = np.frombuffer(columns.tags, np.int32, size)[begin:end]
        numbers = np.unique(tags)
        wanted = [(number, takes) for number in numbers.tolist() if (takes := self._takes(number))]
        if not wanted:
            return
        rows = [
            np.frombuffer(column, kind, size)[begin:end]
            for column, kind in (
                (columns.steps, np.int64),
                (columns.values, np.float64),
                (columns.walls, np.float64),
            )
        ]
        # A step's time is told last: by then what was logged in it is known.
        wanted.sort(key=lambda entry: entry[0] == STEP_TIME_NUMBER)
        for number, takes in wanted:
            at = np.flatnonzero(tags == number)
            found = [column[at] for column in rows]
            for take in takes:
                self._call(take, self._names[number], *found)

    def _takes(self, number: int) -> list[Take]:
        found = self._by_tag.get(number)
        if found is None:
            name = self._names[number]
            found = self._by_tag[number] = [take for take, wanted in self._all if wanted(name)]
        return found

    def _call(self, take: Take, *arguments: Any) -> None:
        try:
            take(*arguments)
        except Exception as error:  # noqa: BLE001  a listener's own code must not end the writer's thread
            self._all = [entry for entry in self._all if entry[0] is not take]
            self._by_tag = {}
            name = getattr(take, "__qualname__", type(take).__name__)
            found = f"the listener {name} raised {type(error).__name__}: {error}; it is not called again"
            self._problems.post("hook", RecordError(found, hint="the run itself is not affected"))


def _any(name: str) -> bool:
    return True
