"""Smoothed values of whole series, kept while they are being looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.kernels import smooth as kernel
from stepscope.lru import Lru
from stepscope.store.points import SeriesPoints


class Smoothed(NamedTuple):
    """The average of a beginning of a series, and how to go on."""

    average: NDArray[np.float32]
    state: NDArray[np.float64]
    constant: bool


_known: Lru[tuple[int, float], Smoothed] = Lru(256 << 20, lambda smoothed: smoothed.average.nbytes)


def smoothed(points: SeriesPoints, weight: float) -> NDArray[np.floating[Any]]:
    """Return the bias-corrected exponential average at every point, in recorded order.

    As in TensorBoard a series of one constant value stays as it is, and non-finite values pass through.

    Args:
        points: The series of one attempt.
        weight: 0 <= weight < 1.
    """
    value = points.columns.value
    key = (points.serial, weight)
    known = _known.get(key)
    if known is None or len(known.average) != len(value):
        known = extended(known, value, weight)
        _known.put(key, known)
    return value if known.constant else known.average


def extended(known: Smoothed | None, value: NDArray[np.floating[Any]], weight: float) -> Smoothed:
    """Return the average of all values, given that of their beginning."""
    if known is None or len(known.average) > len(value):
        known = Smoothed(np.empty(0, np.float32), np.array([0.0, 1.0]), True)
    done = len(known.average)
    average = np.empty(len(value), np.float32)
    average[:done] = known.average
    state = known.state.copy()
    kernel.average(value[done:], weight, state, average[done:])
    return Smoothed(average, state, known.constant and bool((value[done:] == value[0]).all()))
