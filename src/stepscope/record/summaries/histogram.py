"""Histograms: of raw values in buckets of one width or in the fixed buckets, or of counts that are known."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import histogram
from stepscope.events.messages import Value
from stepscope.record.problems import RefusalError, shown
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.summary_encoder import Prepared, refused

Buckets = int | Literal["fixed"]
MAX_BUCKETS = 10_000
NONFINITE = "/nonfinite"
"""A second series, there only where a histogram left out NaN or infinite values: how many."""


def prepare(values: Any, buckets: Buckets, description: str = "") -> Prepared:
    """Return the histogram of some values.

    Raises:
        RefusalError: There are none, or they are no real numbers.
    """
    checked_buckets(buckets)
    held = snapshot(values, "an array of numbers")
    if not held.size:
        raise refused(f"an empty array of shape {held.shape}", "log nothing where there are no values")

    def make(tag: str) -> list[Value]:
        finite, nonfinite = split_finite(held)
        rows = rows_of(finite, buckets)
        found = [histogram.value(tag, rows, description=description)]
        return found if not nonfinite else [*found, Value(tag + NONFINITE, simple_value=float(nonfinite))]

    return Prepared(make, held.nbytes)


def rows_of(values: NDArray[Any], buckets: Buckets) -> NDArray[np.float64]:
    """Return left edge, right edge and count of each bucket."""
    if buckets == "fixed":
        from stepscope.record import edges

        return np.asarray(edges.rows(edges.counts(values)), np.float64)
    return histogram.rows_of(values, int(buckets))


def split_finite(held: Snapshot) -> tuple[NDArray[Any], int]:
    """Return the finite values, and the number of the others.

    Raises:
        RefusalError: None is finite, or they are complex.
    """
    values = held.fetch().reshape(-1)
    if values.dtype.kind == "c":
        raise refused("complex numbers", "log their abs(), real or imag")
    if values.dtype.kind == "b":
        return values.astype(np.uint8), 0
    if values.dtype.kind != "f":
        return values, 0
    if np.isfinite(values.min()) and np.isfinite(values.max()):  # no mask where none is needed
        return values, 0
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise RefusalError(
            "nonfinite", f"all {values.size} values are NaN or infinite", "find where they come from"
        )
    return finite, values.size - finite.size


def checked_buckets(buckets: object) -> None:
    """Check how many buckets are asked for."""
    whole = isinstance(buckets, int) and not isinstance(buckets, bool) and 1 <= buckets <= MAX_BUCKETS
    if buckets != "fixed" and not whole:
        raise refused(f"buckets={shown(buckets)}", f"an integer from 1 to {MAX_BUCKETS}, or 'fixed'")


def prepare_counts(counts: Any, edges: Any, description: str = "") -> Prepared:
    """Return the histogram of counts that the caller has.

    Args:
        counts: One per bucket.
        edges: One more: where each begins, and where the last one ends.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    counted, limits = snapshot(counts, "counts"), snapshot(edges, "edges")
    if len(counted.shape) != 1 or len(limits.shape) != 1 or limits.size != counted.size + 1:
        raise refused(
            f"{counted.shape} counts and {limits.shape} edges", "pass one edge more than there are counts"
        )

    def make(tag: str) -> list[Value]:
        number, limit = counted.fetch().astype(np.float64), limits.fetch().astype(np.float64)
        if not (np.isfinite(number).all() and (number >= 0).all()):
            raise refused("counts that are negative or not finite", "count values")
        if not np.isfinite(limit).all() or (np.diff(limit) < 0).any():
            raise refused("edges that do not ascend or are not finite", "sort them")
        return [histogram.value(tag, np.stack([limit[:-1], limit[1:], number], 1), description=description)]

    return Prepared(make, counted.nbytes + limits.nbytes)
