"""The one set of histogram edges, the same for every tensor, step, rank, run and framework.

A bucket is known from a float32's sign, exponent and its two highest mantissa bits, so finding it is one
shift, and every power of two has four buckets of equal width. As nothing depends on the data, histograms of
parts add up, bucket by bucket and exactly, to the histogram of the whole: over shards, ranks and steps.

Numbers below 2**-64 in size, zero among them, share the middle bucket; those from 2**64 up the outermost
ones. Infinities and NaN are in no bucket and are counted separately. A bucket includes its edge nearest to
zero, but not the other one. The scheme is that of an exponent histogram, a DDSketch (Masson et al., VLDB
2019) of base 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.kernels import moments, warn_if_uncompiled

warn_if_uncompiled(moments)

MANTISSA_BITS = 2
LOWEST_EXPONENT, HIGHEST_EXPONENT = -64, 64
KEYS = 1 << (9 + MANTISSA_BITS)
"""How many values the top bits of a float32 take: sign, exponent and two bits of mantissa."""
SHIFT = 32 - (9 + MANTISSA_BITS)
"""Number of bits by which a float32's bits are shifted right to get its key."""

_SIGNED = KEYS // 2
_PER_OCTAVE = 1 << MANTISSA_BITS
_FIRST = (127 + LOWEST_EXPONENT) * _PER_OCTAVE
_LAST = (127 + HIGHEST_EXPONENT) * _PER_OCTAVE
_FINITE = 255 * _PER_OCTAVE
SIDE = _LAST - _FIRST + 1
"""Buckets on one side of the middle one."""
BUCKETS = 2 * SIDE + 1


def _edges() -> npt.NDArray[np.float64]:
    octaves = np.ldexp(1.0, np.arange(LOWEST_EXPONENT, HIGHEST_EXPONENT))
    side = (octaves[:, None] * (1 + np.arange(_PER_OCTAVE) / _PER_OCTAVE)).ravel()
    side = np.concatenate([side, np.ldexp(1.0, [HIGHEST_EXPONENT, 128])])
    return np.concatenate([-side[::-1], side])


def _buckets() -> npt.NDArray[np.int64]:
    size = np.clip(np.arange(_SIGNED), _FIRST - 1, _LAST) - _FIRST + 1
    starts = np.concatenate([SIDE + size, SIDE - size])
    starts[_FINITE:_SIGNED] = starts[_SIGNED + _FINITE :] = BUCKETS
    return starts


EDGES = _edges()
"""The edges, float64 [BUCKETS + 1], rising; the outermost are -2**128 and 2**128."""
BUCKET_OF_KEY = _buckets()
"""The bucket of each key; BUCKETS for the keys of infinities and NaN."""
EDGES.flags.writeable = BUCKET_OF_KEY.flags.writeable = False


def fold(keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return counts by bucket from counts by key, leaving out non-finite values.

    Args:
        keys: Counts [..., KEYS].
    """
    folded = np.zeros((*keys.shape[:-1], BUCKETS + 1), np.int64)
    np.add.at(np.moveaxis(folded, -1, 0), BUCKET_OF_KEY, np.moveaxis(keys, -1, 0))
    return folded[..., :BUCKETS]


def counts(values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Count the finite values by bucket, as float32 unless they are too large for one.

    Args:
        values: Real numbers of any shape and type.

    Returns:
        int64 [BUCKETS]; its sum is the number of finite values.
    """
    given = np.ascontiguousarray(values).ravel()
    if given.dtype.kind != "f" or given.dtype.itemsize > 8 or not given.dtype.isnative:
        given = given.astype(np.float64)
    numbers = np.zeros((1, BUCKETS + 1), np.int64)
    one = np.zeros(1, np.int64)
    room = np.zeros((1, len(moments.COLUMNS)))
    kind = moments.TYPES.index(f"f{given.dtype.itemsize}")
    moments.add(one + given.ctypes.data, one + given.size, one + kind, one, room, numbers, BUCKET_OF_KEY)
    return numbers[0, :BUCKETS]


def rows(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Return a histogram as TensorBoard stores it: the span that holds values, empty stretches as one row.

    Args:
        counts: Counts [BUCKETS].

    Returns:
        float64 [k, 3]: left edge, right edge, count; k is 0 if nothing was counted.
    """
    filled = counts > 0
    if not filled.any():
        return np.zeros((0, 3))
    first, last = int(filled.argmax()), BUCKETS - int(filled[::-1].argmax())
    here = filled[first:last]
    # A row begins at each filled bucket and at the first of each empty stretch.
    begins = first + np.flatnonzero(here | np.concatenate([[True], here[:-1]]))
    ends = np.append(begins[1:], last)
    return np.column_stack([EDGES[begins], EDGES[ends], counts[begins].astype(np.float64)])
