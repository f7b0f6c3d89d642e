"""The tail of a series: how far its values usually lie above those just before them, and which lie beyond."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.noise import Floats, tail_limit, trailing_median
from stepscope.health.ring import Ring, pieces, upper_median

EVERY = 32
"""Points after which the limits are computed again."""
LOCAL = 8
"""Number of points before a value with whose median it is compared: few, so that a trend does not count."""
MIN_POINTS = 32
"""Comparisons before the first limit."""
WINDOW = 128
"""Comparisons that the tail is fitted to, as many as OLMo-core and llm-foundry take."""
LEAP = 3.0
"""Factor over the largest of the three previous points that makes a leap."""
REPEATED = 4
"""Single marks at equal distances that are no chance."""
UNEQUAL = 0.02
"""Share by which these distances may differ."""
FAR = 3.0
"""Multiple of the points before it that such a mark has to reach."""
KEPT = 256
"""Newest marks that are kept."""


class Mark(NamedTuple):
    """A value beyond the tail of its series.

    Attributes:
        place: Its number among the finite values of the series.
        before_step: The first step of those that it is compared with.
        middle: Their median.
        limit: The value above which one lies beyond the tail.
    """

    place: int
    step: int
    wall: float
    before_step: int
    value: float
    middle: float
    limit: float


def apart_of(marks: Sequence[Mark]) -> float:
    """Return the mean distance of marks that follow each other, in points."""
    return (marks[-1].place - marks[0].place) / (len(marks) - 1)


def repeated(marks: Iterable[Mark]) -> list[Mark] | None:
    """Return the marks that come again at equal distances to the newest on, of which at most one is missing.

    They are those of a bad shard that comes again with each epoch; None if there are none.
    """
    far = [mark for mark in marks if mark.value > FAR * mark.middle]
    for begun in range(len(far) - REPEATED + 1):
        four = far[begun : begun + REPEATED]
        between = [after.place - before.place for before, after in pairwise(four)]
        if max(between) - min(between) > max(1.0, UNEQUAL * apart_of(four)) or apart_of(four) < 2 * LOCAL:
            continue
        later = [after.place - before.place for before, after in pairwise(far[begun + REPEATED - 1 :])]
        if all(gap < 2 * round(apart_of(four)) for gap in later):
            return far[begun:]
    return None


class Spikes:
    """Marks the values that lie beyond the tail, online and in bounded memory.

    The distance of each point to the median of the 8 before it is compared with the tail of the last 128 such
    distances, in values and in logarithms: usual values of the series are no spike, trend or heavy tail.
    A distance counts at most as the limit that it passed, so that one spike does not blind it to the next (as
    ZClip does, arXiv 2504.02507).

    Args:
        ratio: Least multiple of the median.
        least: Least distance, as a share of the first level.
        leaps: Whether a mark must also lie far above the three points before it.

    Attributes:
        marks: The newest ones.
    """

    def __init__(self, ratio: float, *, least: float = 0.0, leaps: bool = False) -> None:
        self._ratio, self._least, self._leaps = ratio, least, leaps
        self._count = 0
        self.marks: deque[Mark] = deque(maxlen=KEPT)
        self.begin()

    def begin(self) -> None:
        """Begin anew, with another fold, stage or task."""
        self._before, self._steps = Ring(LOCAL), Ring(LOCAL, np.int64)
        self._apart, self._factors = Ring(WINDOW), Ring(WINDOW)
        self._limit = self._factor = inf
        self._level: float | None = None

    def take(self, chunk: Chunk) -> list[Mark]:
        """Take points and return the marks among them; values that are not finite do not count."""
        chunk = chunk.part(np.isfinite(chunk.values))
        known = min(LOCAL - min(self._before.count, LOCAL), len(chunk))
        self._push(chunk.part(slice(known)))
        chunk = chunk.part(slice(known, None))
        if not len(chunk):
            return []
        values = np.concatenate([self._before.values, chunk.values])
        middle = trailing_median(values, LOCAL)
        with np.errstate(all="ignore"):
            factors = np.log(chunk.values / middle)
        factors[~((chunk.values > 0) & (middle > 0))] = inf  # where a ratio makes no sense
        apart = chunk.values - middle
        may = apart > (self._ratio - 1) * np.abs(middle)
        if self._leaps:
            recent = np.lib.stride_tricks.sliding_window_view(values[-len(chunk) - 3 : -1], 3).max(axis=1)
            may &= (chunk.values > LEAP * recent) & (middle > 0)  # where most are 0 nothing is a multiple
        steps = np.concatenate([self._steps.values, chunk.steps])
        marks: list[Mark] = []
        for rows in pieces(self._apart.count, len(chunk), EVERY):
            if self._apart.count >= MIN_POINTS and self._apart.count % EVERY == 0:
                self._measure(values[rows.start : rows.start + LOCAL])
            far = factors[rows] < inf
            beyond = may[rows] & (apart[rows] > self._limit) & (~far | (factors[rows] > self._factor))
            for at in (np.flatnonzero(beyond) + rows.start).tolist():
                place, level = self._count + at + 1, float(middle[at])
                before = int(steps[at : at + LOCAL].min())
                step, wall, value = int(chunk.steps[at]), float(chunk.walls[at]), float(chunk.values[at])
                marks.append(Mark(place, step, wall, before, value, level, level + self._limit))
            self._apart.push(np.minimum(apart[rows], self._limit))
            self._factors.push(np.minimum(factors[rows][far], self._factor))
        self._push(chunk.part(slice(-LOCAL, None)), len(chunk))
        self.marks.extend(marks)
        return marks

    def _push(self, chunk: Chunk, count: int | None = None) -> None:
        self._count += len(chunk) if count is None else count
        self._before.push(chunk.values)
        self._steps.push(chunk.steps)

    def _measure(self, before: Floats) -> None:
        """Set the limits for the next points, given those just before them."""
        if self._level is None:
            self._level = abs(upper_median(before))
        self._limit = max(tail_limit(np.abs(self._apart.values)), self._least * self._level)
        known = self._factors.values
        # Upward only: in logarithms the dips of a small loss reach further than what rises above its noise.
        self._factor = tail_limit(np.maximum(known, 0.0)) if len(known) >= MIN_POINTS else inf
