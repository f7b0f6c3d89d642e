"""Moments and histogram of many tensors in one call, each read once from memory."""

from __future__ import annotations

from typing import Any

import cython

TYPES = ("f4", "bf16", "f2", "f8")
"""Element types by number."""
SIZES = (4, 2, 2, 8)
"""Bytes of an element by type."""
COLUMNS = ("count", "sum", "squares", "zeros", "nonfinite", "least", "most")
"""Columns that ``add`` fills for each row."""

if not cython.compiled:
    import ctypes

    import numpy as np

    def setup(plain: bool) -> bytes:
        return b"python"

    def number_at(out: Any, row: int) -> Any:
        return np.asarray(out)[row]

    def count_at(counts: Any, row: int) -> Any:
        return np.asarray(counts)[row] if len(counts) else None

    def table(numbers: Any) -> Any:
        return np.asarray(numbers)

    def part(
        address: int, n: int, kind: int, out: Any, counts: Any, buckets: Any, squares_only: bool
    ) -> None:
        if n == 0:
            return
        data = np.frombuffer((ctypes.c_char * int(n * SIZES[kind])).from_address(int(address)), np.uint8)
        if kind == 1:
            given = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            given = data.view(TYPES[kind])
        with np.errstate(all="ignore"):
            wide = given.astype(np.float64)
            narrow = given.astype(np.float32)
            large = np.isinf(narrow) & np.isfinite(given)
            narrow[large] = np.copysign(np.finfo(np.float32).max, wide[large])
            numbers = wide[~np.isnan(wide)]
            out[:5] += [n, wide.sum(), wide @ wide, (wide == 0).sum(), (~np.isfinite(wide)).sum()]
            out[5] = numbers.min(initial=out[5])
            out[6] = numbers.max(initial=out[6])
        if counts is not None:
            np.add.at(counts, buckets[narrow.view(np.uint32) >> 21], 1)


IMPLEMENTATION = setup(False).decode()
"""The loops in use: avx2, plain, or python where this module is not compiled."""


def choose(plain: bool) -> str:
    """Choose the loops for any processor, or the best ones for this; return their name."""
    return setup(plain).decode()


def add(
    addresses: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    types: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    out: cython.double[:, ::1],
    counts: cython.longlong[:, ::1],
    buckets: cython.const[cython.longlong][::1],
    squares_only: cython.bint = False,
) -> None:
    """Add the moments of parts of memory to the rows that they belong to.

    Sums are computed in float64. NaN counts neither as least nor as most; non-finite values show in sum and
    squares.

    Args:
        addresses: Where each part begins. The caller keeps the memory alive and unchanged meanwhile.
        sizes: Number of its elements, which are contiguous.
        types: Its element type, see ``TYPES``.
        rows: Its row of ``out`` and ``counts``.
        out: [rows, 7], see ``COLUMNS``; least and most begin as inf and -inf.
        counts: [rows, buckets] numbers by bucket; [0, 0] for no counting.
        buckets: [2048] the bucket of each key, which is the top 11 bits of a number as float32; finite ones
            that are too large for it count as its largest.
        squares_only: Whether only count, squares and nonfinite are wanted, which is faster.
    """
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(addresses.shape[0]):
            part(
                addresses[i],
                sizes[i],
                cython.cast(cython.int, types[i]),
                number_at(out, rows[i]),
                count_at(counts, rows[i]),
                table(buckets),
                squares_only,
            )
