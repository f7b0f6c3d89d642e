"""Bucket edges: whole multiples of a width from a ladder of 4, 5, 6 or 7 times a power of two.

Every edge is then exact in floating point and steps are split between whole numbers only. Hardly more than a
fifth of the requested buckets are lost; at worst half of them, if buckets hold one to three steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """Buckets of one width.

    Bucket b holds ``starts[b] <= x < starts[b + 1]``, the last ``starts[-1] <= x <= top``.

    Attributes:
        starts: int64 for whole numbers, else float64.
        middles: Middle of the whole numbers in each bucket, or of its range.
    """

    starts: Array
    top: Any
    middles: NDArray[np.float64]

    def spans(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for every bucket the positions of its points in an ascending column, begin and end."""
        starts = self.starts
        if x.dtype == np.int32:  # search it as it is: a conversion would read all of it
            limits = np.iinfo(np.int32)
            lo = np.searchsorted(x, np.clip(starts, limits.min, limits.max).astype(np.int32)).astype(np.int64)
            lo[starts > limits.max] = len(x)
        else:
            lo = np.searchsorted(x, starts).astype(np.int64)
        return lo, np.append(lo[1:], place(x, self.top, "right"))


def place(x: Array, at: float, side: Literal["left", "right"]) -> int:
    """Return how many elements of an ascending column are below ``at``; with "right", not above it."""
    if x.dtype.kind == "f":
        return int(np.searchsorted(x, at, side))
    limits = np.iinfo(x.dtype)
    whole = math.ceil(at) if side == "left" else math.floor(at)
    if whole > limits.max:
        return len(x)
    return int(np.searchsorted(x, x.dtype.type(whole), side)) if whole >= limits.min else 0


def whole_grid(begin: float, end: float, buckets: int) -> Grid:
    """Return a grid over integers from begin to end with at most the given number of buckets."""
    low, high = math.floor(begin), math.floor(end)
    if buckets == 1:  # multiples of whatever width part a range around 0
        return Grid(np.array([low], np.int64), high, np.array([(low + high) / 2]))
    width = next(
        width for width in whole_widths((high - low) // buckets) if high // width - low // width < buckets
    )
    numbers = range(low // width, high // width + 1)
    starts = np.array([max(number * width, -(2**63)) for number in numbers], np.int64)
    middles = np.array([number * width + (width - 1) / 2 for number in numbers], np.float64)
    return Grid(starts, min((high // width + 1) * width - 1, 2**63 - 1), middles)


def whole_widths(least: int) -> Any:
    """Yield the widths of the ladder from one at or a little below ``least`` on."""
    shift = max(0, least.bit_length() - 3)
    yield from (width for width in (1, 2, 3) if shift == 0)
    while True:
        yield from (mantissa << shift for mantissa in (4, 5, 6, 7))
        shift += 1


def real_grid(begin: float, end: float, buckets: int) -> Grid:
    """Return a grid over a range of real numbers with at most the given number of buckets."""
    if buckets == 1:
        return Grid(np.array([begin]), end, np.array([begin + (end - begin) / 2]))
    # Multiples of 2**shift are exact up to the end only where that is no less than its last digit.
    finest = math.frexp(math.ulp(2 * max(abs(begin), abs(end))))[1] - 1
    shift = max(math.frexp((end - begin) / buckets)[1] - 4, finest)
    while True:
        for mantissa in (4, 5, 6, 7):
            width = math.ldexp(mantissa, shift)
            first, last = math.floor(begin / width), math.floor(end / width)
            if last - first < buckets:
                numbers = np.arange(first, last + 2, dtype=np.float64)
                edges = numbers * width
                edges[0] = min(edges[0], begin)  # begin / width underflows next to 0
                return Grid(edges[:-1], np.nextafter(edges[-1], -np.inf), edges[:-1] + width / 2)
        shift += 1
