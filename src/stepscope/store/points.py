"""The points of one tag in one file: columns that only ever grow at their end.

A reader takes ``columns`` once and works on that: growth makes new views and never touches an old view's
values, so queries can run in any thread while the file is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.store import pyramid

_serial = count()


class SeriesColumns(NamedTuple):
    """Step, wall time in seconds since the epoch and value, one row per point.

    Steps are int32, or int64 if one does not fit; values float32, or float64 if one was written with 64 bits.
    """

    step: NDArray[np.signedinteger[Any]]
    wall: NDArray[np.float64]
    value: NDArray[np.floating[Any]]


class Last(NamedTuple):
    """The newest point."""

    step: int
    wall: float
    value: float


class SeriesFacts(NamedTuple):
    """Facts that hold for all points so far; the empty series is sorted."""

    size: int
    min_step: int
    max_step: int
    step_sorted: bool
    wall_sorted: bool
    nonfinite: int


NO_FACTS = SeriesFacts(0, np.iinfo(np.int64).max, np.iinfo(np.int64).min, True, True, 0)


class SeriesPoints:
    """One series of one file and attempt, in the order of the file.

    Args:
        columns: The first points.
    """

    __slots__ = (
        "_columns",
        "_facts",
        "_load",
        "_load_pyramid",
        "_pyramid",
        "_room",
        "count",
        "last",
        "serial",
    )

    def __init__(self, columns: SeriesColumns) -> None:
        self._columns: SeriesColumns | None = columns
        self._room: SeriesColumns | None = None
        self._load: Callable[[], SeriesColumns] | None = None
        self._load_pyramid: Callable[[], pyramid.Levels] | None = None
        self._facts = NO_FACTS
        self._pyramid: pyramid.Levels = ()
        self.count = len(columns.step)
        self.last = last_of(columns)
        self.serial = next(_serial)

    @classmethod
    def stored(
        cls,
        count: int,
        last: Last,
        facts: SeriesFacts,
        load: Callable[[], SeriesColumns],
        load_pyramid: Callable[[], pyramid.Levels],
    ) -> SeriesPoints:
        """Return points that are fetched only when they are needed."""
        points = cls.__new__(cls)
        points._columns, points._room, points._load = None, None, load
        points._pyramid, points._load_pyramid = (), load_pyramid
        points._facts, points.count, points.last, points.serial = facts, count, last, next(_serial)
        return points

    @property
    def columns(self) -> SeriesColumns:
        """All points so far."""
        columns = self._columns
        if columns is None:
            assert self._load is not None
            columns = self._columns = self._load()
        return columns

    @property
    def facts(self) -> SeriesFacts:
        """The facts of all points so far; only points added since the last call are examined."""
        facts, columns = self._facts, self.columns if self._facts.size < self.count else None
        if columns is not None:
            facts = self._facts = extended(facts, columns)
        return facts

    @property
    def pyramid(self) -> pyramid.Levels:
        """Minimum, maximum and non-finite count of blocks of all points so far; built on first use."""
        value = self.columns.value
        levels = self._pyramid or (self._load_pyramid() if self._load_pyramid else ())
        if not levels or len(levels[0].low) < len(value) // pyramid.FAN:
            levels = self._pyramid = pyramid.extended(levels, value)
        self._pyramid = levels
        return levels

    def append(self, more: SeriesColumns) -> None:
        """Add points at the end. Called by one thread at a time."""
        now, size = self.columns, self.count + len(more.step)
        room = self._room
        if room is None or not fits(room, more, size):
            room = self._room = make_room(now, more, size)
        for column, new in zip(room, more, strict=True):
            column[self.count : size] = new
        self._columns = SeriesColumns._make(column[:size] for column in room)
        self.last = last_of(more)
        self.count = size


def last_of(columns: SeriesColumns) -> Last:
    """Return the newest point of columns that have one."""
    return Last(columns.step.item(-1), columns.wall.item(-1), columns.value.item(-1))


def fits(room: SeriesColumns, more: SeriesColumns, size: int) -> bool:
    """Return whether the columns have room for that many points and types for all new values."""
    return len(room.step) >= size and all(
        np.can_cast(new.dtype, old.dtype) for old, new in zip(room, more, strict=True)
    )


def make_room(now: SeriesColumns, more: SeriesColumns, size: int) -> SeriesColumns:
    """Return a copy of the columns with half as much space again at the end."""
    used, capacity = len(now.step), max(64, size + size // 2)
    room = SeriesColumns._make(
        np.empty(capacity, np.result_type(a, b)) for a, b in zip(now, more, strict=True)
    )
    for column, old in zip(room, now, strict=True):
        column[:used] = old
    return room


def extended(facts: SeriesFacts, columns: SeriesColumns) -> SeriesFacts:
    """Return the facts of all columns, given those of their beginning."""
    known, size = facts.size, len(columns.step)
    step, wall = columns.step[max(known - 1, 0) :], columns.wall[max(known - 1, 0) :]
    rises = bool((step[1:] >= step[:-1]).all())
    low, high = (step[0], step[-1]) if rises else (step.min(), step.max())
    return SeriesFacts(
        size,
        min(facts.min_step, int(low)),
        max(facts.max_step, int(high)),
        facts.step_sorted and rises,
        # NaN is not at least anything, itself included.
        facts.wall_sorted and bool(wall[0] == wall[0]) and bool((wall[1:] >= wall[:-1]).all()),
        facts.nonfinite + int(np.count_nonzero(~np.isfinite(columns.value[known:]))),
    )
