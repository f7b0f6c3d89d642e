# cython: boundscheck=False, wraparound=False
"""Sets of intervals: half-open, in integer nanoseconds, sorted by start.

Each function fills the arrays that it is given, which have room for the worst case, and returns how many
entries it wrote.
"""

from __future__ import annotations

import cython


def merge(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Unite intervals that overlap or touch. Empty ones vanish.

    Args:
        start: Ascending.
        end: Of each.
        out_start: n entries.
        out_end: n entries.
    """
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(start.shape[0]):
            if end[i] <= start[i]:
                continue
            if n > 0 and start[i] <= out_end[n - 1]:
                if end[i] > out_end[n - 1]:
                    out_end[n - 1] = end[i]
            else:
                out_start[n] = start[i]
                out_end[n] = end[i]
                n += 1
    return n


def subtract(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    other_start: cython.const[cython.longlong][::1],
    other_end: cython.const[cython.longlong][::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Return the parts of one set of disjoint intervals that another does not cover.

    Args:
        start: n, ascending.
        end: Of each.
        other_start: m, ascending.
        other_end: Of each.
        out_start: n + m entries.
        out_end: n + m entries.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = 0
    m: cython.Py_ssize_t = other_start.shape[0]
    since: cython.longlong
    with cython.nogil:
        for i in range(start.shape[0]):
            since = start[i]
            while j < m and other_end[j] <= since:
                j += 1
            k = j
            while k < m and other_start[k] < end[i]:
                if other_start[k] > since:
                    out_start[n] = since
                    out_end[n] = other_start[k]
                    n += 1
                if other_end[k] > since:
                    since = other_end[k]
                k += 1
            if since < end[i]:
                out_start[n] = since
                out_end[n] = end[i]
                n += 1
    return n


def intersect(
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    other_start: cython.const[cython.longlong][::1],
    other_end: cython.const[cython.longlong][::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Return what two sets of disjoint intervals have in common; arguments as for :func:`subtract`."""
    i: cython.Py_ssize_t = 0
    j: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = 0
    low: cython.longlong
    high: cython.longlong
    with cython.nogil:
        while i < start.shape[0] and j < other_start.shape[0]:
            low = max(other_start[j], start[i])
            high = min(other_end[j], end[i])
            if low < high:
                out_start[n] = low
                out_end[n] = high
                n += 1
            if end[i] < other_end[j]:
                i += 1
            else:
                j += 1
    return n


def sweep(
    time: cython.const[cython.longlong][::1],
    layer: cython.const[cython.int][::1],
    change: cython.const[cython.int][::1],
    active: cython.longlong[::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
    out_layer: cython.int[::1],
) -> cython.Py_ssize_t:
    """Give every instant to the lowest layer that is active then, and unite neighbours of one layer.

    Args:
        time: Boundaries in ascending order; the order among equal times does not matter.
        layer: Which layer each boundary belongs to.
        change: 1 where an interval starts, -1 where it ends.
        active: How many intervals of each layer are open; zeros on entry.
        out_start: n entries.
        out_end: n entries.
        out_layer: n entries.
    """
    i: cython.Py_ssize_t
    k: cython.int
    n: cython.Py_ssize_t = 0
    layers: cython.int = cython.cast(cython.int, active.shape[0])
    top: cython.int = layers
    since: cython.longlong = 0
    with cython.nogil:
        for i in range(time.shape[0]):
            if top < layers and time[i] > since:
                if n > 0 and out_layer[n - 1] == top and out_end[n - 1] == since:
                    out_end[n - 1] = time[i]
                else:
                    out_start[n] = since
                    out_end[n] = time[i]
                    out_layer[n] = top
                    n += 1
            since = time[i]
            k = layer[i]
            active[k] += change[i]
            if change[i] > 0:
                if k < top:
                    top = k
            elif k == top:
                while top < layers and active[top] == 0:
                    top += 1
    return n


def paint(
    time: cython.const[cython.longlong][::1],
    layer: cython.const[cython.int][::1],
    row: cython.const[cython.int][::1],
    begins: cython.const[cython.uchar][::1],
    open_row: cython.int[::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
    out_row: cython.int[::1],
    out_layer: cython.int[::1],
) -> cython.Py_ssize_t:
    """Give every instant to the row that is open then in the lowest layer, which has one at a time.

    Args:
        time: Boundaries in ascending order; the order among equal times does not matter.
        layer: Which layer each boundary belongs to.
        row: Which row.
        begins: Whether the row begins there, else it ends.
        open_row: The row that is open in each layer; -1 on entry.
        out_start: n entries.
        out_end: n entries.
        out_row: n entries.
        out_layer: n entries.
    """
    i: cython.Py_ssize_t
    k: cython.int
    n: cython.Py_ssize_t = 0
    layers: cython.int = cython.cast(cython.int, open_row.shape[0])
    top: cython.int = layers
    since: cython.longlong = 0
    with cython.nogil:
        for i in range(time.shape[0]):
            if top < layers and time[i] > since:
                if (
                    n > 0
                    and out_row[n - 1] == open_row[top]
                    and out_end[n - 1] == since
                    and out_layer[n - 1] == top
                ):
                    out_end[n - 1] = time[i]
                else:
                    out_start[n] = since
                    out_end[n] = time[i]
                    out_row[n] = open_row[top]
                    out_layer[n] = top
                    n += 1
            since = time[i]
            k = layer[i]
            if begins[i]:
                open_row[k] = row[i]
                if k < top:
                    top = k
            elif open_row[k] == row[i]:
                open_row[k] = -1
                if k == top:
                    while top < layers and open_row[top] < 0:
                        top += 1
    return n
