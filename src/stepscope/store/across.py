"""Another tag as the x axis: loss over tokens, accuracy over epochs.

A point's x is the other tag's value at its step: exactly there if it was recorded at that step, otherwise on
the straight line between the steps around it. A point before the other tag's first step or after its last has
no place; both kinds are counted, so that a chart can say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.store.evaluate import column_of
from stepscope.store.series import Series


@dataclass(frozen=True, slots=True)
class Across:
    """The x values of a series' points, in recorded order.

    Attributes:
        x: NaN for points without a place.
        ascending: Whether it never falls and is always finite.
        interpolated: Points that lie between two recorded x.
        missing: Points without a place.
    """

    x: NDArray[np.float64]
    ascending: bool
    interpolated: int
    missing: int


def across(series: Series, other: list[Series]) -> Across:
    """Place a series' points on another tag's values.

    Args:
        series: The series whose points are placed.
        other: The series of the other tag; empty if the run does not have it.
    """
    step = series.points.columns.step
    column = column_of(belonging(series, other))
    finite = np.isfinite(column.value)
    steps, values = column.step[finite], column.value[finite]
    if not len(steps):
        return Across(np.full(len(step), np.nan), False, 0, len(step))
    x = np.interp(step, steps, values, left=np.nan, right=np.nan)
    at = np.minimum(np.searchsorted(steps, step), len(steps) - 1)
    placed = ~np.isnan(x)
    exact = int(np.count_nonzero(steps[at] == step))
    present = int(np.count_nonzero(placed))
    ascending = present == len(x) and bool((x[1:] >= x[:-1]).all())
    return Across(x, ascending, present - exact, len(x) - present)


def belonging(series: Series, other: list[Series]) -> list[Series]:
    """Return those of another tag's series that cover the same steps.

    These are the series of the same writer and attempt, or else all of one writer.
    """
    own = [line for line in other if line.writer == series.writer and line.attempt == series.attempt]
    return own or [line for line in other if line.writer == other[0].writer]
