"""One tag of one writer as columns, and whether a later attempt recorded its steps again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.store.family import Split
from stepscope.store.points import Last, SeriesColumns, SeriesPoints
from stepscope.store.writers import Writer


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The points of one tag by one writer in one attempt, in recorded order.

    Attributes:
        attempt: Number of the attempt, from 1.
        split: Of the data, as the tag or the run says; None if neither does.
        superseded_from: A later attempt of the same writer recorded the steps from here on again; None: it
            did not.
        start_wall: When the run began, seconds since the epoch: the origin of relative time.
    """

    run: str
    tag: str
    writer: str
    attempt: int
    split: Split | None
    superseded_from: int | None
    start_wall: float
    points: SeriesPoints

    @property
    def step(self) -> NDArray[np.signedinteger[Any]]:
        """Steps; int32, or int64 where one does not fit."""
        return self.points.columns.step

    @property
    def wall(self) -> NDArray[np.float64]:
        """Wall times in seconds since the epoch."""
        return self.points.columns.wall

    @property
    def value(self) -> NDArray[np.floating[Any]]:
        """Values; float32, or float64 where one was written with 64 bits."""
        return self.points.columns.value

    @property
    def last(self) -> Last:
        """The newest point."""
        return self.points.last

    def __len__(self) -> int:
        return self.points.count


def last_words(step: NDArray[np.signedinteger[Any]], superseded_from: int | None) -> NDArray[np.bool_]:
    """Return whether each value is the last word on its step: no later attempt recorded that again."""
    return np.ones(len(step), bool) if superseded_from is None else step < superseded_from


def series_of(run: str, writer: Writer, tag: str, *, split: Split | None, start_wall: float) -> list[Series]:
    """Return the series of a tag by one writer, one per attempt that has points, oldest first."""
    found: list[Series] = []
    again: int | None = None
    number, later = 0, None
    for attempt in reversed(writer.every_attempt):
        points = attempt.part.tags.get(tag)
        if attempt.number != number:  # an event file and the one beside it are one attempt
            number, later = attempt.number, again
        if points is not None:
            superseded = later if later is not None and points.facts.max_step >= later else None
            found.append(Series(run, tag, writer.id, attempt.number, split, superseded, start_wall, points))
        steps = [step for step in (again, attempt.part.start_step) if step is not None]
        if points is not None and len(writer.attempts) > 1:
            steps.append(points.facts.min_step)
        again = min(steps, default=None)
    return joined(writer, found[::-1])


def joined(writer: Writer, found: list[Series]) -> list[Series]:
    """Return one series per attempt, also where an attempt took several files."""
    if len({series.attempt for series in found}) == len(found):
        return found
    whole: list[Series] = []
    for number in dict.fromkeys(series.attempt for series in found):
        some = [series for series in found if series.attempt == number]
        name, key = (some[0].tag, number), [(each.points.serial, each.points.count) for each in some]
        known = writer.joined.get(name)
        if known is None or known[0] != key:
            columns = zip(*(each.points.columns for each in some), strict=True)
            known = key, SeriesPoints(SeriesColumns(*map(np.concatenate, columns)))
            writer.joined[name] = known
        whole.append(replace(some[0], points=some[0].points if len(some) == 1 else known[1]))
    return whole
