"""The last values and steps of a series, and robust statistics of values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
SORTED = 64
"""Values up to which sorting takes less time than to look for those in the middle."""


class Ring:
    """The last ``size`` values, or steps, of a series.

    Args:
        size: Of the ring.
        kind: Of its numbers; a float holds no step beyond 2^53 exactly.

    Attributes:
        count: Numbers taken so far.
    """

    def __init__(self, size: int, kind: type[np.generic] = np.float64) -> None:
        self._room: NDArray[Any] = np.empty(2 * size, kind)
        self._size, self._end = size, 0
        self.count = 0

    def push(self, values: NDArray[Any]) -> None:
        """Take numbers, oldest first."""
        self.count += len(values)
        values = values[-self._size :]
        if self._end + len(values) > len(self._room):
            length = min(self._size, self._end)
            self._room[:length] = self._room[self._end - length : self._end]
            self._end = length
        self._room[self._end : self._end + len(values)] = values
        self._end += len(values)

    @property
    def values(self) -> NDArray[Any]:
        """The numbers, oldest first."""
        return self._room[max(0, self._end - self._size) : self._end]


def median(values: NDArray[Any] | Sequence[float]) -> float:
    """Return the median; NaN if there is no value, or one that is NaN.

    Numpy's own loads masked arrays, 16 ms, and takes four times as long for few values.
    """
    count, middle = len(values), len(values) // 2
    if not count:
        return math.nan
    places = [middle - 1 + count % 2, middle, count - 1]
    ordered = np.sort(values) if count <= SORTED else np.partition(values, places)
    if ordered[-1] != ordered[-1]:  # NaN are sorted to the end
        return math.nan
    return float(ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def upper_median(values: Floats) -> float:
    """Return the median of at least one value, of an even number the greater one of the two in the middle."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def spread(values: Floats, center: float) -> float:
    """Return the standard deviation that corresponds to the median distance from the center."""
    return MAD_TO_SIGMA * upper_median(np.abs(values - center))


def pieces(count: int, length: int, every: int) -> Iterator[slice]:
    """Cut the next ``length`` values where the number of all values is a multiple of ``every``.

    So results at the cuts do not depend on the portions that values come in.

    Args:
        count: Values before these.
        length: Of these.
        every: Distance of the cuts.
    """
    begin = 0
    while begin < length:
        end = min(length, begin + every - (count + begin) % every)
        yield slice(begin, end)
        begin = end
