"""One tag of one writer as columns, and whether a later attempt recorded its steps again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.names.splits import Split
from stepscope.store.points import Last, SeriesColumns, SeriesPoints
from stepscope.store.source import AttemptPart
from stepscope.store.writers import Writer, has_results, parts_of


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
        """Steps; int32, or int64 if one does not fit."""
        return self.points.columns.step

    @property
    def wall(self) -> NDArray[np.float64]:
        """Wall times in seconds since the epoch."""
        return self.points.columns.wall

    @property
    def value(self) -> NDArray[np.floating[Any]]:
        """Values; float32, or float64 if one was written with 64 bits."""
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

    def steps_of(part: AttemptPart) -> tuple[int, int] | None:
        points = part.tags.get(tag)
        return None if points is None else (points.facts.min_step, points.facts.max_step)

    again = superseded_from(writer, steps_of)
    lines = [
        Series(run, tag, writer.id, attempt.number, split, again.get(attempt.number), start_wall, points)
        for attempt in writer.every_attempt
        if (points := attempt.part.tags.get(tag)) is not None
    ]
    return joined(writer, lines)


def superseded_from(
    writer: Writer, steps_of: Callable[[AttemptPart], tuple[int, int] | None]
) -> dict[int, int]:
    """Return the step from which later attempts of a writer recorded a tag again, by number of the attempt.

    An attempt records again from the first step that it has of the tag, or from the step that its session
    start gave, be the tag in it or not; the earliest step of all later attempts counts. Attempts that
    recorded no such step are left out. An event file and the one beside it are one attempt, and so are all
    files that it took.

    Args:
        writer: One process of the run, through all its restarts.
        steps_of: Gives the lowest and the highest step of the tag in a part of a file, None if the part
            has none. Only asked if there are several attempts.
    """
    if not writer.attempts or writer.attempts[0].number == writer.attempts[-1].number:
        return {}
    begins: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    for number, _, part in parts_of(writer):
        first = begins.setdefault(number, [])
        if part.start_step is not None and (part.tags or has_results(part)):
            first.append(part.start_step)
        steps = steps_of(part)
        if steps is not None:
            first.append(steps[0])
            ends[number] = max(steps[1], ends.get(number, steps[1]))
    starts: dict[int, int] = {}
    again: int | None = None
    for number in sorted(begins, reverse=True):
        if again is not None and number in ends and ends[number] >= again:
            starts[number] = again
        again = min(begins[number] if again is None else [*begins[number], again], default=None)
    return starts


def joined(writer: Writer, attempts: list[Series]) -> list[Series]:
    """Return one series per attempt, even if an attempt took several files."""
    if len({series.attempt for series in attempts}) == len(attempts):
        return attempts
    whole: list[Series] = []
    for number in dict.fromkeys(series.attempt for series in attempts):
        some = [series for series in attempts if series.attempt == number]
        name, key = (some[0].tag, number), [(line.points.serial, line.points.count) for line in some]
        known = writer.joined.get(name)
        if known is None or known[0] != key:
            columns = zip(*(line.points.columns for line in some), strict=True)
            known = key, SeriesPoints(SeriesColumns(*map(np.concatenate, columns)))
            writer.joined[name] = known
        whole.append(replace(some[0], points=some[0].points if len(some) == 1 else known[1]))
    return whole
