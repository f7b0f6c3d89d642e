"""Group rows by an integer key, keeping their order: a counting sort in two steps."""

from __future__ import annotations

import cython

Integer = cython.fused_type(cython.int, cython.uint, cython.longlong)
Real = cython.fused_type(cython.float, cython.double)


def slots(key: cython.const[cython.uint][::1], ends: cython.longlong[::1], slot: cython.uint[::1]) -> None:
    """Find the place of each row.

    Args:
        key: Key of each row, less than the length of ``ends``.
        ends: Filled with the place after the last row of each key.
        slot: Filled with the place of each row.
    """
    i: cython.Py_ssize_t
    total: cython.longlong = 0
    rows: cython.longlong
    with cython.nogil:
        for i in range(ends.shape[0]):
            ends[i] = 0
        for i in range(key.shape[0]):
            ends[key[i]] += 1
        for i in range(ends.shape[0]):
            rows = ends[i]
            ends[i] = total
            total += rows
        for i in range(key.shape[0]):
            slot[i] = ends[key[i]]
            ends[key[i]] += 1


def scatter_integers(
    source: cython.const[cython.longlong][::1], slot: cython.const[cython.uint][::1], target: Integer[::1]
) -> None:
    """Put each row of a column into its place, as an integer of the target's type, in which it must fit."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(slot.shape[0]):
            target[slot[i]] = source[i]


def scatter_reals(
    source: cython.const[cython.double][::1], slot: cython.const[cython.uint][::1], target: Real[::1]
) -> None:
    """Put each row of a column into its place, rounded to the target's type."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(slot.shape[0]):
            target[slot[i]] = source[i]
