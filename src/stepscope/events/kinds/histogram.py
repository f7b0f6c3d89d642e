"""Histograms: rows of left edge, right edge and count; also the old-style message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import DataClass, Histogram, Metadata, Summary, Value
from stepscope.events.tensors import numbers, tensor
from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel
from stepscope.kernels import warn_if_uncompiled
from stepscope.text import counted

warn_if_uncompiled(kernel)

PLUGIN = "histograms"
BUCKETS = 30
"""TensorBoard's own default."""
FLOAT_MAX = float(np.finfo(np.float64).max)
_METADATA = b"\x4a" + length_prefixed(bytes(Metadata.of(PLUGIN, data_class=DataClass.TENSOR)))
"""Value.metadata of every histogram."""
Rows = NDArray[np.float64]
"""float64 [buckets, 3]: left edge, right edge, count. A bucket holds its left edge, the last one both."""


def value(tag: str, rows: Rows, *, description: str = "") -> Value:
    """Return the value that records a histogram."""
    return Value.of(tag, PLUGIN, tensor(np.asarray(rows, np.float64)), description=description)


def summary(tags: Sequence[str], counts: NDArray[np.int64], edges: NDArray[np.float64]) -> Summary:
    """Return the encoded summary of many histograms with the same edges, without empty ones.

    Each is the result of ``value`` for the span with counts, with each empty stretch in it as one row.

    Args:
        tags: Of each.
        counts: int64 [n, k].
        edges: float64 [k + 1], rising.
    """
    named = [b"\x0a" + length_prefixed(tag.encode("utf-8", "surrogateescape")) for tag in tags]
    ends = np.cumsum([len(tag) for tag in named], dtype=np.int32)
    # Between two buckets that count there is at most one empty stretch.
    rows = 2 * int(np.count_nonzero(counts))
    out = bytearray(24 * rows + len(named) * (64 + len(_METADATA)) + int(ends[-1] if len(ends) else 0))
    size = kernel.histograms(np.ascontiguousarray(counts), edges, b"".join(named), ends, _METADATA, out)
    return Summary(unknown=bytes(memoryview(out)[:size]))


def read(value: Value) -> Rows:
    """Return the rows of a histogram, whichever way it was written.

    Old-style ones lose the empty buckets at both ends, and their outer edges become the smallest and the
    largest value, as in TensorBoard.

    Raises:
        EventFileError: It is not a histogram.
    """
    if value.histo is not None:
        return from_old(value.histo)
    rows = numbers(value.tensor, "a histogram").astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise EventFileError(
            f"a histogram has rows of 3, found a tensor of shape {list(rows.shape)}", hint=UNUSUAL_SUMMARY
        )
    return rows


def sums(value: Value) -> tuple[float, float] | None:
    """Return the sum of a histogram's values and that of their squares; None of one that has no sums."""
    return None if value.histo is None else (value.histo.sum, value.histo.sum_squares)


def rows_of(values: NDArray[Any], buckets: int = BUCKETS) -> Rows:
    """Count finite values in buckets of one width between the smallest and the largest.

    TensorBoard's algorithm (tensorboard/plugins/histogram/summary_v2.py). Without values all is zero; if all
    are equal, all edges are that value and the last bucket counts.

    Args:
        values: Of any shape, all finite.
        buckets: How many.
    """
    flat = np.asarray(values).reshape(-1)
    rows = np.zeros((buckets, 3))
    if not flat.size or not buckets:
        return rows
    low, high = float(flat.min()), float(flat.max())
    if low == high:
        rows[:, :2], rows[-1, 2] = low, flat.size
        return rows
    if high / 2 - low / 2 > FLOAT_MAX / 2:  # the span itself is not a number
        rows = rows_of(flat / 4, buckets)
        rows[:, :2] *= 4
        return rows
    width = (high - low) / buckets or 5e-324
    counts = np.zeros(buckets, np.int64)
    for start in range(0, flat.size, 1 << 16):  # pieces stay in the cache
        piece = flat[start : start + (1 << 16)].astype(np.float64)
        place = np.minimum(((piece - low) / width).astype(np.int64), buckets - 1)
        counts += np.bincount(place, minlength=buckets)
    edges = np.minimum(low + np.arange(buckets + 1) * width, high)
    edges[-1] = high
    rows[:, 0], rows[:, 1], rows[:, 2] = edges[:-1], edges[1:], counts
    return rows


def from_old(histo: Histogram) -> Rows:
    """Return the rows of an old-style histogram."""
    limits, counts = np.array(histo.bucket_limit, np.float64), np.array(histo.bucket, np.float64)
    if len(limits) != len(counts):
        raise EventFileError(
            f"a histogram with {counted(len(limits), 'limit')} and {counted(len(counts), 'count')}",
            hint=UNUSUAL_SUMMARY,
        )
    used = np.flatnonzero(counts > 0)
    if not used.size:
        return np.zeros((0, 3))
    first, last = int(used[0]), int(used[-1])
    lefts = np.concatenate([[-np.inf], limits[:-1]])[first : last + 1]
    rights, counts = limits[first : last + 1].copy(), counts[first : last + 1]
    lefts[0] = max(lefts[0], histo.min)
    rights[-1] = min(rights[-1], histo.max)
    return np.stack([lefts, rights, counts], axis=1)
