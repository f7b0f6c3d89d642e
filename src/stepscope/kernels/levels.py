# cython: boundscheck=False, wraparound=False
"""Lay the events of a lane out on levels, on each of which two events nest or lie apart."""

from __future__ import annotations

import cython


def lay_out(
    lane: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    top: cython.int[::1],
    level: cython.int[::1],
    parent: cython.int[::1],
) -> None:
    """Put each event on the first level where it nests.

    Args:
        lane: Ascending.
        start: Ascending within a lane, the longest first among equals.
        end: Of each.
        top: Scratch, one entry per level that there may be.
        level: Filled; -1 for an event that nests on none of the levels.
        parent: Filled with the innermost event of the same level around each, -1 for none.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    at: cython.int
    used: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(lane.shape[0]):
            if i == 0 or lane[i] != lane[i - 1]:
                used = 0
            level[i] = -1
            parent[i] = -1
            for k in range(top.shape[0]):
                if k == used:
                    used += 1
                    top[k] = -1
                at = top[k]
                while at >= 0 and end[at] <= start[i]:
                    at = parent[at]
                top[k] = at
                if at < 0 or end[i] <= end[at]:
                    parent[i] = at
                    level[i] = cython.cast(cython.int, k)
                    top[k] = cython.cast(cython.int, i)
                    break
