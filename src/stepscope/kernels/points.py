"""Points on their way from the threads that log to the one that writes: columns of numbers, no objects.

Compiled, a method holds the interpreter's lock from beginning to end, or the object's own lock in an
interpreter without one; signal handlers run before or after it.
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
UNUSUAL = 30
"""A call that takes at least this many times the usual was interrupted; below that it may be a cold cache."""


@cython.final
@cython.cclass
class Points:
    """Columns that any thread appends to and one takes away.

    Args:
        clock: Gives the wall time in seconds; by default the system's.
        every: One call of ``put`` in this many is timed and stands for all of them.
        steady: The clock for that, in seconds; by default the system's.

    Attributes:
        names: Tags by number.
        numbers: Number of each tag.
        known: Number of each tag that ``put`` takes.
        readers: By type, a function that turns a value that is not a float or int into a float at once. If it
            returns something else, or raises, the value is not taken.
        step: The current step, for points without one of their own; only where ``stepping``.
        mark: ``put`` takes no more than this many.
        gated: ``put`` takes nothing, because the caller must ask first which points are recorded.
        spent: Seconds spent in ``put`` so far, estimated from the calls that were timed.
        usual: Seconds that a timed call usually takes. A call that the system interrupted says nothing about
            the others: it counts once, and the usual time stands for the others.
        count: Points held.
        taking: Whether the run takes points at all. For callers; ``put`` does not look at it.
        taken: Points that ``take`` has removed.
        unheld: Points for which there was no memory, since the last ``take_unheld``.
    """

    def __init__(
        self,
        clock: Callable[[], float] | None = None,
        every: cython.int = 61,
        steady: Callable[[], float] | None = None,
    ) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}
        self.known: dict[str, int] = {}
        self.readers: dict[type, Callable[[object], object]] = {}
        self.clock = clock
        self.step, self.stepping, self.count = 0, False, 0
        self.taking = False
        self.unheld = self.taken = 0
        self.mark = ROOM
        self._every = self._left = every
        self.gated = False
        self.spent, self.usual, self._steady = 0.0, 0.0, steady
        self._room = 0
        self._grow(ROOM)

    def put(self, tag, value, step=None, wall=-1.0):
        """Append a point if nothing about it is unusual; otherwise change nothing and return False.

        Args:
            tag: Text, among ``known``.
            value: A float, an int, or of a type among ``readers``.
            step: An int, or None for the current step.
            wall: Time in seconds; by default now.
        """
        v: cython.double
        s: cython.longlong
        begun: cython.double = self._now() if self._left == 1 else -1.0
        if self.count >= self.mark or self.gated or type(tag) is not str:
            return False
        number = self.known.get(tag)
        if number is None:
            return False
        read = None
        if not (isinstance(value, float) or type(value) is int):
            read = self.readers.get(type(value))
            if read is None:
                return False
        try:
            if step is None:
                if not self.stepping:
                    return False
                s = self.step
            elif type(step) is int:
                s = step if cython.compiled else _signed64(step)
            else:
                return False
            if read is not None:
                value = read(value)
                if not isinstance(value, float):
                    return False
            v = value if cython.compiled else float(value)
        except Exception:  # noqa: BLE001  a value's own code may raise what it likes; the caller looks into it
            return False
        if wall < 0:
            wall = now() if self.clock is None else self.clock()
        self._store(number, v, s, wall)
        if begun >= 0:
            self._account(self._now() - begun)
        else:
            self._left -= 1
        return True

    def admit(self, tag: str) -> int:
        """Return the number of a tag, which may be new; ``put`` takes it from now on."""
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

    def pair(self, number, value, other, second, step):
        """Append two points of this moment if ``put`` would take them; the second only if it is not negative.

        Args:
            number: Number of the first tag.
            value: Its value.
            other: Number of the second tag.
            second: Its value, or -1 for none.
            step: Their step.
        """
        wall: cython.double
        if self.count + 1 >= self.mark:
            return False
        wall = now() if self.clock is None else self.clock()
        self._store(number, value, step, wall)
        if second >= 0:
            self._store(other, second, step, wall)
        return True

    def take(self) -> tuple[int, array[int], array[float], array[int], array[float]]:
        """Remove all points; return their number, and columns with tags, values, steps and walls in front."""
        count: cython.Py_ssize_t
        fresh = made(ROOM)
        tags: cython.int[::1] = fresh[0]
        values: cython.double[::1] = fresh[1]
        steps: cython.longlong[::1] = fresh[2]
        walls: cython.double[::1] = fresh[3]
        with critical_section(self):  # nothing is allocated in it: see ``made``
            count, columns = self.count, self._columns
            self.taken += count
            self.count, self._columns, self._room = 0, fresh, ROOM
            self._tags, self._values, self._steps, self._walls = tags, values, steps, walls
        return (count, *columns)

    @property
    def logged(self) -> int:
        """How many points were appended so far."""
        with critical_section(self):
            return self.taken + self.count

    def lose(self) -> None:
        """Count a point for which there was no memory; allocates nothing."""
        with critical_section(self):
            self.unheld += 1

    def take_unheld(self) -> int:
        """Return how many points found no memory since the last call."""
        with critical_section(self):
            count, self.unheld = self.unheld, 0
        return count

    def _store(self, number, value, step, wall):
        """Append a point, or count it where there is no memory: a run never raises into the training."""
        at: cython.Py_ssize_t
        room: cython.Py_ssize_t
        while True:
            with critical_section(self):
                at, room = self.count, self._room
                if at < room:
                    self._tags[at] = number
                    self._values[at] = value
                    self._steps[at] = step
                    self._walls[at] = wall
                    self.count = at + 1
            if at < room:
                return 0
            try:
                self._grow(2 * room)
            except MemoryError:
                self.lose()
                return 0

    def _now(self):
        return now() if self._steady is None else self._steady()

    def _account(self, took):
        usual: cython.double
        took = max(took, 0.0)
        usual = took if self.usual == 0 else min(took, UNUSUAL * self.usual)
        self.usual += (usual - self.usual) / (1 if self.usual == 0 else 16)
        self.spent += took + (self._every - 1) * usual
        self._left = self._every

    def _grow(self, room):
        """Get columns of at least some length, with the points that are held."""
        count: cython.Py_ssize_t
        fresh = made(room)
        tags: cython.int[::1] = fresh[0]
        values: cython.double[::1] = fresh[1]
        steps: cython.longlong[::1] = fresh[2]
        walls: cython.double[::1] = fresh[3]
        with critical_section(self):  # nothing is allocated in it: see ``made``
            count = self.count
            if self._room < room:
                if count:
                    tags[:count] = self._tags[:count]
                    values[:count] = self._values[:count]
                    steps[:count] = self._steps[:count]
                    walls[:count] = self._walls[:count]
                self._columns, self._room = fresh, room
                self._tags, self._values, self._steps, self._walls = tags, values, steps, walls
        return 0


def made(room: int) -> tuple[array[int], array[float], array[int], array[float]]:
    """Return empty columns of tags, values, steps and walls.

    Allocating may run the garbage collector, and with it code that lets other threads run. So columns are
    created before they are swapped, and swapping them allocates nothing.
    """
    return (
        array("i", bytes(4 * room)),
        array("d", bytes(8 * room)),
        array("q", bytes(8 * room)),
        array("d", bytes(8 * room)),
    )
