"""A test that one set of steps takes longer than another: exact for few steps, whatever their distribution.

Of few steps the test is Fisher's permutation test (1935) of the difference of the means: in how many of all
divisions of the steps into two sides is the difference as large. Beyond :data:`MOST_CHOICES` divisions it is
Mann and Whitney's test (1947) of the ranks, counted out up to :data:`EXACT` steps together, ties included,
and by the normal approximation with the correction for ties beyond.

How much longer is Hodges and Lehmann's (1963) median of all pairwise differences, with the interval of all
differences that the same test would not refuse: for the permutation test by Tritchler's inversion (1984), so
that 0 lies outside exactly if a difference is believed. How clearly is Cliff's delta (1993): 1 if every
step of B is longer than every step of A, 0 if it is a toss-up, -1 the other way round.

"The same" is a claim of its own: two one-sided tests (Schuirmann 1987) say that the difference is below a
margin. If neither holds, the steps cannot tell. With three steps against three the least two-sided p is
0.1, so a difference of three steps is never certain.

Other programs on a machine only ever make a run slower, and some runs much. :func:`lower_quarter_test` is the
permutation test of the means of the sides' lower quarters, in which such runs are not; of many divisions
it draws some.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.05
"""A difference is accepted if equal sides would differ as clearly in at most this share of cases."""

LEAST_RATIO = 0.01
"""Smaller differences are never a change."""

SAME_RATIO = 0.03
"""Share of the larger mean below which a difference does not count."""

EXACT = 40
"""Steps of both sides together up to which the distribution is counted out."""

MOST_CHOICES = 20_000
"""Divisions of the steps into two sides up to which all of them are tried: those of eight against eight."""

MOST_PAIRS = 4_000_000

DRAWS = 4_000
"""Divisions that are drawn if there are more than :data:`MOST_CHOICES`: a p of 1 % is then known to 0.2 %."""

HALVINGS = 12
"""Steps in which a bound is found: to a four thousandth of the range of all values."""


@dataclass(frozen=True, slots=True)
class RankTest:
    """The result of comparing the steps of two sides; times have the unit of the values given."""

    p_value: float
    """Two-sided; 1 if nothing speaks for a difference."""
    effect: float
    """Cliff's delta, -1 to 1."""
    shift: float
    """B less A: the median of all pairwise differences."""
    interval: tuple[float, float] | None
    """The interval of the shift at 95 %; None if there are too few steps for one."""
    inner: tuple[float, float] | None
    """In which it lies with 90 %: that of the two one-sided tests for "the same"."""


def rank_test(a: Floats, b: Floats) -> RankTest:
    """Compare the steps of two sides; neither may be empty."""
    ranks = doubled_ranks(np.concatenate([a, b]))
    total = int(ranks[len(a) :].sum())
    # Twice U: how often B's is the longer, ties counting half.
    twice_u = total - len(b) * (len(b) + 1)
    effect = twice_u / (len(a) * len(b)) - 1
    differences = np.sort(np.subtract.outer(_thinned(b), _thinned(a)), axis=None)
    shift = float(np.median(differences))
    if math.comb(len(a) + len(b), len(b)) <= MOST_CHOICES:
        shifts = _shifts(a, b)
        return RankTest(
            p_value=_permutation_p_value(shifts, a, b),
            effect=float(effect),
            shift=shift,
            interval=_between(shifts, LEVEL / 2),
            inner=_between(shifts, LEVEL),
        )
    return RankTest(
        p_value=_ranks_p_value(tuple(np.sort(ranks).tolist()), len(b), total),
        effect=float(effect),
        shift=shift,
        interval=_interval(differences, len(a), len(b), LEVEL / 2),
        inner=_interval(differences, len(a), len(b), LEVEL),
    )


@dataclass(frozen=True, slots=True)
class LowerQuarterTest:
    """The result of comparing the lower quarters of two sides by their means.

    Attributes:
        p_value: How often equal sides have B's as much above A's; never 0 (Phipson and Smyth 2010).
        shift: B's less A's.
        high: Below which the shift lies with 95 %: where the test finds B's below A's. None if it was not
            asked for.
    """

    p_value: float
    shift: float
    high: float | None


def lower_quarter_test(a: Floats, b: Floats, *, bound_above: float = 0.0) -> LowerQuarterTest:
    """Compare the means of the lower quarters of two sides; neither may be empty.

    Args:
        a: Before.
        b: After.
        bound_above: The bound is found for a p above this only, as it costs a dozen tests.
    """
    count, chosen = len(a) + len(b), len(b)
    every = math.comb(count, chosen)
    if every <= MOST_CHOICES:
        sides = _choices(count, chosen) > 0
    else:
        drawn = np.random.default_rng(0).random((DRAWS, count)).argsort(axis=1) < chosen
        sides = np.vstack([drawn, np.arange(count) >= len(a)])

    def shifts(values: Floats) -> Floats:
        table = np.broadcast_to(values, sides.shape)
        of_b, of_a = (table[mask].reshape(len(sides), -1) for mask in (sides, ~sides))
        return lower_mean(of_b) - lower_mean(of_a)

    shift = float(lower_mean(b) - lower_mean(a))
    together = np.concatenate([a, b])
    rounding = 1e-9 * float(np.abs(together).max())
    p_value = float((shifts(together) >= shift - rounding).mean())
    if p_value <= bound_above:
        return LowerQuarterTest(p_value, shift, None)
    low, high = shift, shift + float(np.ptp(together))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = (shifts(np.concatenate([a, b - middle])) <= shift - middle + rounding).mean() <= LEVEL
        low, high = (low, middle) if below else (middle, high)
    return LowerQuarterTest(p_value, shift, high)


def lower_mean(values: Floats) -> Floats:
    """Return the mean of the lower quarter along the last axis, rounded up: of five values, of two."""
    quarter = math.ceil(values.shape[-1] / 4)
    return np.asarray(np.partition(values, quarter - 1, axis=-1)[..., :quarter].mean(axis=-1))


def doubled_ranks(values: Floats) -> npt.NDArray[np.int64]:
    """Return twice the rank of each value from 1 up, the mean of their ranks for equal ones."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((2 * last - count + 1)[place], np.int64)


def _thinned(values: Floats) -> Floats:
    """Take evenly spaced order statistics if there would be too many pairs."""
    most = math.isqrt(MOST_PAIRS)
    if len(values) <= most:
        return values
    return np.sort(values)[np.linspace(0, len(values) - 1, most).astype(np.int64)]


def _shifts(a: Floats, b: Floats) -> Floats:
    """Return for each other division the difference between the sides at which both differ as much.

    Dividing otherwise changes some steps of B for as many of A: it is the mean of those of B less that of
    those of A. Ascending; this division itself has none.
    """
    chosen = _choices(len(a) + len(b), len(b))
    values = np.concatenate([a, b])
    middle = values.mean()
    values = values - middle
    changed = len(b) - chosen[:, len(a) :].sum(1)
    lost = values[len(a) :].sum() - chosen @ values
    others = changed > 0
    shifts = lost[others] / changed[others]
    # Sums that differ by rounding alone are equal.
    shifts[np.abs(shifts) <= 1e-9 * (np.abs(values).sum() + abs(middle))] = 0.0
    return np.sort(shifts)


def _permutation_p_value(shifts: Floats, a: Floats, b: Floats) -> float:
    """Return twice the share of divisions that differ as much on the nearer side, this one included."""
    every = math.comb(len(a) + len(b), len(b))
    longer = 1 + int(np.searchsorted(shifts, 0.0, side="right"))
    shorter = 1 + len(shifts) - int(np.searchsorted(shifts, 0.0, side="left"))
    return min(1.0, 2 * min(longer, shorter) / every)


def _between(shifts: Floats, tail: float) -> tuple[float, float] | None:
    """Return the smallest and the largest difference that the test does not reject on its side."""
    outside = math.floor(tail * (len(shifts) + 1) + 1e-9)
    return (float(shifts[outside - 1]), float(shifts[-outside])) if outside else None


@lru_cache(maxsize=16)
def _choices(size: int, chosen: int) -> Floats:
    """Return f8[choices, size], 1 if a step is chosen."""
    choices = np.array(list(combinations(range(size), chosen)), np.intp)
    table = np.zeros((len(choices), size))
    table[np.arange(len(choices))[:, None], choices] = 1
    return table


@lru_cache(maxsize=4096)
def _ranks_p_value(ranks: tuple[int, ...], chosen: int, total: int) -> float:
    """Return how often a choice of ranks has a sum as far from the mean as ``total``, on either side."""
    if len(ranks) > EXACT:
        return _approximate(ranks, chosen, total)
    counts = _sums(ranks, chosen)
    every = counts.sum()
    low, high = counts[: total + 1].sum() / every, counts[total:].sum() / every
    return float(min(1.0, 2 * min(low, high)))


@lru_cache(maxsize=256)
def _sums(ranks: tuple[int, ...], chosen: int) -> Floats:
    """Return how many choices of that many ranks have each sum."""
    counts = np.zeros((chosen + 1, sum(ranks) + 1))
    counts[0, 0] = 1
    for n, rank in enumerate(ranks):
        for taken in range(min(n + 1, chosen), 0, -1):
            counts[taken, rank:] += counts[taken - 1, : counts.shape[1] - rank]
    return np.asarray(counts[chosen], np.float64)


def _approximate(ranks: tuple[int, ...], chosen: int, total: int) -> float:
    size = len(ranks)
    values = np.array(ranks, np.float64)
    mean = chosen * values.mean()
    variance = chosen * (size - chosen) / (size - 1) * values.var() if size > 1 else 0.0
    if not variance:
        return 1.0
    distance = max(0.0, abs(total - mean) - 1) / math.sqrt(variance)
    return math.erfc(distance / math.sqrt(2))


def _interval(differences: Floats, a: int, b: int, tail: float) -> tuple[float, float] | None:
    """Return the differences between which the shift lies, all but ``tail`` of the cases on either side."""
    outside = _outside(a, b, tail) * len(differences) // (a * b)
    if _outside(a, b, tail) < 1:
        return None
    outside = max(1, min(outside, (len(differences) + 1) // 2))
    return float(differences[outside - 1]), float(differences[len(differences) - outside])


@lru_cache(maxsize=1024)
def _outside(a: int, b: int, tail: float) -> int:
    """Return the greatest k for which U below k has at most this probability, 0 for none."""
    if a + b > EXACT:
        spread = math.sqrt(a * b * (a + b + 1) / 12)
        normal = {0.025: 1.959964, 0.05: 1.644854}[tail]
        return max(0, math.floor(a * b / 2 - normal * spread))
    counts = _sums(tuple(range(2, 2 * (a + b) + 1, 2)), b)
    shares = np.cumsum(counts[b * (b + 1) :: 2]) / counts.sum()
    return int(np.searchsorted(shares, tail, side="right"))
