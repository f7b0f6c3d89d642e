# mypy: ignore-errors
# Annotations are Cython types here; the compiler checks them.
"""Reduce values to what a plot shows: for each bucket first, minimum, maximum, last and non-finite count.

Minimum and maximum are of finite values only. ``first_at`` and ``last_at`` are positions of the first and
last finite value in recorded order, -1 where there is none. Arrays are contiguous; the caller allocates the
outputs.
"""

from __future__ import annotations

import cython

FAN = 16
"""Points, or blocks of the level below, in one block of the pyramid."""

Value = cython.fused_type(cython.float, cython.double)
Axis = cython.fused_type(cython.longlong, cython.double)


def spans(
    value: cython.const[Value][::1],
    lo: cython.const[cython.longlong][::1],
    hi: cython.const[cython.longlong][::1],
    first_at: cython.longlong[::1],
    last_at: cython.longlong[::1],
    low: Value[::1],
    high: Value[::1],
    nonfinite: cython.uint[::1],
) -> None:
    """Reduce the values at positions ``lo[b] … hi[b] - 1`` for every bucket b.

    ``low`` starts at infinity, ``high`` at minus infinity, ``first_at`` and ``last_at`` at -1, counts at 0.
    """
    b: cython.Py_ssize_t
    i: cython.longlong
    v: Value
    inf: Value = float("inf")
    with cython.nogil:
        for b in range(lo.shape[0]):
            for i in range(lo[b], hi[b]):
                v = value[i]
                if -inf < v < inf:  # false for NaN
                    if first_at[b] < 0:
                        first_at[b] = i
                    last_at[b] = i
                    if v < low[b]:
                        low[b] = v
                    if v > high[b]:
                        high[b] = v
                else:
                    nonfinite[b] += 1


def scatter(
    x: cython.const[Axis][::1],
    value: cython.const[Value][::1],
    starts: cython.const[Axis][::1],
    top: Axis,
    first_at: cython.longlong[::1],
    last_at: cython.longlong[::1],
    low: Value[::1],
    high: Value[::1],
    count: cython.uint[::1],
    nonfinite: cython.uint[::1],
) -> None:
    """Reduce points whose x is in any order.

    Bucket b holds ``starts[b] <= x < starts[b + 1]``, the last one ``starts[b] <= x <= top``. A NaN x lies in
    no bucket. Outputs start as for ``spans``.
    """
    buckets: cython.Py_ssize_t = starts.shape[0]
    i: cython.Py_ssize_t
    a: cython.Py_ssize_t
    b: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    v: Value
    inf: Value = float("inf")
    with cython.nogil:
        a = 0
        for i in range(x.shape[0]):
            if not (x[i] >= starts[0] and x[i] <= top):
                continue
            if not (x[i] >= starts[a] and (a + 1 == buckets or x[i] < starts[a + 1])):
                a = 0
                b = buckets
                while b - a > 1:
                    middle = (a + b) // 2
                    if x[i] >= starts[middle]:
                        a = middle
                    else:
                        b = middle
            count[a] += 1
            v = value[i]
            if -inf < v < inf:
                if first_at[a] < 0:
                    first_at[a] = i
                last_at[a] = i
                if v < low[a]:
                    low[a] = v
                if v > high[a]:
                    high[a] = v
            else:
                nonfinite[a] += 1


def raise_level(
    low: cython.const[Value][::1],
    high: cython.const[Value][::1],
    nonfinite: cython.const[cython.uint][::1],
    start: cython.Py_ssize_t,
    low_above: Value[::1],
    high_above: Value[::1],
    nonfinite_above: cython.uint[::1],
) -> None:
    """Fill the blocks from ``start`` on from the level below; only complete blocks exist.

    For the lowest level pass the values as ``low`` and ``high`` and an empty ``nonfinite``.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    base: cython.bint = nonfinite.shape[0] == 0
    inf: Value = float("inf")
    smallest: Value
    largest: Value
    bad: cython.uint
    with cython.nogil:
        for k in range(start, low_above.shape[0]):
            smallest = inf
            largest = -inf
            bad = 0
            for i in range(k * 16, k * 16 + 16):
                if base and not (-inf < low[i] < inf):
                    bad += 1
                    continue
                if low[i] < smallest:
                    smallest = low[i]
                if high[i] > largest:
                    largest = high[i]
                if not base:
                    bad += nonfinite[i]
            low_above[k] = smallest
            high_above[k] = largest
            nonfinite_above[k] = bad


def climb(
    low: cython.const[Value][::1],
    high: cython.const[Value][::1],
    nonfinite: cython.const[cython.uint][::1],
    lo: cython.longlong[::1],
    hi: cython.longlong[::1],
    top: cython.bint,
    low_out: Value[::1],
    high_out: Value[::1],
    nonfinite_out: cython.uint[::1],
) -> None:
    """Reduce what does not fill whole blocks of the next level, and leave the rest to that level.

    ``lo`` and ``hi`` are block numbers of this level on entry and of the next on return; at the ``top``
    everything is taken. For the lowest level pass the values as ``low`` and ``high``, and no ``nonfinite``.
    """
    b: cython.Py_ssize_t
    i: cython.longlong
    start: cython.longlong
    stop: cython.longlong
    inner: cython.longlong
    outer: cython.longlong
    base: cython.bint = nonfinite.shape[0] == 0
    inf: Value = float("inf")
    with cython.nogil:
        for b in range(lo.shape[0]):
            start = lo[b]
            stop = hi[b]
            inner = (start + 15) // 16
            outer = stop // 16
            if top or inner >= outer:
                inner = 0
                outer = 0
            i = start
            while i < stop:
                if outer > inner and i == inner * 16:
                    i = outer * 16
                    continue
                if base and not (-inf < low[i] < inf):
                    nonfinite_out[b] += 1
                else:
                    if low[i] < low_out[b]:
                        low_out[b] = low[i]
                    if high[i] > high_out[b]:
                        high_out[b] = high[i]
                    if not base:
                        nonfinite_out[b] += nonfinite[i]
                i += 1
            lo[b] = inner
            hi[b] = outer


def ends(
    value: cython.const[Value][::1],
    lo: cython.const[cython.longlong][::1],
    hi: cython.const[cython.longlong][::1],
    first_at: cython.longlong[::1],
    last_at: cython.longlong[::1],
) -> None:
    """Find the first and the last finite value at positions ``lo[b] … hi[b] - 1`` of every bucket b."""
    b: cython.Py_ssize_t
    i: cython.longlong
    inf: Value = float("inf")
    with cython.nogil:
        for b in range(lo.shape[0]):
            i = lo[b]
            while i < hi[b] and not (-inf < value[i] < inf):
                i += 1
            if i < hi[b]:
                first_at[b] = i
                i = hi[b] - 1
                while not (-inf < value[i] < inf):
                    i -= 1
                last_at[b] = i
