"""Draw a stretch of a timeline: events wider than a pixel one by one, narrower ones merged.

A track is a (lane, depth): its events do not overlap, except siblings that were recorded so.
Within a track, positions are in start order.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:

    def longs_at(values: Any) -> Any:
        """Return the numbers as they are; compiled, a pointer."""
        return values

    ints_at = longs_at


def tracks(
    lane: cython.const[cython.int][::1],
    depth: cython.const[cython.short][::1],
    first_track: cython.const[cython.int][::1],
    deepest: cython.int,
    at: cython.longlong[::1],
    order: cython.int[::1],
) -> None:
    """Sort rows by track, keeping their order within one.

    Args:
        lane: Lane of each row.
        depth: Depth of each row.
        first_track: First track of each lane.
        deepest: Depths beyond it are drawn at it.
        at: Where each track begins; on return where it ends.
        order: Filled with rows.
    """
    i: cython.Py_ssize_t
    track: cython.Py_ssize_t
    with cython.nogil:
        for i in range(lane.shape[0]):
            track = first_track[lane[i]] + (min(deepest, depth[i]))
            order[at[track]] = i
            at[track] += 1


def accumulate(
    order: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    duration: cython.const[cython.longlong][::1],
    begins: cython.const[cython.longlong][::1],
    reach: cython.longlong[::1],
    busy: cython.longlong[::1],
) -> None:
    """Compute at each position the latest end so far in its track, and the time that events took so far."""
    t: cython.Py_ssize_t
    k: cython.Py_ssize_t
    furthest: cython.longlong
    total: cython.longlong = 0
    with cython.nogil:
        for t in range(begins.shape[0] - 1):
            furthest = -0x7FFFFFFFFFFFFFFF
            for k in range(begins[t], begins[t + 1]):
                if start[order[k]] + duration[order[k]] > furthest:
                    furthest = start[order[k]] + duration[order[k]]
                total += duration[order[k]]
                reach[k] = furthest
                busy[k] = total


def longest(
    order: cython.const[cython.int][::1],
    duration: cython.const[cython.longlong][::1],
    below: cython.const[cython.int][::1],
    block: cython.int[::1],
    length: cython.longlong[::1],
) -> None:
    """Find position and duration of the longest event of each 16 positions, or blocks of the level below."""
    b: cython.Py_ssize_t
    k: cython.Py_ssize_t
    best: cython.int
    base: cython.bint = below.shape[0] == 0
    size: cython.Py_ssize_t = order.shape[0] if base else below.shape[0]
    candidate: cython.int
    with cython.nogil:
        for b in range(block.shape[0]):
            best = -1
            for k in range(b * 16, min(b * 16 + 16, size)):
                candidate = k if base else below[k]
                if best < 0 or duration[order[candidate]] > duration[order[best]]:
                    best = candidate
            block[b] = best
            length[b] = duration[order[best]]


@cython.locals(
    t=cython.Py_ssize_t, k=cython.Py_ssize_t, last=cython.Py_ssize_t, low=cython.Py_ssize_t,
    best=cython.Py_ssize_t, s=cython.longlong, limit=cython.longlong,
)  # fmt: skip
def draw(
    order: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    duration: cython.const[cython.longlong][::1],
    reach: cython.const[cython.longlong][::1],
    busy: cython.const[cython.longlong][::1],
    by_16: cython.const[cython.int][::1],
    by_256: cython.const[cython.int][::1],
    by_4096: cython.const[cython.int][::1],
    length_16: cython.const[cython.longlong][::1],
    length_256: cython.const[cython.longlong][::1],
    length_4096: cython.const[cython.longlong][::1],
    wanted: cython.const[cython.longlong][:, ::1],
    begin: cython.longlong,
    end: cython.longlong,
    pixel: cython.longlong,
    left: cython.longlong[::1],
    right: cython.longlong[::1],
    row: cython.int[::1],
    count: cython.int[::1],
    filled: cython.longlong[::1],
) -> int:
    """Draw some tracks between two times; return the number of rectangles.

    A rectangle is one event at least a pixel wide, or all narrower events that start in one pixel. Its row is
    the longest of them.

    Args:
        order: Rows by track.
        start: Start of each position, unlike the other times.
        duration: Duration of each row.
        reach: See ``accumulate``.
        busy: See ``accumulate``.
        by_16: See ``longest``.
        by_256: Likewise, of 16 blocks.
        by_4096: Likewise, of 16 blocks of blocks.
        length_16: Durations of ``by_16``, so that comparing them jumps about less in memory.
        length_256: Durations of ``by_256``.
        length_4096: Durations of ``by_4096``.
        wanted: First position and end of each track.
        begin: Start of the window.
        end: End of the window.
        pixel: Width of a pixel, at least 1.
        left: Filled with starts. Like all outputs, as long as the number of rectangles for which there is
            room.
        right: Filled with ends.
        row: Filled with rows.
        count: Filled with numbers of events.
        filled: Filled with the time that the events took.
    """
    n: cython.Py_ssize_t = 0
    stride: cython.Py_ssize_t = 0
    with cython.nogil:
        for t in range(wanted.shape[0]):
            last = wanted[t, 1]
            k = ends_after(longs_at(reach), wanted[t, 0], last, begin)
            while k < last and n < left.shape[0]:
                s = start[k]
                if s >= end:
                    break
                left[n] = s
                if duration[order[k]] >= pixel:
                    right[n], row[n] = s + duration[order[k]], order[k]
                    count[n], filled[n] = 1, duration[order[k]]
                    n, k = n + 1, k + 1
                    continue
                limit = begin + ((s - begin) // pixel + 1) * pixel if s >= begin else begin
                low = starts_from(longs_at(start), k, last, limit, stride)
                if low - 1 > k and duration[order[low - 1]] >= pixel:
                    low -= 1  # a wide one is drawn by itself
                best = longest_within(
                    ints_at(order), longs_at(duration), ints_at(by_16), ints_at(by_256), ints_at(by_4096),
                    longs_at(length_16), longs_at(length_256), longs_at(length_4096), k, low,
                )  # fmt: skip
                # Overlapping siblings: what reaches further than a narrow event can is not one of these.
                right[n] = min(reach[low - 1], limit + pixel)
                row[n], count[n] = order[best], low - k
                filled[n] = busy[low - 1] - busy[k] + duration[order[k]]
                n, stride, k = n + 1, low - k, low
    return n


def ends_after(reach, low, high, begin):  # type: ignore[no-untyped-def]
    """Return the first position of a track whose event, or one before it, ends after a time."""
    while low < high:
        middle = (low + high) // 2
        if reach[middle] > begin:
            high = middle
        else:
            low = middle + 1
    return low


def starts_from(start, k, last, limit, stride):  # type: ignore[no-untyped-def]
    """Return the first position after ``k`` that starts in a later pixel.

    It gallops, first half as far as the last pixel went.
    """
    low, step = k + 1, max(1, stride >> 1)
    if low + step >= last or start[low + step] >= limit:
        step = 1
    while low + step < last and start[low + step] < limit:
        low += step
        step *= 2
    high = min(low + step, last)
    if low < last and start[low] >= limit:
        high = low
    while low < high:
        middle = (low + high) // 2
        if start[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


def longest_within(  # type: ignore[no-untyped-def]
    order, duration, by_16, by_256, by_4096, length_16, length_256, length_4096, k, stop
):
    """Return the position of the longest of some events, by whole blocks where there are any."""
    best, most, i = k, duration[order[k]], k + 1
    while i < stop:
        if i & 15 or i + 16 > stop:
            if duration[order[i]] > most:
                best, most = i, duration[order[i]]
            i += 1
        elif i & 4095 == 0 and i + 4096 <= stop:
            if length_4096[i >> 12] > most:
                best, most = by_4096[i >> 12], length_4096[i >> 12]
            i += 4096
        elif i & 255 == 0 and i + 256 <= stop:
            if length_256[i >> 8] > most:
                best, most = by_256[i >> 8], length_256[i >> 8]
            i += 256
        else:
            if length_16[i >> 4] > most:
                best, most = by_16[i >> 4], length_16[i >> 4]
            i += 16
    return best
