"""The packed statistics of many tensors: one row each, made so that the rows of parts add up.

A row has sums, which add up over ranks, and maxima, of which the largest counts; the least value is kept as
the maximum of the negated ones. All ranks together need one SUM and one MAX however many tensors there are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.kernels import moments
from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

SUMS = ("count", "sum", "squares", "zeros", "nonfinite")
MAXIMA = ("most", "negated_least")
COUNT, SUM, SQUARES, ZEROS, NONFINITE, LEAST, MOST = range(7)
"""Columns of a table's ``moments``, which are those of the kernel."""


class Table:
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
        """Add zeros that no memory holds, those of a sparse tensor."""
        if number:
            self.moments[row, [COUNT, ZEROS]] += number
            self.moments[row, LEAST] = min(self.moments[row, LEAST], 0.0)
            self.moments[row, MOST] = max(self.moments[row, MOST], 0.0)
            if len(self.counts):
                self.counts[row, BUCKETS // 2] += number

    def merge(self, other: Table) -> None:
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
        """Take what the ranks' tables came to, in place of the rows."""
        self.moments[:, :LEAST] = sums.reshape(-1, len(SUMS))
        pairs = maxima.reshape(-1, len(MAXIMA))
        self.moments[:, MOST], self.moments[:, LEAST] = pairs[:, 0], -pairs[:, 1]
