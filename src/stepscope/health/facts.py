"""Facts about a series, whatever it is called: its values, its noise, and when they changed.

``Facts`` takes the points of one series in one pass and keeps at most ``BLOCKS`` means of equally many of
them. Changes are computed from these means when they are asked for. All of it depends on the points and their
order alone, and not on the portions in which they came: a fact is the same live and afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.noise import rise_chance
from stepscope.health.ring import MAD_TO_SIGMA, median
from stepscope.kernels import facts as kernel
from stepscope.kernels import warn_if_uncompiled
from stepscope.kernels.facts import FactPass

warn_if_uncompiled(kernel)

Floats = NDArray[np.float64]
Kind = Literal["jump", "drift", "not finite", "finite again", "stopped", "counter", "constant"]

CHANCE = 1e-3
"""Chance of a false change in a run, over all of its series together."""
SCALES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Lengths of the lines to the left and to the right: the shorter ones date a change, the longer ones see
through noise."""
FEW = 64
"""Points below which lines of several lengths cannot be compared with each other; a level test is made."""
RISES = 0.01
"""Chance at which noise alone would rise as clearly from the least block on: a drift goes one way."""
NEAR = 32
"""Points before and after a jump whose medians are its levels."""
LEFT = 0.6
"""Part of the height of a jump that lies at one place, and that is left later."""
SURE = 4.0
"""Standard deviations by which a jump has to show again, beside a cubic and in the points after it: a second
look at one place, whose chance is below 1e-4."""
ALONE = 2.5
"""Times the largest other difference that a jump of a series with a long memory is, which cannot show in the
points after it."""
FIRST = 10.0
"""The same for a shock that fades: of noise with the tails of t3 one shock is so many times the next with a
chance of its third power, 1e-3."""
STEEPEST = 1.6
"""Times the largest other difference that a jump of a short series is in any case: of a walk of so few points
the largest two are seldom so far apart."""
BOUND = 3.0
"""Standard deviations at which a single point counts no more: a change is shown by many points."""
NEAREST, CLEAR = 4, 5.0
"""Points next to a jump of a short series, and times their range that the jump is: a series that came to its
level before it has a large range only further away. Four points of noise have a range of 2 deviations."""
SIDES = (8, 16, 32, 64, 128, 256)
"""Points to either side of a jump in which it has to show: few if the series has a trend, many if it has a
memory."""
TREND = 15
"""Differences whose median is the trend at a place."""
LATTICE = 8
"""Distinct values of a series from which their lattice is no chance, and differences from which they have a
scale."""
RANDOM_WALK = 0.8
"""Slope of log noise over log length from which longer lines see no less noise: such lengths are skipped.
White noise has -1/2, a random walk 1/2."""


Place = tuple[float, int, int, int, int]
"""Size of a jump, length of the lines that show it best, its index, and the first and last that may be it."""


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
            ``stopped`` of a series whose points end while others go on, ``counter`` of steps that start over,
            ``constant`` of a setting that stands still after a schedule.
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


class Facts(FactPass):
    """The facts about one series, from one pass over its points."""

    def take(self, steps: NDArray[Any], values: NDArray[Any], walls: NDArray[Any]) -> None:
        """Take further points, in recorded order."""
        super().take(
            np.ascontiguousarray(steps, np.int64),
            np.ascontiguousarray(values, np.float64),
            np.ascontiguousarray(walls, np.float64),
        )

    # --- questions ------------------------------------------------------------------------------------

    @property
    def curve(self) -> tuple[NDArray[np.int64], Floats]:
        """Steps and means of the kept blocks of finite values."""
        steps, _, means = self.kept()
        return np.frombuffer(steps, np.int64), np.frombuffer(means)

    @property
    def curve_to_newest(self) -> tuple[NDArray[np.int64], Floats]:
        """The curve, and the newest finite value at its end if it is in no kept mean yet."""
        steps, means = self.curve
        if self.finite % self.width:
            return np.append(steps, self.last_step), np.append(means, self.last)
        return steps, means

    @property
    def walls(self) -> Floats:
        """Times of the kept blocks."""
        return np.frombuffer(self.kept()[1])

    @property
    def level(self) -> float:
        """The level now: the median of the last tenth of the kept means, of 3 to 32 of them."""
        means = self.curve[1]
        return median(means[-min(max(len(means) // 10, 3), 32) :])

    @property
    def beginning(self) -> float:
        """The level at the beginning: the median of the first five kept means."""
        return median(self.curve[1][:5])

    @property
    def only(self) -> float | None:
        """The only value that it ever had; None if there were several, or one that is not finite."""
        return self.first if self.least[0] == self.most[0] and self.broken is None else None

    def is_missing(self, until: float, until_step: float, gaps: float) -> bool:
        """Return whether the newest gap is so many times as long as any before, in time and in steps.

        A slow end of a run makes a gap long in time alone, and one leap of its steps in steps alone.

        Args:
            until: Time up to which nothing came, in seconds since the epoch.
            until_step: Step up to which nothing came.
            gaps: How many times.
        """
        leap = float(np.diff(self.curve[0]).max(initial=0))
        late = until - self.last_wall > gaps * self.gap_s > 0
        # Steps that end before this series' own count something else and tell nothing.
        far = until_step < self.last_step or until_step - self.last_step > gaps * leap
        return self.count >= FEWEST_GAPS and late and far

    def changes(
        self, chance: float, *, until: float = -math.inf, until_step: float = math.inf
    ) -> list[Change]:
        """Return what changed, in the order of time.

        Args:
            chance: Of a false change; exact facts have none.
            until: Time of the newest point of the run, if it is known: a series whose last gap is far longer
                than any before has stopped.
            until_step: Its newest step, likewise.
        """
        changes = [*self._exact(until, until_step), *self._sudden(chance)]
        slow = self._slow(chance)
        # A slow change that only goes through jumps is these jumps.
        if slow is not None and not any(
            change.kind == "jump" and change.last_step >= slow.first_step and change.lasts
            for change in changes
        ):
            changes.append(slow)
        return _in_time(changes)

    def sudden(self, chance: float) -> list[Change]:
        """Return the jumps alone, in the order of time; ``chance`` is that of a false one."""
        return _in_time(self._sudden(chance))

    def _exact(self, until: float, until_step: float) -> Iterator[Change]:
        if self.broken is not None:
            step, wall = self.broken
            yield Change("not finite", step, step, wall, wall, lasts=self.whole is None)
        if self.whole is not None:
            yield Change("finite again", self.whole[0], self.whole[0], self.whole[1], self.whole[1])
        for before, after, wall in self.counters:
            yield Change("counter", after, after, wall, wall, float(before), float(after))
        if self.is_missing(until, until_step, LONGER):
            yield Change("stopped", self.last_step, self.last_step, self.last_wall, self.last_wall, self.last)

    def _sudden(self, chance: float) -> Iterator[Change]:
        (steps, means), times, level = self.curve, self.walls, self.level
        for jump in jumps(means, chance):
            # The first of these points may be the first after it, so it began after the point before.
            first = int(steps[jump.first - 1]) + 1
            last = max(int(steps[jump.last]) + self.width - 1, first)
            if int(steps[jump.first]) <= int(steps[jump.first - 1]):  # steps start over here
                first = last = int(steps[jump.first])
            middle = (jump.before + jump.after) / 2
            lasts = (level > middle) == (jump.after > jump.before)
            walls = float(times[jump.first - 1]), float(times[jump.last])
            yield Change("jump", first, last, *walls, jump.before, jump.after, jump.size, lasts)

    def _slow(self, chance: float) -> Change | None:
        (steps, means), times = self.curve, self.walls
        bend = drift(means, chance)
        if bend is None:
            return None
        first, last = int(steps[bend.first]), int(steps[bend.last])
        first_wall, wall = sorted((float(times[bend.first]), float(times[bend.last])))
        first, last = sorted((first, last))
        return Change("drift", first, last, first_wall, wall, bend.before, bend.after, bend.size)


def _in_time(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (change.wall, change.first_step))


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
    louder, counted = _louder(smooth), counted_noise(values)
    lengths = [length for length in SCALES if 2 * length <= len(values)]
    gaps = {length: _gaps(smooth, _line(length)) for length in lengths}
    noises = _noises(gaps, noise, len(values))
    looks = sum(4 * len(values) / length for length in lengths)
    least = limit_of(chance / looks)
    sudden_gaps: list[tuple[float, int, int]] = []
    for length, usual in noises.items():
        scale = (
            np.maximum(usual, 1e-12 * float(np.abs(smooth).max()))
            * louder[length : length + len(gaps[length])]
        )
        scale = np.maximum(scale, counted[length : length + len(gaps[length])] * math.sqrt(8 / length))
        score = np.abs(gaps[length]) / np.maximum(scale, 1e-300)
        sudden = (score > least) & _is_sudden(smooth, gaps, noises, length, louder)
        sudden_gaps += [(float(score[at]), length, int(at) + length) for at in np.flatnonzero(sudden)]
    sudden_gaps.sort(reverse=True)
    apart: list[tuple[float, int, int]] = []
    for score_, length, at in sudden_gaps:
        if all(abs(at - other) >= max(length, long) // 2 for _, long, other in apart):
            apart.append((score_, length, at))
    places = ((size, length, _dated(values, at, length, noise)) for size, length, at in apart)
    by_place = {place[0]: (size, length, *place) for size, length, place in places if place is not None}
    return _borne_out(values, [by_place[at] for at in sorted(by_place)], louder, counted)


def _levels(values: Floats, places: Sequence[Place]) -> list[tuple[Jump, int]]:
    """Return jumps with their levels, each with the length of lines that shows it best."""
    edges = [0, *(at for _, _, at, _, _ in places), len(values)]
    near = NEAR if len(values) >= FEW else SIDES[0]
    jumps: list[tuple[Jump, int]] = []
    for place, (size, length, at, first, last) in enumerate(places):
        before = median(values[max(edges[place], at - near) : at])
        after = median(values[at : min(edges[place + 2], at + near)])
        jumps.append((Jump(at, first, last, before, after, size), length))
    return jumps


def _borne_out(values: Floats, places: list[Place], louder: Floats, counted: Floats) -> list[Jump]:
    """Return the jumps that the points around them bear out.

    Args:
        values: Of the series.
        places: Of jumps, in order; those that are not borne out are taken out.
        louder: By how much the neighbourhood of each point is noisier than the whole.
        counted: The noise of each point as a share of things that are counted.
    """
    memory = _Memory(values, louder, counted) if places else None
    while memory is not None and places:
        jumps = _levels(values, places)
        memory.leave_out([jump for jump, _ in jumps])
        edges = [0, *(jump.at for jump, _ in jumps), len(values)]
        failing = [
            place
            for place, (jump, length) in enumerate(jumps)
            if not _is_borne_out(values, memory, jump, (edges[place], edges[place + 2]), length)
        ]
        if not failing:
            return [jump for jump, _ in jumps]
        # The smallest first: without them, their neighbours have room, and they are noise of the series.
        for small in sorted(places[at] for at in failing)[: (len(failing) + 1) // 2]:
            places.remove(small)
    return []


def _is_borne_out(values: Floats, memory: _Memory, jump: Jump, room: tuple[int, int], length: int) -> bool:
    """Return whether a jump is no bend, lies at one place, and is no shock that the series only remembers."""
    alone = memory.alone(jump)
    if alone < STEEPEST if len(values) < FEW else _cubic(values, jump, room, length) < SURE:
        return False
    # Most of the height is at one place, or not to be told from the noise.
    low = median(values[max(room[0], jump.first - SIDES[0]) : jump.first])
    high = median(values[jump.last : min(room[1], jump.last + SIDES[0])])
    step = abs(float(values[jump.last] - values[jump.first - 1]))
    if step + SURE * memory.noise[jump.at] < LEFT * abs(high - low):
        return False
    if not memory.held and memory.lasting(jump, room) >= SURE:
        return True
    after = values[jump.last : min(room[1], jump.last + NEAR)]
    fades = abs(median(after[len(after) // 2 :]) - low) < LEFT * abs(median(after[:3]) - low)
    return alone >= (FIRST if fades else ALONE)


def _cubic(values: Floats, jump: Jump, room: tuple[int, int], length: int) -> float:
    """Return the height of a jump beside a cubic, in standard deviations; a curve that bends has little.

    Infinite for few points: their cubic would take the jump for its own.
    """
    begin, end = max(room[0], jump.at - length), min(room[1], jump.at + length)
    window, count = values[begin:end], end - begin
    if count < 32:
        return math.inf
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, count), 4))
    step = (np.arange(begin, end) >= jump.at).astype(np.float64)
    step -= basis @ (basis.T @ step)
    rest = window - basis @ (basis.T @ window)
    square = float(step @ step)
    height = float(step @ rest) / max(square, 1e-12)
    misfit = rest - height * step
    usual = math.sqrt(float(misfit @ misfit) / (count - 5))
    return abs(height) * math.sqrt(square) / max(usual, 1e-12 * float(np.abs(window).max()), 1e-300)


class _Memory:
    """How much of a value its successor keeps, by the correlation of differences.

    Differences of white noise have -1/2, those of a walk 0. A trend is taken off, and so are jumps.
    """

    def __init__(self, values: Floats, louder: Floats, counted: Floats) -> None:
        self.values, self.counted = values, counted
        self.noise = np.maximum(point_noise(clipped(values)) * louder, counted)
        apart = np.diff(values)
        self.held = np.count_nonzero(apart) < len(apart) / 2 and not counted.any()
        half = min(TREND, len(apart) - 1) // 2
        padded = np.concatenate([apart[half:0:-1], apart, apart[-2 : -half - 2 : -1]])
        trend = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
        self.apart = (apart - trend) / louder[1:]
        usual = 8 * MAD_TO_SIGMA * median(np.abs(self.apart))
        self.bound = np.clip(self.apart, -usual, usual)
        self.own = np.ones(len(apart), np.bool_)

    def leave_out(self, jumps: Sequence[Jump]) -> None:
        """Take the differences at these jumps, and at no others, for changes of level."""
        self.own[:] = True
        for jump in jumps:
            self.own[max(jump.first - 1, 0) : jump.last] = False

    def share(self, begin: int, end: int) -> float:
        """Return the share that a value keeps of the one before it."""
        apart, own = self.bound[begin : end - 1], self.own[begin : end - 1]
        square = float((apart * apart)[own].mean()) if own.any() else 0.0
        both = own[1:] & own[:-1]
        if not (square > 0 and both.any()):
            return 0.0
        # The median of 15 takes some of the noise off, too, and a short series shows less than it has.
        share = 1 + 2 * float((apart[1:] * apart[:-1])[both].mean()) / square + 1.3 / (TREND - 1)
        return min(max(share + (1 + 3 * max(share, 0.0)) / len(apart), 0.0), 1.0)

    def alone(self, jump: Jump) -> float:
        """Return how many times the largest other difference nearby the one at a jump is."""
        reach = SIDES[-1] if len(self.values) >= FEW else SIDES[0]
        begin, end = max(jump.at - reach, 0), jump.at + reach
        here = np.abs(self.apart[max(jump.first - 1, 0) : jump.last]).max(initial=0.0)
        own = self.own[begin:end]
        if self.held and np.count_nonzero(self.apart) >= LATTICE:  # no noise: its steps are compared
            own = np.ones(end - begin, np.bool_)[: len(own)]
            own[max(jump.first - 1, 0) - begin : jump.last - begin] = False
        others = np.abs(self.apart[begin:end][own]).max(initial=0.0)
        return float(here) / max(float(others), 1e-300)

    def lasting(self, jump: Jump, room: tuple[int, int]) -> float:
        """Return by how many standard deviations what is new in each point differs before and after a jump.

        A shock is new at one point, and then only remembered; after a change of level each point is.
        """
        best = -math.inf
        reach = SIDES[-1] // 2
        share = max(self.share(max(jump.at - reach, 0), jump.at + reach), self.share(0, len(self.values)))
        for side in SIDES:
            before = self.values[max(room[0], jump.first - side) : jump.first]
            after = self.values[jump.last : min(room[1], jump.last + side + 1)]
            if min(len(before), len(after)) < 4:
                continue
            parts = [part[1:] - share * part[:-1] for part in (before, after)]
            middles = [median(part) for part in parts]
            rest = np.concatenate([part - middle for part, middle in zip(parts, middles, strict=True)])
            usual = MAD_TO_SIGMA * median(np.abs(rest))
            usual = max(usual, self.counted[jump.at], 1e-12 * float(np.abs(self.values).max()), 1e-300)
            noise = max(float(np.clip(rest / usual, -BOUND, BOUND).std()), 1.0)
            old, new = (np.clip((part - sum(middles) / 2) / usual, -BOUND, BOUND) for part in parts)
            gap = float(new.mean() - old.mean()) * math.copysign(1.0, jump.after - jump.before)
            best = max(best, gap / (noise * math.sqrt(1 / len(old) + 1 / len(new))))
            if max(len(before), len(after)) < side:
                break
        return best


def clipped(values: Floats) -> Floats:
    """Return values without outliers: at most 4 deviations from the median of 7, which follows a jump."""
    if len(values) < 3:
        return values
    padded = np.concatenate([values[:3], values, values[-3:]])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7), axis=1)
    apart = np.abs(values - middle)
    usual = 4 * MAD_TO_SIGMA * median(apart[apart > 0]) if (apart > 0).any() else 0.0
    inside: Floats = np.clip(values, middle - usual, middle + usual)
    return inside


def point_noise(values: Floats) -> float:
    """Return the standard deviation of the noise of single points, at least that of rounding.

    It comes from the differences of neighbours, of which a trend is taken off. Values with few distinct
    levels, such as counts of right answers, have the noise of a quantum, its width over the root of 12. Of
    values that change once the quantum is not known.
    """
    apart = np.diff(values)
    if not len(apart):
        return 0.0
    noise = MAD_TO_SIGMA * median(np.abs(apart - median(apart))) / math.sqrt(2)
    levels = np.unique(values)
    again = np.count_nonzero(apart) > 1
    quantum = float(np.diff(levels).min()) if again and 1 < len(levels) < len(values) / 2 else 0.0
    return max(noise, quantum / math.sqrt(12))


@lru_cache(maxsize=4096)
def limit_of(chance: float) -> float:
    """Return how many standard deviations normal noise passes with a chance, to either side."""
    return NormalDist().inv_cdf(1 - min(max(chance, 1e-15), 0.5) / 2)


def _louder(values: Floats) -> Floats:
    """Return at each point by how much its neighbourhood is noisier than the whole, at least 1."""
    apart = np.abs(np.diff(values, prepend=values[0]))
    usual = median(apart)
    return np.maximum(around(apart) / usual, 1.0) if usual > 0 else np.ones(len(values))


def around(values: Floats, reach: int = 16) -> Floats:
    """Return at each point the median of its neighbourhood."""
    reach = min(reach, len(values) - 1)
    padded = np.concatenate([values[reach:0:-1], values, values[-2 : -reach - 2 : -1]])
    around: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)
    return around


def counted_noise(values: Floats) -> Floats:
    """Return at each point the noise of a share of things that are counted, as right answers of a batch.

    Its variance is that of a binomial distribution, p (1 - p) / n, with one answer more of each kind, because
    a share of 1 or 0 has noise, too. Shares lie between 0 and 1, or 100, and are multiples of one quantum, of
    which there are fewer than points. Zero for other series.
    """
    levels = np.unique(values)
    none = np.zeros(len(values))
    if not LATTICE <= len(levels) < len(values) / 2 or levels[0] < 0 or levels[-1] > 100:
        return none
    top = 1.0 if levels[-1] <= 1 + 1e-6 else 100.0
    apart = np.diff(levels)
    count = round(top / float(apart[apart > 1e-5 * top].min(initial=top)))
    places = levels / top * count
    if float(np.abs(places - np.round(places)).max()) > 0.05:
        return none
    share = (around(values) / top * count + 1) / (count + 2)
    return top * np.sqrt(np.maximum(share * (1 - share), 0.0) / count)


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
    for length, gap in gaps.items():
        spread = MAD_TO_SIGMA * median(np.abs(gap - median(gap)))
        if count >= 7 * length and spread > 0:
            shown[length] = spread
    theory = {length: noise * math.sqrt(8 / length) for length in gaps}
    if len(shown) < 2:
        return {length: max(theory[length], shown.get(length, 0.0)) for length in gaps}
    places, heights = np.log(list(shown)), np.log(list(shown.values()))
    slope, offset = np.polyfit(places, heights, 1)
    slopes = dict(zip(list(shown)[1:], np.diff(heights) / np.diff(places), strict=True))
    noises = {}
    for length in gaps:
        usual = shown.get(length, math.exp(min(offset + slope * math.log(length), 690)))
        if slopes.get(length, slope if length not in shown else 0.0) <= RANDOM_WALK:
            noises[length] = max(theory[length], usual)
    return noises


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
    places: list[Place] = []
    count = len(values)
    if count < 8:
        return []
    noise = point_noise(values)
    free = max(count / 2 - 2, 1.0)
    limit = _student(limit_of(chance / count), free)
    least = max(noise, 1e-9 * float(np.abs(values).max()), 1e-300)
    counted = counted_noise(values)
    noises = np.maximum(counted, least).tolist()
    begin = 0
    for at in range(5, count - 2):
        before, after = values[max(begin, at - SIDES[0]) : at], values[at : at + SIDES[0]]
        if len(before) < 3:
            continue
        step = float(values[at] - values[at - 1])
        width = max(noises[at - 1], noises[at]) * math.sqrt(1.57 / len(before) + 1.57 / len(after))
        # Most of the gap is at the step, so a small step needs no medians, which cost most here.
        if not abs(step) > 0.6 * limit * width:
            continue
        low, high = median(before), median(after)
        gap = high - low
        size = abs(gap) / width
        whole = 1.5 * max(np.ptp(before), np.ptp(after))
        near = CLEAR * max(np.ptp(before[-NEAREST:]), np.ptp(after[:NEAREST]))
        if size > limit and step * gap > 0 and abs(step) >= 0.6 * abs(gap) and abs(gap) > min(whole, near):
            places.append((size, SIDES[0], at, at, at))
            begin = at
    return _borne_out(values, places, np.ones(count), counted)


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

    Two lines that meet, each of which may be bent, are fitted to the medians of blocks, for blocks of several
    sizes. The rise of the second one counts against what the blocks leave of the fit, which neighbours that
    err alike make larger: a random walk leaves much. The blocks must also rise by their ranks.
    Positive values are also asked for their logarithms: what grows by a share of itself, as gradients do that
    explode, bends everywhere in values and at one place in logarithms.

    Args:
        values: Finite ones, in recorded order.
        chance: Of a false one.
    """
    best: Drift | None = None
    if len(values) < 12:
        return None
    for blocks in sorted({min(blocks, len(values)) for blocks in (12, 24, 48)}):
        edges = np.linspace(0, len(values), blocks + 1).astype(int)
        level = np.array([median(values[a:b]) for a, b in pairwise(edges.tolist())])
        logarithms = np.log(level) if level.min() > 0 else None
        for sign in (1.0, -1.0):
            bend = _bend(level * sign, edges, chance / 12)
            if bend is not None and (best is None or bend.size > best.size):
                best = bend._replace(before=bend.before * sign, after=bend.after * sign)
            bend = None if logarithms is None else _bend(logarithms * sign, edges, chance / 12)
            if bend is not None and (best is None or bend.size > best.size):
                before, after = math.exp(bend.before * sign), math.exp(bend.after * sign)
                best = bend._replace(before=before, after=after)
    return best


class _Shapes(NamedTuple):
    """Pairs of lines that meet, for each place where they may: straight, or with one or both bent.

    Attributes:
        bases: Orthonormal, of the shape [shapes, count, columns]; columns that a shape lacks are zero.
        knots: Where they meet.
        free: Points that a shape and its knot leave free.
    """

    bases: Floats
    knots: NDArray[np.int64]
    free: NDArray[np.int64]


@lru_cache(maxsize=16)
def _shapes(count: int) -> _Shapes:
    place, bases, knots, free = np.arange(count, dtype=np.float64), [], [], []
    for knot in range(2, count - 3):
        after, before = np.maximum(place - knot, 0), np.maximum(knot - place, 0)
        columns = [np.ones(count), place, after, after * after, before * before]
        for used in range(3, 6):
            basis = np.zeros((count, 5))
            basis[:, :used] = np.linalg.qr(np.stack(columns[:used], axis=1))[0]
            bases.append(basis)
            knots.append(knot)
            free.append(count - used - 1)
    return _Shapes(np.array(bases), np.array(knots), np.array(free))


def _bend(level: Floats, edges: NDArray[np.int64], chance: float) -> Drift | None:
    """Return the place from which block medians rise until the end, if they did not rise before it."""
    low = int(level[: len(level) - 4].argmin())
    # A steep fall long before the bend, as of a loss, is no part of the lines that meet there.
    high = np.flatnonzero(level[: max(low - 2, 0)] > (level[low] + median(level[-3:])) / 2)
    begin = int(high[-1]) + 1 if len(high) else 0
    level, edges, low = level[begin:], edges[begin:], low - begin
    count = len(level)
    if count < 8 or low < 2 or rise_chance(level[low:]) > RISES:
        return None
    shapes = _shapes(count)
    rests = level - (shapes.bases @ (shapes.bases.transpose(0, 2, 1) @ level)[:, :, None])[:, :, 0]
    misfits = (rests * rests).sum(axis=1)
    least = int((misfits / shapes.free).argmin())
    misfit, knot, rest = float(misfits[least]), int(shapes.knots[least]), rests[least]
    # Neighbours that err alike hold less: the noise of so many independent blocks is larger by this factor.
    alike = min(max(float(rest[1:] @ rest[:-1]) / max(misfit, 1e-300), 0.0), 0.95)
    noise = math.sqrt(misfit / float(shapes.free[least]) * (1 + alike) / (1 - alike))
    near = shapes.knots[misfits <= misfit + 9 * noise * noise]
    begins, ends = int(near.min()), int(near.max())
    noise = max(noise, _wandering(level[begins:]))
    before, after = median(level[max(0, knot - 3) : knot + 1]), median(level[-3:])
    size = (after - before) / max(noise, 1e-9 * float(np.abs(level).max()), 1e-300)
    earlier = (level[knot] - level[0]) / max(knot, 1)
    later = (level[-1] - level[knot]) / (count - 1 - knot)
    limit = _student(limit_of(chance / count), count - 4)
    # A series that rose before as it does after has not changed, nor has one that a single line fits as well.
    if size < limit or earlier > 0.25 * later:
        return None
    line, _ = np.linalg.qr(np.c_[np.ones(count), np.arange(count)])
    straight = level - line @ (line.T @ level)
    if float(straight @ straight) - misfit < (limit * noise) ** 2:
        return None
    first, last = edges[max(begins - 1, 0)], edges[min(ends + 1, count)] - 1
    return Drift(int(edges[knot]), int(first), int(last), before, after, size)


def _wandering(level: Floats) -> float:
    """Return how far a series comes by chance from its first point to its last: as a walk, or as white noise.

    The correlation of its differences says how much of both it is; their mean is taken off.
    """
    apart = np.diff(level)
    line, _ = np.linalg.qr(np.c_[np.ones(len(apart)), np.arange(len(apart))])
    apart -= line @ (line.T @ apart)
    usual = MAD_TO_SIGMA * median(np.abs(apart)) * math.sqrt(len(apart) / max(len(apart) - 2, 1))
    alike = float(apart[1:] @ apart[:-1]) / max(float(apart @ apart), 1e-300)
    alike = min(max(alike, -0.5), 0.5)
    return usual * math.sqrt((1 + 2 * alike) * len(apart) + max(-2 * alike, 0.0))
