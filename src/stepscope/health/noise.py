"""Statistics that rules share: noise without trend, limits beyond a tail, trends in few points.

Limits are set for a chance of a false alarm per run, not per look: ``PER_POINT`` times its points.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stepscope.health.ring import spread, upper_median

Floats = NDArray[np.float64]
PER_POINT = 1e-7
"""Chance that a limit beyond a tail is passed by one healthy point: 1 % in a run of 100,000 points."""
UPPER = 0.25
"""Share of the values that the tail is fitted to."""


def tail_limit(values: Floats, chance: float = PER_POINT) -> float:
    """Return the limit that a further value passes with this chance.

    Above the upper quartile the values are taken to fall off exponentially, as fast as they did on average
    (Pickands, 1975, with shape 0). For a normal distribution that is 9.5 sigma at 1e-7; heavier tails have
    higher limits, as they show themselves.

    Args:
        values: At least 8 finite ones.
        chance: Of one value.
    """
    ranked = np.sort(values)
    place = (1 - UPPER) * (len(ranked) - 1)
    low = int(place)
    edge = float(ranked[low]) + (place - low) * float(ranked[low + 1] - ranked[low])
    above = ranked[int(np.searchsorted(ranked, edge, side="right")) :]
    scale = float((above - edge).sum()) / len(above) if len(above) else 0.0
    return edge + scale * math.log(UPPER / chance)


def step_noise(values: Floats) -> float:
    """Return the standard deviation of the noise of a series, from the differences of neighbours.

    A slow trend hardly counts in differences, nor does a single jump in their median deviation.
    """
    if len(values) < 2:
        return 0.0
    changes = values[1:] - values[:-1]
    return spread(changes, upper_median(changes)) / math.sqrt(2)


def curve_noise(values: Floats) -> float:
    """Return the standard deviation of the noise of a curve, from its second differences.

    Unlike in differences, a fall that becomes slower hardly counts: those of white noise have 6 times its
    variance, those of a smooth curve are small.
    """
    if len(values) < 3:
        return step_noise(values)
    bends = np.diff(values, 2)
    return spread(bends, upper_median(bends)) / math.sqrt(6)


def standard_error(values: Floats) -> float:
    """Return the standard error of the mean of a series whose points depend on each other (AR(1)).

    The effective number of points is n (1 - r) / (1 + r), where r is the correlation of neighbours.
    """
    count = len(values)
    if count < 3:
        return math.inf
    apart = values - values.mean()
    square = float((apart * apart).sum())
    if square <= 0 or not math.isfinite(square):
        return 0.0 if square == 0 else math.inf
    r = neighbours_alike(apart)
    return math.sqrt(square / (count - 1) / max(count * (1 - r) / (1 + r), 1.0))


def rise_chance(values: Floats) -> float:
    """Return the chance that noise alone causes as clear a rise: the test of Mann (1945) and Kendall.

    One-sided, by the normal approximation with the correction for continuity; 1 for fewer than 5 values. A
    series that wanders slowly has fewer independent values than points: the variance of the score is
    multiplied by (1 + r) / (1 - r), where r is the correlation of neighbours about the best rise through them
    (after Hamed and Rao, 1998, who take correlations of all lags about a line: a smooth bent rise is not
    wandering).
    """
    count = len(values)
    if count < 5:
        return 1.0
    score = float(np.sign(values[None, :] - values[:, None])[np.triu_indices(count, 1)].sum())
    r = neighbours_alike(values - rising(values))
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18 * (1 + r) / (1 - r))
    return 0.5 * math.erfc((score - 1) / spread / math.sqrt(2))


def neighbours_alike(apart: Floats) -> float:
    """Return the correlation of neighbours, from 0 to 0.99, of values whose mean is 0."""
    square = float((apart * apart).sum())
    if square <= 0 or not math.isfinite(square):
        return 0.0
    return min(max(float((apart[1:] * apart[:-1]).sum()) / square, 0.0), 0.99)


def rising(values: Floats) -> Floats:
    """Return the nearest values, by least squares, of which none is below the one before it.

    By pooling neighbours that fall (Ayer et al., 1955).
    """
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, count = (before * number + mean * count) / (number + count), number + count
        pools.append((mean, count))
    return np.repeat([mean for mean, _ in pools], [count for _, count in pools])


def taken_back(values: Floats) -> float:
    """Return the largest rise that was followed by an equal fall; 0 if there was none."""
    rose = values - np.minimum.accumulate(values)
    fell = values - np.minimum.accumulate(values[::-1])[::-1]
    return float(np.minimum(rose, fell).max())


def last_better(values: Floats, share: float) -> int:
    """Return the index of the last value that is better than the best before it by more than a share."""
    best = 0
    for at, value in enumerate(values.tolist()):
        if value < values[best] - share * abs(values[best]):
            best = at
    return best


def trailing_median(values: Floats, size: int) -> Floats:
    """Return for each value from the ``size``-th on the median of the ``size`` values before it."""
    windows = np.lib.stride_tricks.sliding_window_view(values[:-1], size)
    middle = size // 2
    medians: Floats = np.partition(windows, middle, axis=1)[:, middle]
    return medians
