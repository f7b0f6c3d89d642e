"""Facts about a series, whatever it is called: its values, its noise, and when they changed.

``Facts`` takes the points of one series in one pass and keeps at most ``BLOCKS`` means of equally many of
them. Changes are computed from these means when they are asked for. All of it depends on the points and their
order alone, and not on the portions in which they came: a fact is the same live and afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.ring import MAD_TO_SIGMA

Floats = NDArray[np.float64]
Kind = Literal["jump", "drift", "not finite", "finite again", "stopped", "counter", "constant"]

BLOCKS = 1024
"""Means that are kept of a series: a date is right to a thousandth of the run, and 10,000 series of layers
fit into some 200 MB. In a series with fewer points each point is one.
"""
CHANCE = 1e-3
"""Chance of a false change in a run, over all of its series together."""
SCALES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Lengths of the lines to the left and to the right: the shorter ones date a change, the longer ones see
through noise."""
FEW = 64
"""Points below which lines of several lengths cannot be compared with each other; a level test is made."""
COIN = 0.01
"""Chance at which as many rises of successive blocks of a fair coin would be: a drift goes one way."""
NEAR = 32
"""Points before and after a jump whose medians are its levels."""
RANDOM_WALK = 0.8
"""Slope of log noise over log length from which longer lines see no less noise: such lengths are skipped.
White noise has -1/2, a random walk 1/2."""


class Jump(NamedTuple):
    """A sudden change of level.

    Attributes:
        at: Index of the most probable first point after it.
        first: The first such index that the noise allows.
        last: The last one.
        before: Median of the points before it.
        after: Median of the points after it.
        size: Height in standard deviations of the noise at the length of lines that shows it best.
    """

    at: int
    first: int
    last: int
    before: float
    after: float
    size: float


@dataclass(frozen=True)
class Change:
    """Something that changed in a series.

    Attributes:
        kind: ``jump`` is sudden and ``drift`` slow; ``not finite`` and ``finite again`` are of values,
            ``stopped`` of a series whose points end while others go on, ``counter`` of steps that start over.
        first_step: The first step at which it may have begun.
        last_step: The last one.
        first_wall: When the last point was recorded that is surely from before it, seconds since the epoch.
        wall: When the first point was recorded that is surely from after it.
        before: Level before it, None if there is none.
        after: Level after it, None if there is none.
        size: Height in standard deviations of the noise; infinite for exact facts.
        lasts: Whether the series has not come back since.
    """

    kind: Kind
    first_step: int
    last_step: int
    first_wall: float
    wall: float
    before: float | None = None
    after: float | None = None
    size: float = math.inf
    lasts: bool = True


@dataclass
class Facts:
    """The facts about one series, from one pass over its points.

    Attributes:
        count: Number of points.
        finite: Number of those that are finite.
        first: The first finite value; NaN before it.
        last: The newest finite value.
        least: The smallest one, with its step.
        most: The largest one, with its step.
        first_step: Step of the first point.
        last_step: Step of the newest point.
        first_wall: Time of the first point.
        last_wall: Time of the newest point.
        broken: Step and time of the first value that is not finite.
        whole: Step and time of the first finite value after the last that is not; None while there is none.
        constant_since: The step since which the value is the same to the last bit.
        counters: Step before, step after and time of each place at which steps start over, the first 64.
        gap_s: The longest time between two of its points.
    """

    count: int = 0
    finite: int = 0
    first: float = math.nan
    last: float = math.nan
    least: tuple[float, int] = (math.inf, 0)
    most: tuple[float, int] = (-math.inf, 0)
    first_step: int = 0
    last_step: int = 0
    first_wall: float = math.nan
    last_wall: float = -math.inf
    broken: tuple[int, float] | None = None
    whole: tuple[int, float] | None = None
    constant_since: int = 0
    counters: list[tuple[int, int, float]] = field(default_factory=list)
    gap_s: float = 0.0
    _width: int = 1
    _steps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _walls: Floats = field(default_factory=lambda: np.empty(0))
    _means: Floats = field(default_factory=lambda: np.empty(0))
    _rest: tuple[NDArray[np.int64], Floats, Floats] = field(
        default_factory=lambda: (np.empty(0, np.int64), np.empty(0), np.empty(0))
    )

    def take(self, steps: NDArray[Any], values: NDArray[Any], walls: NDArray[Any]) -> None:
        """Take further points, in recorded order."""
        if not len(steps):
            return
        steps, values = np.asarray(steps, np.int64), np.asarray(values, np.float64)
        walls = np.asarray(walls, np.float64)
        if not self.count:
            self.first_step = int(steps[0])
            self.first_wall = self.last_wall = float(walls[0])
        good = np.isfinite(values)
        self._note_times(steps, walls)
        if not good.all():
            self._note_broken(steps, walls, good)
            steps_, values, walls = steps[good], values[good], walls[good]
        else:
            steps_ = steps
            if self.broken is not None and self.whole is None:
                self.whole = int(steps[0]), float(walls[0])
        self.count += len(steps)
        self.last_step = int(steps[-1])
        if len(values):
            self._note_values(steps_, values)
            self._keep(steps_, values, walls)

    def _note_times(self, steps: NDArray[np.int64], walls: Floats) -> None:
        before = np.concatenate([[self.last_step if self.count else steps[0]], steps[:-1]])
        for at in np.flatnonzero(steps < before)[: 64 - len(self.counters)].tolist():
            self.counters.append((int(before[at]), int(steps[at]), float(walls[at])))
        times = np.concatenate([[self.last_wall], walls])
        times = times[np.isfinite(times)]
        if len(times):
            self.gap_s = max(self.gap_s, float(np.diff(times, prepend=times[0]).max()))
            self.last_wall = max(float(times[0]), float(times[-1]))

    def _note_broken(self, steps: NDArray[np.int64], walls: Floats, good: NDArray[np.bool_]) -> None:
        bad = np.flatnonzero(~good)
        if self.broken is None:
            self.broken = int(steps[bad[0]]), float(walls[bad[0]])
        after = int(bad[-1]) + 1
        self.whole = (int(steps[after]), float(walls[after])) if after < len(steps) else None

    def _note_values(self, steps: NDArray[np.int64], values: Floats) -> None:
        if not self.finite:
            self.first, self.constant_since = float(values[0]), int(steps[0])
        before = np.concatenate([[self.last if self.finite else values[0]], values[:-1]])
        moved = np.flatnonzero(values != before)
        if len(moved):
            self.constant_since = int(steps[moved[-1]])
        low, high = int(values.argmin()), int(values.argmax())
        self.least = min(self.least, (float(values[low]), int(steps[low])))
        if values[high] > self.most[0]:
            self.most = float(values[high]), int(steps[high])
        self.finite += len(values)
        self.last = float(values[-1])

    def _keep(self, steps: NDArray[np.int64], values: Floats, walls: Floats) -> None:
        """Keep means of equally many points; if there are too many means, each two become one."""
        values = np.clip(values, -HUGE, HUGE)
        waiting = [np.concatenate(pair) for pair in zip(self._rest, (steps, values, walls), strict=True)]
        begin = 0
        while True:
            width, room = self._width, BLOCKS - len(self._means)
            blocks = min(room, (len(waiting[0]) - begin) // width)
            end = begin + blocks * width
            # The step and the time of a block are those of its first point.
            self._steps = np.concatenate([self._steps, waiting[0][begin:end:width]])
            self._walls = np.concatenate([self._walls, waiting[2][begin:end:width]])
            means = waiting[1][begin:end].reshape(blocks, width).mean(axis=1)
            self._means = np.concatenate([self._means, means])
            begin = end
            if len(self._means) < BLOCKS:
                break
            self._steps, self._walls = self._steps[::2], self._walls[::2]
            self._means = self._means.reshape(-1, 2).mean(axis=1)
            self._width *= 2
        self._rest = waiting[0][begin:], waiting[1][begin:], waiting[2][begin:]

    # --- questions ------------------------------------------------------------------------------------

    @property
    def curve(self) -> tuple[NDArray[np.int64], Floats]:
        """Steps and means of the kept blocks of finite values."""
        return self._steps, self._means

    @property
    def walls(self) -> Floats:
        """Times of the kept blocks."""
        return self._walls

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of a kept mean."""
        return point_noise(clipped(self._means)) if len(self._means) > 1 else 0.0

    @property
    def level(self) -> float:
        """The level now: the median of the last tenth of the kept means, of 3 to 32 of them."""
        few = min(max(len(self._means) // 10, 3), 32)
        return _median(self._means[-few:])

    def changes(self, chance: float, *, until: float = -math.inf) -> list[Change]:
        """Return what changed, in the order of time.

        Args:
            chance: Of a false change; exact facts have none.
            until: Time of the newest point of the run, if it is known: a series whose last gap is far longer
                than any before has stopped.
        """
        found = [*self._exact(until), *self._sudden(chance)]
        slow = self._slow(chance)
        # A slow change that only goes through jumps is these jumps.
        if slow is not None and not any(
            each.kind == "jump" and each.last_step >= slow.first_step and each.lasts for each in found
        ):
            found.append(slow)
        return sorted(found, key=lambda change: (change.wall, change.first_step))

    def _exact(self, until: float) -> Iterator[Change]:
        if self.broken is not None:
            step, wall = self.broken
            yield Change("not finite", step, step, wall, wall, lasts=self.whole is None)
        if self.whole is not None:
            yield Change("finite again", self.whole[0], self.whole[0], self.whole[1], self.whole[1])
        for before, after, wall in self.counters:
            yield Change("counter", after, after, wall, wall, float(before), float(after))
        if self.count >= FEWEST_GAPS and until - self.last_wall > LONGER * self.gap_s > 0:
            yield Change("stopped", self.last_step, self.last_step, self.last_wall, self.last_wall, self.last)

    def _sudden(self, chance: float) -> Iterator[Change]:
        for jump in jumps(self._means, chance):
            # The first of these points may be the first after it, so it began after the point before.
            first = int(self._steps[jump.first - 1]) + 1
            last = max(int(self._steps[jump.last]) + self._width - 1, first)
            if int(self._steps[jump.first]) <= int(self._steps[jump.first - 1]):  # steps start over here
                first = last = int(self._steps[jump.first])
            middle = (jump.before + jump.after) / 2
            lasts = (self.level > middle) == (jump.after > jump.before)
            walls = float(self._walls[jump.first - 1]), float(self._walls[jump.last])
            yield Change("jump", first, last, *walls, jump.before, jump.after, jump.size, lasts)

    def _slow(self, chance: float) -> Change | None:
        found = drift(self._means, chance)
        if found is None:
            return None
        first, last = int(self._steps[found.first]), int(self._steps[found.last])
        first_wall, wall = sorted((float(self._walls[found.first]), float(self._walls[found.last])))
        first, last = sorted((first, last))
        return Change("drift", first, last, first_wall, wall, found.before, found.after, found.size)


HUGE = 1e100
"""Larger values count as this one, so that sums of their squares are finite."""
FEWEST_GAPS = 6
"""Points of a series before its rhythm is known."""
LONGER = 3.0
"""Times the longest gap so far that the newest one has to last: after five gaps, the chance that a gap of the
same kind with an exponential tail is as long is below 1 %."""


# --- sudden changes ----------------------------------------------------------------------------------------


def jumps(values: Floats, chance: float) -> list[Jump]:
    """Return the sudden changes of level of a series.

    The score at a place is the gap between a line fitted to the points before it and one fitted to the points
    after it, over the noise of such gaps: the larger of its theory, for white noise, and of what the gaps of
    the whole series show. Correlated noise and random walks have large gaps everywhere and so no change. A
    gap counts if most of it also lies between lines of half and a quarter of the length and between
    parabolas: that of a curve that bends does not.

    Args:
        values: Finite ones, in recorded order.
        chance: Of a false change in this series.
    """
    if len(values) < FEW:
        return _steps_of_few(values, chance)
    smooth = clipped(values)
    noise = point_noise(smooth)
    louder = _louder(smooth)
    lengths = [length for length in SCALES if 2 * length <= len(values)]
    gaps = {length: _gaps(smooth, _line(length)) for length in lengths}
    noises = _noises(gaps, noise, len(values))
    looks = sum(4 * len(values) / length for length in lengths)
    least = limit_of(chance / looks)
    found: list[tuple[float, int, int]] = []
    for length, usual in noises.items():
        scale = (
            np.maximum(usual, 1e-12 * float(np.abs(smooth).max()))
            * louder[length : length + len(gaps[length])]
        )
        score = np.abs(gaps[length]) / np.maximum(scale, 1e-300)
        sudden = (score > least) & _is_sudden(smooth, gaps, noises, length, louder)
        found += [(float(score[at]), length, int(at) + length) for at in np.flatnonzero(sudden)]
    found.sort(reverse=True)
    apart: list[tuple[float, int, int]] = []
    for score_, length, at in found:
        if all(abs(at - other) >= max(length, long) // 2 for _, long, other in apart):
            apart.append((score_, length, at))
    apart.sort(key=lambda each: each[2])
    places = ((size, _dated(values, at, length, noise)) for size, length, at in apart)
    by_place = {place[0]: (size, *place) for size, place in places if place is not None}
    dated = [by_place[at] for at in sorted(by_place)]
    edges = [0, *(at for _, at, _, _ in dated), len(values)]
    return [
        Jump(
            at,
            first,
            last,
            _median(values[max(edges[place], at - NEAR) : at]),
            _median(values[at : min(edges[place + 2], at + NEAR)]),
            size,
        )
        for place, (size, at, first, last) in enumerate(dated)
    ]


def clipped(values: Floats) -> Floats:
    """Return values without outliers: at most 4 deviations from the median of 7, which follows a jump."""
    if len(values) < 3:
        return values
    padded = np.concatenate([values[:3], values, values[-3:]])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7), axis=1)
    apart = np.abs(values - middle)
    usual = 4 * MAD_TO_SIGMA * _median(apart[apart > 0]) if (apart > 0).any() else 0.0
    inside: Floats = np.clip(values, middle - usual, middle + usual)
    return inside


def point_noise(values: Floats) -> float:
    """Return the standard deviation of the noise of single points, at least that of rounding.

    It comes from the differences of neighbours, of which a trend is taken off. Values with few distinct
    levels, such as counts of right answers, have the noise of a quantum, its width over the root of 12.
    """
    apart = np.diff(values)
    if not len(apart):
        return 0.0
    noise = MAD_TO_SIGMA * _median(np.abs(apart - _median(apart))) / math.sqrt(2)
    levels = np.unique(values)
    quantum = float(np.diff(levels).min()) if 1 < len(levels) < len(values) / 2 else 0.0
    return max(noise, quantum / math.sqrt(12))


@lru_cache(maxsize=4096)
def limit_of(chance: float) -> float:
    """Return how many standard deviations normal noise passes with a chance, to either side."""
    return NormalDist().inv_cdf(1 - min(max(chance, 1e-15), 0.5) / 2)


def _louder(values: Floats, reach: int = 16) -> Floats:
    """Return at each point by how much its neighbourhood is noisier than the whole, at least 1."""
    apart = np.abs(np.diff(values, prepend=values[0]))
    usual = _median(apart)
    if not usual > 0:
        return np.ones(len(values))
    padded = np.concatenate([apart[reach:0:-1], apart, apart[-2 : -reach - 2 : -1]])
    local = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)
    louder: Floats = np.maximum(local / usual, 1.0)
    return louder


@lru_cache(maxsize=64)
def _line(length: int) -> Floats:
    """Return the weights of points, the nearest first, in the end of a line fitted to them."""
    return _fit(length, 1)


def _fit(length: int, degree: int) -> Floats:
    distance = (np.arange(length) + 0.5)[:, None] ** np.arange(degree + 1)
    weights: Floats = np.linalg.pinv(distance)[0]
    return weights


@lru_cache(maxsize=64)
def _parabola(length: int) -> Floats:
    return _fit(length, 2)


def _gaps(values: Floats, weights: Floats) -> Floats:
    """Return the gap at each point between the line that ends and the line that begins there."""
    length = len(weights)
    left = np.convolve(values, weights, "valid")
    right = np.convolve(values, weights[::-1], "valid")
    gaps: Floats = right[length:] - left[: len(values) - 2 * length + 1]
    return gaps


def _noises(gaps: dict[int, Floats], noise: float, count: int) -> dict[int, float]:
    """Return the noise of gaps by length; it is extrapolated to lengths that are too long to show it."""
    shown = {}
    for length, each in gaps.items():
        spread = MAD_TO_SIGMA * _median(np.abs(each - _median(each)))
        if count >= 7 * length and spread > 0:
            shown[length] = spread
    theory = {length: noise * math.sqrt(8 / length) for length in gaps}
    if len(shown) < 2:
        return {length: max(theory[length], shown.get(length, 0.0)) for length in gaps}
    places, heights = np.log(list(shown)), np.log(list(shown.values()))
    slope, offset = np.polyfit(places, heights, 1)
    slopes = dict(zip(list(shown)[1:], np.diff(heights) / np.diff(places), strict=True))
    found = {}
    for length in gaps:
        usual = shown.get(length, math.exp(min(offset + slope * math.log(length), 690)))
        if slopes.get(length, slope if length not in shown else 0.0) <= RANDOM_WALK:
            found[length] = max(theory[length], usual)
    return found


def _is_sudden(
    values: Floats, gaps: dict[int, Floats], noises: dict[int, float], length: int, louder: Floats
) -> NDArray[np.bool_]:
    """Return at which places a gap lies at one place rather than along a bend."""
    gap = gaps[length]
    sign, height = np.sign(gap), np.abs(gap)
    sudden = np.ones(len(gap), np.bool_)
    here = louder[length : length + len(gap)]
    for shorter, slack in ((length // 2, 1.0), (length // 4, 1.5)):
        if shorter in gaps and shorter in noises:
            begin = length - shorter
            near = gaps[shorter][begin : begin + len(gap)] * sign
            near = np.maximum(near, np.maximum(np.roll(near, 1), np.roll(near, -1)))
            sudden &= near >= 0.7 * height - slack * noises[shorter] * here
    if length >= 16 and sudden.any():
        bent = _gaps(values, _parabola(length)) * sign
        sudden &= bent >= 0.5 * height
    return sudden


def _dated(values: Floats, at: int, length: int, noise: float) -> tuple[int, int, int] | None:
    """Return the best place of a jump and the first and last that fit nearly as well: within 3 deviations.

    None if a bend of the line fits better than a jump.
    """
    reach = max(8, min(2 * length, 48))
    begin, end = max(0, at - reach), min(len(values), at + reach)
    window, count = values[begin:end], end - begin
    places = np.arange(max(2, at - begin - length), min(count - 1, at - begin + length + 1))
    x = np.arange(count) / count
    smooth = np.c_[np.ones(count), x, x * x] if count >= 32 else np.c_[np.ones(count), x]
    basis, _ = np.linalg.qr(smooth)
    after = np.arange(count)[:, None] - places[None, :]
    rest = window - basis @ (basis.T @ window)
    gain = _gain(rest, (after >= 0).astype(np.float64), basis)
    best = int(gain.argmax())
    if float(_gain(rest, np.maximum(after, 0).astype(np.float64), basis).max()) > gain[best]:
        return None
    misfit = float(rest @ rest) - float(gain[best])
    usual = max(noise**2, misfit / max(count - 5, 1))
    good = places[gain >= gain[best] - 9 * usual]
    # Only the neighbours of the best place: a second change nearby is another one.
    first = last = int(places[best])
    allowed = set(good.tolist())
    while first - 1 in allowed:
        first -= 1
    while last + 1 in allowed:
        last += 1
    return int(places[best]) + begin, first + begin, last + begin


def _gain(rest: Floats, shapes: Floats, basis: Floats) -> Floats:
    """Return by how much the squares of a rest fall if each of some shapes is fitted besides a basis."""
    shapes = shapes - basis @ (basis.T @ shapes)
    gain: Floats = (rest @ shapes) ** 2 / np.maximum((shapes * shapes).sum(axis=0), 1e-12)
    return gain


def _steps_of_few(values: Floats, chance: float) -> list[Jump]:
    """Return the sudden changes of a short series: most of the difference of two levels is at one place.

    The noise is that of differences; its uncertainty widens the limit as Student's distribution does.
    """
    found: list[Jump] = []
    count = len(values)
    if count < 8:
        return found
    noise = point_noise(values)
    free = max(count / 2 - 2, 1.0)
    limit = _student(limit_of(chance / count), free)
    begin = 0
    for at in range(3, count - 2):
        before, after = values[max(begin, at - 8) : at], values[at : at + 8]
        if len(before) < 3:
            continue
        low, high = _median(before), _median(after)
        gap, step = high - low, float(values[at] - values[at - 1])
        usual = max(noise, 1e-9 * float(np.abs(values).max()), 1e-300)
        size = abs(gap) / (usual * math.sqrt(1.57 / len(before) + 1.57 / len(after)))
        spread = max(np.ptp(before), np.ptp(after))
        if size > limit and step * gap > 0 and abs(step) >= 0.6 * abs(gap) and abs(gap) > 1.5 * spread:
            found.append(Jump(at, at, at, low, high, size))
            begin = at
    return found


def _student(normal: float, free: float) -> float:
    """Return the quantile of Student's distribution for one of the normal distribution (Wallace, 1959)."""
    power = normal * normal * (free - 0.8125 if free > 1 else free) / (free * free)
    return math.sqrt(free * math.expm1(power)) if power < 700 else math.inf


# --- slow changes ------------------------------------------------------------------------------------------


class Drift(NamedTuple):
    """A slow change of level that lasts to the end.

    Attributes:
        at: Index of the point at which the bend fits best.
        first: The first such index that fits nearly as well.
        last: The last one.
        before: Level before it.
        after: Level at the end.
        size: Height in standard deviations of the noise of a block.
    """

    at: int
    first: int
    last: int
    before: float
    after: float
    size: float


def drift(values: Floats, chance: float) -> Drift | None:
    """Return the last slow change of a series: from some place on it rises, or falls, until its end.

    Two lines that meet are fitted to the medians of blocks, for blocks of several sizes. The rise of the
    second one counts against what the blocks leave of the fit, which neighbours that err alike make larger:
    a random walk leaves much. The signs of the differences of successive blocks must also go one way.

    Args:
        values: Finite ones, in recorded order.
        chance: Of a false one.
    """
    best: Drift | None = None
    for blocks in (12, 24, 48):
        if len(values) < 2 * blocks:
            break
        edges = np.linspace(0, len(values), blocks + 1).astype(int)
        level = np.array([_median(values[a:b]) for a, b in pairwise(edges.tolist())])
        for sign in (1.0, -1.0):
            found = _bend(level * sign, edges, chance / 6)
            if found is not None and (best is None or found.size > best.size):
                best = found._replace(before=found.before * sign, after=found.after * sign)
    return best


def _bend(level: Floats, edges: NDArray[np.int64], chance: float) -> Drift | None:
    """Return the place from which block medians rise until the end, if they did not rise before it."""
    low = int(level[: len(level) - 4].argmin())
    # A steep fall long before the bend, as of a loss, is no part of the lines that meet there.
    high = np.flatnonzero(level[:low] > (level[low] + float(np.median(level[-3:]))) / 2)
    begin = int(high[-1]) + 1 if len(high) else 0
    level, edges, low = level[begin:], edges[begin:], low - begin
    count = len(level)
    if count < 8:
        return None
    rises = np.diff(level[low:]) > 0
    if low < 2 or _tail(int(rises.sum()), len(rises)) > COIN:
        return None
    place = np.arange(count, dtype=np.float64)
    fits = []
    for knot in range(2, count - 3):
        basis, _ = np.linalg.qr(np.c_[np.ones(count), place, np.maximum(place - knot, 0)])
        rest = level - basis @ (basis.T @ level)
        fits.append((float(rest @ rest), knot, rest))
    misfit, knot, rest = min(fits, key=lambda each: each[0])
    before, after = float(np.median(level[max(0, knot - 3) : knot + 1])), float(np.median(level[-3:]))
    # Neighbours that err alike hold less: the noise of so many independent blocks is larger by this factor.
    alike = min(max(float(rest[1:] @ rest[:-1]) / max(misfit, 1e-300), 0.0), 0.95)
    noise = math.sqrt(misfit / (count - 4) * (1 + alike) / (1 - alike))
    size = (after - before) / max(noise, 1e-9 * float(np.abs(level).max()), 1e-300)
    earlier = (level[knot] - level[0]) / max(knot, 1)
    later = (level[-1] - level[knot]) / (count - 1 - knot)
    # A series that rose before as it does after has not changed.
    if size < _student(limit_of(chance / count), count - 4) or earlier > 0.25 * later:
        return None
    near = [at for other, at, _ in fits if other <= misfit + 9 * noise * noise]
    first, last = edges[max(min(near) - 1, 0)], edges[min(max(near) + 1, count)] - 1
    return Drift(int(edges[knot]), int(first), int(last), before, after, size)


def _tail(heads: int, throws: int) -> float:
    """Return the chance of at least so many heads of a fair coin."""
    return sum(math.comb(throws, each) for each in range(heads, throws + 1)) / 2.0**throws


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else math.nan
