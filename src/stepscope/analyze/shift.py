"""A lasting change of level in a series: since when, and by how much.

Pettitt's test (1979) finds the division of a series into before and after whose ranks differ most, whatever
the distribution of its values; its p is the approximation 2 exp(-6 K² / (n³ + n²)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.rank_test import LEVEL, doubled_ranks

LEAST = 8
"""Values below which no division has a p under :data:`LEVEL`, by the approximation."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level.

    Attributes:
        row: The first value after it.
        before: Median of the values before it.
        after: Median from it on.
        p_value: How often a series without a change differs as clearly.
    """

    row: int
    before: float
    after: float
    p_value: float


def shift(values: npt.NDArray[Any], *, row: int | None = None) -> Shift | None:
    """Return the clearest change of level; None if there is none beyond chance.

    Args:
        values: In their order; finite.
        row: Divide here, and return the medians whatever the test says.
    """
    count = len(values)
    if row is not None:
        if not 0 < row < count:
            return None
        return Shift(row, float(np.median(values[:row])), float(np.median(values[row:])), _p(values, row))
    if count < LEAST:
        return None
    u = _divisions(values)
    at = int(np.abs(u).argmax())
    p_value = _of(abs(float(u[at])), count)
    if p_value > LEVEL:
        return None
    return Shift(at + 1, float(np.median(values[: at + 1])), float(np.median(values[at + 1 :])), p_value)


def _divisions(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return U of each division after the first value, the second and so on: 2 Σ ranks - t (n + 1)."""
    t = np.arange(1, len(values))
    return np.cumsum(doubled_ranks(values))[:-1] - t * float(len(values) + 1)


def _of(k: float, count: int) -> float:
    return min(1.0, 2 * math.exp(-6 * k * k / (count**3 + count**2)))


def _p(values: npt.NDArray[Any], row: int) -> float:
    return _of(abs(float(_divisions(values)[row - 1])), len(values))
