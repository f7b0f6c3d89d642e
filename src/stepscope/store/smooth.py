"""Smoothed values of whole series, kept while they are being looked at; and how much each series is smoothed.

A weight holds for a distance in steps, not for a point: of curves that are recorded at different intervals,
those that are the same are drawn the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.kernels import smooth as kernel
from stepscope.lru import Lru
from stepscope.store.points import SeriesPoints
from stepscope.store.series import Series

if TYPE_CHECKING:
    from stepscope.store.run import StoredRun

EVALUATIONS = ("eval", "test")
SEEN = 100
"""Points that are told apart on a chart: of a series with fewer, each is worth more than an average."""
AS_RECORDED = 5e-4
"""A point that keeps less of the one before reads as it was recorded, in three digits."""


class Smoothed(NamedTuple):
    """The average of a beginning of a series, and how to go on."""

    average: NDArray[np.float32]
    state: NDArray[np.float64]
    constant: bool


_known: Lru[tuple[int, float, float], Smoothed] = Lru(256 << 20, lambda smoothed: smoothed.average.nbytes)


def smoothed(points: SeriesPoints, weight: float) -> NDArray[np.floating[Any]]:
    """Return the exponential average at every point, in recorded order.

    As in TensorBoard a series of one constant value stays as it is, and non-finite values pass through. With
    equal distances between points the result is TensorBoard's.

    Args:
        points: The series of one attempt.
        weight: What the values before keep over the mean distance of two points in steps; 0 <= weight < 1.
    """
    value = points.columns.value
    distance = mean_distance(points)
    key = (points.serial, weight, distance)
    known = _known.get(key)
    if known is None or len(known.average) != len(value):
        known = extended(known, points, weight, distance)
        _known.put(key, known)
    return value if known.constant else known.average


def mean_distance(points: SeriesPoints) -> float:
    """Return the mean distance of two points in steps, to two digits: it stays while a series grows."""
    facts = points.facts
    distance = (facts.max_step - facts.min_step) / max(1, points.count - 1)
    return float(f"{distance:.2g}") if facts.step_sorted else 0.0


def extended(known: Smoothed | None, points: SeriesPoints, weight: float, distance: float) -> Smoothed:
    """Return the average of all values, given that of their beginning."""
    value, step = points.columns.value, points.columns.step
    if known is None or len(known.average) > len(value):
        known = Smoothed(np.empty(0, np.float32), np.zeros(2), True)
    done = len(known.average)
    decay = np.full(len(value) - done, weight)
    if distance:
        # Of a step that is recorded twice the average is taken: nothing has aged in between.
        apart = np.diff(step[max(0, done - 1) :].astype(np.float64), prepend=[] if done else [0.0])
        np.power(weight, apart / distance, out=decay)
    average = np.empty(len(value), np.float32)
    average[:done] = known.average
    state = known.state.copy()
    kernel.average(value[done:], decay, state, average[done:])
    return Smoothed(average, state, known.constant and bool((value[done:] == value[0]).all()))


def weights_of(series: Sequence[Series], runs: Iterable[StoredRun], weight: float) -> list[float]:
    """Return the weight by which each series of a chart is smoothed; 0: drawn as recorded.

    ``weight`` holds for the distance between two points of the training loss of a run, or of its densest
    series if it has none: a series with a twentieth of the points keeps the twentieth power of it. That
    distance counts as a hundredth of the run's steps at most, so that a sparse loss is drawn as recorded.
    Evaluations are drawn as recorded, and so is all beside them in a chart that is recorded no more often.

    Args:
        series: The series of a chart.
        runs: The runs that they are of.
        weight: As requested, 0 <= weight < 1.
    """
    if not weight:
        return [0.0] * len(series)
    runs = list(runs)
    whole = {run.name: run.whole.name for run in runs}
    usual = {run.name: max(SEEN, run.whole.usual_points) for run in runs}
    points: Counter[tuple[str, str]] = Counter()
    for column in series:
        points[column.run, column.tag] += len(column)
    fewest: dict[str, int] = {}
    for column in series:
        if column.split in EVALUATIONS:
            family = whole[column.run]
            fewest[family] = max(fewest.get(family, 0), points[column.run, column.tag])

    def weight_of(one: Series) -> float:
        count = points[one.run, one.tag]
        if one.split in EVALUATIONS or count <= fewest.get(whole[one.run], 0):
            return 0.0
        own = float(weight ** float(f"{usual[one.run] / count:.2g}"))
        return own if own > AS_RECORDED else 0.0

    return [weight_of(column) for column in series]
