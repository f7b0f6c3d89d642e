"""Minimum, maximum and non-finite count of every 16, 256, 4096 … points, for far views.

Only complete blocks exist, so growth never changes a block. The rest of a bucket is read from the level
below, down to the values: the answer is exactly that of reading every value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.kernels import bucket, warn_if_uncompiled

warn_if_uncompiled(bucket)
BIG = 1 << 16
"""Shorter series have no pyramid: reading all of their points takes less than 0.1 ms."""
WORTH = 4 * 16
"""Points per bucket from which the pyramid saves more than it costs."""
FAN = bucket.FAN
NO_COUNTS = np.empty(0, np.uint32)


class Level(NamedTuple):
    """Blocks of one size; low is infinity and high minus infinity if no value is finite."""

    low: NDArray[np.floating[Any]]
    high: NDArray[np.floating[Any]]
    nonfinite: NDArray[np.uint32]


Levels = tuple[Level, ...]


def extended(levels: Levels, value: NDArray[np.floating[Any]]) -> Levels:
    """Return the pyramid of all values, given that of their beginning."""
    below = Level(value, value, NO_COUNTS)
    grown: list[Level] = []
    size = len(value) // FAN
    while size >= FAN:
        known = levels[len(grown)] if len(grown) < len(levels) else None
        start = len(known.low) if known and known.low.dtype == value.dtype else 0
        level = Level(np.empty(size, value.dtype), np.empty(size, value.dtype), np.empty(size, np.uint32))
        if known:
            for column, old in zip(level, known, strict=True):
                column[:start] = old[:start]
        bucket.raise_level(*below, start, *level)
        grown.append(level)
        below, size = level, size // FAN
    return tuple(grown)


def reduce(
    levels: Levels,
    value: NDArray[np.floating[Any]],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    low: NDArray[np.floating[Any]],
    high: NDArray[np.floating[Any]],
    nonfinite: NDArray[np.uint32],
) -> None:
    """Fill minimum, maximum and non-finite count of the values at ``lo[b] … hi[b] - 1`` of every bucket b."""
    lo, hi = lo.copy(), hi.copy()
    bucket.climb(value, value, NO_COUNTS, lo, hi, not levels, low, high, nonfinite)
    for number, level in enumerate(levels, 1):
        bucket.climb(*level, lo, hi, number == len(levels), low, high, nonfinite)
