"""The packed statistics of many tensors: one row each, made so that the rows of parts add up.

A row has sums, which add up over ranks, and maxima, of which the largest counts; the least value is kept as
the maximum of the negated ones. All ranks together need one SUM and one MAX however many tensors there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stepscope.events.kinds.histogram import summary
from stepscope.events.messages import Event
from stepscope.kernels import moments
from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, EDGES

if TYPE_CHECKING:
    from stepscope.record.run import Run

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SUMS = ("count", "sum", "squares", "zeros", "nonfinite")
MAXIMA = ("most", "negated_least")
COUNT, SUM, SQUARES, ZEROS, NONFINITE, LEAST, MOST = range(7)
"""Columns of a table's ``moments``, which are those of the kernel."""


class StatisticsTable:
    """Rows of moments, and of bucket counts where a histogram is wanted.

    Args:
        rows: How many.
        histograms: Whether to count buckets.

    Attributes:
        moments: float64 [rows, 7]: count, sum, sum of squares, zeros, non-finite, least, most.
        counts: int64 [rows, BUCKETS + 1], the last column for what is not finite; [0, 0] without histograms.
    """

    def __init__(self, rows: int, *, histograms: bool = False) -> None:
        self.moments: Array = np.zeros((rows, len(moments.COLUMNS)))
        self.moments[:, LEAST], self.moments[:, MOST] = np.inf, -np.inf
        self.counts: Counts = np.zeros((rows, BUCKETS + 1) if histograms else (0, 0), np.int64)

    def __len__(self) -> int:
        return len(self.moments)

    def add(self, row: int, values: npt.NDArray[np.generic]) -> None:
        """Add numbers to a row.

        Args:
            row: Its number.
            values: Floats of any shape; uint16 stands for the bits of bfloat16.
        """
        kind = "bf16" if values.dtype == np.uint16 else f"f{values.dtype.itemsize}"
        values = np.ascontiguousarray(values)
        columns = ([values.ctypes.data], [values.size], [moments.TYPES.index(kind)], [row])
        self.add_parts(*(np.array(column, np.int64) for column in columns))

    def add_parts(
        self, addresses: Counts, sizes: Counts, types: Counts, rows: Counts, *, squares_only: bool = False
    ) -> None:
        """Add parts of memory to rows: see ``kernels.moments.add``."""
        counts = self.counts[:0] if squares_only else self.counts
        moments.add(addresses, sizes, types, rows, self.moments, counts, BUCKET_OF_KEY, squares_only)

    def add_zeros(self, row: int, number: int) -> None:
        """Add the zeros of a sparse tensor, which are not stored."""
        if number:
            self.moments[row, [COUNT, ZEROS]] += number
            self.moments[row, LEAST] = min(self.moments[row, LEAST], 0.0)
            self.moments[row, MOST] = max(self.moments[row, MOST], 0.0)
            if len(self.counts):
                self.counts[row, BUCKETS // 2] += number

    def merge(self, other: StatisticsTable) -> None:
        """Add another table of the same rows."""
        self.add_rows(np.arange(len(self)), other.moments, other.counts)

    def add_rows(self, rows: Counts, moments: Array, counts: Counts) -> None:
        """Add moments, and counts unless there are none, to rows, each named once."""
        self.moments[rows, :LEAST] += moments[:, :LEAST]
        self.moments[rows, LEAST] = np.minimum(self.moments[rows, LEAST], moments[:, LEAST])
        self.moments[rows, MOST] = np.maximum(self.moments[rows, MOST], moments[:, MOST])
        if len(self.counts) and len(counts):
            self.counts[rows] += counts

    def packed(self) -> tuple[Array, Array]:
        """Return what ranks exchange: sums [rows * 5] and maxima [rows * 2]."""
        maxima = np.stack([self.moments[:, MOST], -self.moments[:, LEAST]], 1)
        return self.moments[:, :LEAST].ravel(), maxima.ravel()

    def unpack(self, sums: Array, maxima: Array) -> None:
        """Replace the rows by the result over all ranks."""
        self.moments[:, :LEAST] = sums.reshape(-1, len(SUMS))
        pairs = maxima.reshape(-1, len(MAXIMA))
        self.moments[:, MOST], self.moments[:, LEAST] = pairs[:, 0], -pairs[:, 1]


STATISTICS = ("norm", "mean", "std", "min", "max", "zero_ratio", "nonfinite_count")


def finish(moments: Array) -> Mapping[str, Array]:
    """Return each statistic of each row; NaN for all of a row of nothing.

    - ``norm``: square root of the sum of squares.
    - ``mean``: sum / count.
    - ``std``: of the population, sqrt(sum of squares / count - mean**2).
    - ``zero_ratio``: zeros / count.

    Args:
        moments: float64 [rows, 7], the columns of ``StatisticsTable``.
    """
    with np.errstate(all="ignore"):
        empty = moments[:, COUNT] == 0
        count = np.where(empty, np.nan, moments[:, COUNT])
        mean = moments[:, SUM] / count
        variance = moments[:, SQUARES] / count - mean * mean
        return {
            "norm": np.where(empty, np.nan, np.sqrt(moments[:, SQUARES])),
            "mean": mean,
            "std": np.sqrt(np.maximum(variance, 0.0)),
            "min": np.where(np.isinf(moments[:, LEAST]) & (moments[:, LEAST] > 0), np.nan, moments[:, LEAST]),
            "max": np.where(np.isinf(moments[:, MOST]) & (moments[:, MOST] < 0), np.nan, moments[:, MOST]),
            "zero_ratio": moments[:, ZEROS] / count,
            "nonfinite_count": np.where(empty, np.nan, moments[:, NONFINITE]),
        }


def noise_scale(local: float, reduced: float, ranks: int) -> tuple[float, float]:
    """Return unbiased estimates of the gradient's variance and of its squared norm, per rank's batch.

    With the batch of one rank as unit, the small batch is 1 and the large one is ``ranks``; the simple noise
    scale is the ratio of running means of both. Source: McCandlish et al., "An Empirical Model of Large-Batch
    Training", 2018, appendix A.1.

    Args:
        local: Squared norm of a rank's own gradient, mean over the ranks.
        reduced: Squared norm of the mean of the ranks' gradients.
        ranks: How many.

    Returns:
        S, the trace of the covariance, and |G|^2.
    """
    squared = (ranks * reduced - local) / (ranks - 1)
    trace = (local - reduced) / (1 - 1 / ranks)
    return trace, squared


MOST_KEPT = 64
"""Lists of tags kept; there are more where layers rotate or models change."""


class StatisticsWriter:
    """Records statistics of named tensors in a run.

    Args:
        run: The run.
        stats: Which statistics.
    """

    def __init__(self, run: Run, stats: Sequence[str]) -> None:
        self.run, self.stats = run, tuple(stats)
        self._tags: dict[tuple[str, tuple[str, ...]], list[list[str]]] = {}

    def rows(self, prefix: str, names: Sequence[str], moments: Array, step: int) -> Mapping[str, Array]:
        """Record each statistic of each row that is not empty, as ``prefix/name/statistic``.

        Returns:
            All statistics, by name.
        """
        found = finish(moments)
        stats = [found[stat] for stat in self.stats if stat in found]
        if stats:
            tags, there = self._tags_of(prefix, tuple(names)), np.flatnonzero(moments[:, COUNT])
            wanted = chain.from_iterable(tags[row] for row in there.tolist())
            self.numbers(dict(zip(wanted, np.stack(stats, 1)[there].ravel().tolist(), strict=True)), step)
        return found

    def _tags_of(self, prefix: str, names: tuple[str, ...]) -> list[list[str]]:
        """Return the tags of each row, made once: they are the same at each sample."""
        found = self._tags.get((prefix, names))
        if found is None:
            if len(self._tags) >= MOST_KEPT:
                self._tags.clear()
            stats = [stat for stat in self.stats if stat in STATISTICS]
            found = [[f"{prefix}/{name}/{stat}" for stat in stats] for name in names]
            self._tags[prefix, names] = found
        return found

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Record single numbers."""
        if numbers:
            self.run.scalars(numbers, step)

    def histograms(self, prefix: str, names: Sequence[str], counts: Counts, step: int) -> None:
        """Record the histogram of each row that is not empty, as ``prefix/name/histogram``."""
        if not len(counts) or "histogram" not in self.stats:
            return

        def make() -> Event | None:
            found = summary([f"{prefix}/{name}/histogram" for name in names], counts, EDGES)
            return Event(summary=found) if found.unknown else None

        self.run.event(make, step, nbytes=counts.nbytes, tag=f"{prefix}/histogram")


def total_norm(moments: Array) -> float:
    """Return the norm of all rows together; NaN if nothing was counted."""
    if not moments[:, COUNT].any():
        return float("nan")
    return float(np.sqrt(moments[:, SQUARES].sum()))
