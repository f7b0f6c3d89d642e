"""Points on their way from the threads that log to the one that writes: columns of numbers, no objects.

Compiled, a method runs from its beginning to its end while the interpreter's lock is held, and where there is
none under the object's own; signal handlers run before or after it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import cython
from cython import critical_section

if not cython.compiled:
    import threading
    from time import time as now

    _lock = threading.RLock()

    def critical_section(points: Points) -> threading.RLock:
        return _lock

    def _signed64(number: int) -> int:
        if not -(1 << 63) <= number < 1 << 63:
            raise OverflowError
        return number


ROOM = 1024


@cython.final
@cython.cclass
class Points:
    """Columns that any thread appends to and one takes away.

    Args:
        clock: Gives the wall time in seconds; by default the system's.
        every: ``put`` refuses one call in so many, so that the caller can time the next attempt.

    Attributes:
        names: Tags by number.
        numbers: Number of each tag.
        known: Number of each tag that ``put`` takes.
        step: The current step, for points without one of their own; only where ``stepping``.
        mark: ``put`` takes no more than this many.
        sampled: Set by a refusal for timing's sake.
        count: Points held.
    """

    def __init__(self, clock: Callable[[], float] | None = None, every: cython.int = 61) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.known: dict[str, int] = {}
        self.clock = clock
        self.step, self.stepping, self.count = 0, False, 0
        self.mark = ROOM
        self._every = self._left = every
        self.sampled = False
        self._grow(ROOM)

    def put(self, tag: object, value: object, step: object = None, wall: cython.double = -1.0) -> bool:
        """Append a point if nothing about it is unusual, else change nothing and return False.

        Args:
            tag: Text, among ``known``.
            value: A float or int.
            step: An int, or None for the current step.
            wall: Time in seconds; by default now.
        """
        v: cython.double
        s: cython.longlong
        if self.count >= self.mark or type(tag) is not str:
            return False
        number = self.known.get(tag)
        if number is None or not (isinstance(value, float) or type(value) is int):
            return False
        try:
            v = value if cython.compiled else float(value)
            if step is None:
                if not self.stepping:
                    return False
                s = self.step
            elif type(step) is int:
                s = step if cython.compiled else _signed64(step)
            else:
                return False
        except OverflowError:
            return False
        self._left -= 1
        if self._left <= 0:
            self._left, self.sampled = self._every + 1, True  # the next attempt does not count
            return False
        if wall < 0:
            wall = now() if self.clock is None else self.clock()
        self._store(number, v, s, wall)
        return True

    def admit(self, tag: str) -> int:
        """Return the number of a tag, new or not, which ``put`` takes from now on."""
        with critical_section(self):
            number = self.numbers.get(tag)
            if number is None:
                number = len(self.names)
                self.names.append(tag)
                self.numbers[tag] = number
            self.known[tag] = number
        return number

    def add(
        self, number: cython.int, value: cython.double, step: cython.longlong, wall: cython.double
    ) -> None:
        """Append a point."""
        self._store(number, value, step, wall)

    def take(self) -> tuple[int, array[int], array[float], array[int], array[float]]:
        """Take every point away: their number, and columns of tags, values, steps and walls from them on."""
        with critical_section(self):
            count, columns = self.count, self._columns
            self.count = 0
            self._grow(ROOM)
        return (count, *columns)

    def _store(self, number, value, step, wall):
        at: cython.Py_ssize_t
        with critical_section(self):
            at = self.count
            if at == self._room:
                self._grow(2 * at)
            self._tags[at] = number
            self._values[at] = value
            self._steps[at] = step
            self._walls[at] = wall
            self.count = at + 1

    def _grow(self, room):
        """Get columns of some length and copy what is held into them."""
        columns = tuple(
            array(code, bytes(size * room)) for code, size in (("i", 4), ("d", 8), ("q", 8), ("d", 8))
        )
        if self.count:
            for new, old in zip(columns, self._columns, strict=True):
                new[: self.count] = old[: self.count]
        self._columns, self._room = columns, room
        self._tags, self._values, self._steps, self._walls = map(memoryview, columns)
