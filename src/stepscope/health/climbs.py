"""Losses that rise after they fell: block by block, or in series of few points."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import NamedTuple

import numpy as np

from stepscope.health.blocks import Block
from stepscope.health.noise import rise_chance, taken_back
from stepscope.health.ring import upper_median

CLIMB = 8
"""Consecutive blocks, each above the one before it, that make a climb."""
CLIMBED = 3.0
"""Multiple of its lowest block that a climbing loss has to reach."""
LOST = 1 / 3
"""Share of the progress whose loss counts as much: a loss with a floor never reaches a multiple."""
CLEAR = 0.25
"""Rise, as a share of the lowest value, below which no share of the progress counts."""
ONSET = 0.1
"""Share of a rise below which it has not begun."""
BACK = 2.0
"""Multiple of the largest rise that was undone again, as within epochs that are sorted, which counts."""
KEPT = 512
FEW = 5
"""Points of a series of few points whose median counts as its level."""
FELL = 0.2
"""Share of its first level by which such a series must have fallen before a rise is told."""
CHANCE = 1e-4
TREND_POINTS = 80
"""First points of which the trend is asked."""
EVENLY = 0.5
"""Part of the fall of the first half that the second one has if a series falls evenly: a fall whose half-life
is longer than half of the points had little of itself before the first one."""


def limit_of(first: float, lowest: float) -> float:
    """Return the level from which on a loss has risen too far from its lowest."""
    lost = lowest + max(LOST * (first - lowest), CLEAR * abs(lowest))
    return min(CLIMBED * lowest, lost) if lowest > 0 else lost


class Climb:
    """Recognizes a loss that rises block by block, far above its lowest.

    Attributes:
        lowest: Mean of a block so far.
        lowest_step: Its last step.
        rising: The last blocks, each above the one before it.
        since: When the first of these ended.
    """

    def __init__(self) -> None:
        self.lowest = inf
        self.lowest_step = 0
        self.rising: list[float] = []
        self.since = 0.0
        self._first: float | None = None
        self._begun: list[tuple[float, int]] = []
        self._path: deque[tuple[float, int]] = deque(maxlen=KEPT)
        """Means and last steps of the blocks since the lowest."""
        self._means: deque[float] = deque(maxlen=KEPT)

    def see(self, block: Block) -> bool:
        """Take a block; return whether the loss climbs: 8 rises by chance are rarer than 1 in 40,000."""
        mean = block.mean
        if self._first is None:
            self._first = mean
        self.rising = [*self.rising, mean][-CLIMB:] if self.rising and mean > self.rising[-1] else [mean]
        self._begun = [*self._begun, (block.wall, block.step)][-len(self.rising) :]
        self.since = self._begun[0][0]
        if mean < self.lowest:
            self.lowest, self.lowest_step = mean, block.step
            self._path.clear()
        self._path.append((mean, block.step))
        self._means.append(mean)
        climbs = len(self.rising) == CLIMB and mean > self.limit
        return climbs and mean - self.lowest > BACK * taken_back(np.array(self._means))

    @property
    def limit(self) -> float:
        """The level that a climb has to reach."""
        return inf if self._first is None else limit_of(self._first, self.lowest)

    @property
    def onset(self) -> int:
        """The step after which it rose: the last of a block that was still low, or from which all rise."""
        low = self.lowest + ONSET * (self._path[-1][0] - self.lowest)
        lowest = next((step for mean, step in reversed(self._path) if mean <= low), self._path[0][1])
        return min(lowest, self._begun[0][1])


class Rise(NamedTuple):
    """A series of few points that rose.

    Attributes:
        level: Median of its newest points.
        before: Its beginning, or its lowest level.
        since: The step from which it rose, or was too high.
        lowest_step: Of its lowest level, None if it is above its beginning.
        limit: The level below which that is over.
    """

    level: float
    before: float
    since: int
    lowest_step: int | None
    limit: float


class FewPoints:
    """Recognizes a rise in a series that is logged rarely, or by epoch, after a clear fall.

    Each point counts: five in a row above all of the first five, or far above the lowest level by a trend
    that chance does not explain.
    """

    def __init__(self) -> None:
        self.count = 0
        self._first: list[float] = []
        self._recent: deque[tuple[float, int]] = deque(maxlen=FEW)
        self._path: deque[tuple[float, int]] = deque(maxlen=KEPT)
        """The points since the lowest level."""
        self._levels: deque[float] = deque(maxlen=KEPT)
        self._values: list[float] = []
        """The first points."""
        self._lowest, self._lowest_step = inf, 0
        self._above: int | None = None
        self._high = 0
        self.low_wall = -inf
        """When the lowest level was reached."""

    @property
    def level(self) -> float:
        """Median of the newest points."""
        return upper_median(np.array([value for value, _ in self._recent]))

    @property
    def fell(self) -> bool:
        """Whether it has fallen clearly below its beginning."""
        if len(self._first) < FEW:
            return False
        start = upper_median(np.array(self._first))
        return self._lowest < min(min(self._first), start - FELL * abs(start))

    @property
    def crept(self) -> float:
        """Share by which it fell evenly, as fast at the end as at first; 0 if it did not.

        A loss that has its fall behind it slows down.
        """
        levels, half = self._levels, len(self._levels) // 2
        before, after = levels[0] - levels[half], levels[half] - levels[-1]
        if not before > 0 or after < EVENLY * before or rise_chance(-np.array(self._values)) >= CHANCE:
            return 0.0
        return (before + after) / abs(levels[0])

    def see(self, value: float, step: int, wall: float) -> Rise | None:
        """Take a point; return the rise that it completes, None if there is none."""
        self.count += 1
        if len(self._values) < TREND_POINTS:
            self._values.append(value)
        self._recent.append((value, step))
        self._path.append((value, step))
        if len(self._first) < FEW:
            self._first.append(value)
            return None
        level, top = self.level, max(self._first)
        self._levels.append(level)
        if level < self._lowest:
            self._lowest, self._lowest_step = level, sorted(self._recent)[FEW // 2][1]
            self.low_wall = wall
            self._path.clear()
            self._path.extend(self._recent)
        self._high = self._high + 1 if value > top else 0
        if self._high == 1 or self._above is None:
            self._above = step
        if not self.fell:
            return None
        if self._high >= FEW:
            start = upper_median(np.array(self._first))
            return Rise(level, start, self._above, None, start)
        return self._climbs(level)

    def _climbs(self, level: float) -> Rise | None:
        limit = limit_of(upper_median(np.array(self._first)), self._lowest)
        if level <= limit or min(value for value, _ in self._recent) <= self._lowest:
            return None
        values = np.array([value for value, _ in self._path])[-64:]
        if rise_chance(values) >= CHANCE or level - self._lowest <= BACK * taken_back(np.array(self._levels)):
            return None
        low = self._lowest + ONSET * (level - self._lowest)
        since = next((step for value, step in reversed(self._path) if value <= low), self._lowest_step)
        return Rise(level, self._lowest, since, self._lowest_step, limit)
