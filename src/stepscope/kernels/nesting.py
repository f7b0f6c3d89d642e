"""Nesting on a timeline: which row contains which, in one pass over sorted rows.

Rows are sorted by (lane, start, longest first), so that a container comes before what it contains. The caller
allocates the outputs.
"""

from __future__ import annotations

import cython


def nest(
    lane: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    duration: cython.const[cython.longlong][::1],
    slack: cython.longlong,
    layer: cython.const[cython.uchar][::1],
    parent: cython.int[::1],
    depth: cython.short[::1],
    own: cython.longlong[::1],
    closes: cython.longlong[::1],
    covered: cython.longlong[::1],
) -> int:
    """Find each row's parent, depth and self time; return the number of overlapping siblings.

    A row is the child of the innermost open row that ends no more than ``slack`` before it does; a child's
    time beyond its parent's end does not count against the parent. One that starts inside an open row and
    ends well after it is a sibling that overlaps: it closes the open row, and is counted. Children that
    overlap are subtracted once.

    Args:
        lane: Lane of each row.
        start: Start of each row.
        duration: Duration of each row, not negative.
        slack: How much later than its parent a child may end, because times were rounded.
        layer: Layer of each row; those of different layers may overlap, those of layer 0 any other.
        parent: Filled with rows, -1 for none.
        depth: Filled with the number of ancestors.
        own: Filled with the self time.
        closes: Room for as many numbers; on return where each row ends, at most its parent's end.
        covered: Room for as many numbers.
    """
    n: cython.Py_ssize_t = start.shape[0]
    i: cython.Py_ssize_t
    top: cython.Py_ssize_t = -1
    overlaps: cython.Py_ssize_t = 0
    begin: cython.longlong
    end: cython.longlong
    fresh: cython.longlong
    with cython.nogil:
        for i in range(n):
            begin = start[i]
            end = begin + duration[i]
            if i > 0 and lane[i] != lane[i - 1]:
                top = -1
            while top >= 0 and begin >= closes[top]:
                top = parent[top]
            while top >= 0 and end > closes[top] + slack:
                if layer[i] and layer[i] == layer[top]:
                    overlaps += 1
                top = parent[top]
            parent[i] = top
            own[i] = duration[i]
            covered[i] = begin
            if top >= 0:
                depth[i] = depth[top] + 1 if depth[top] < 32767 else 32767
                if end > closes[top]:
                    end = closes[top]
                fresh = end - (max(covered[top], begin))
                if fresh > 0:
                    own[top] -= fresh
                    covered[top] = end
            else:
                depth[i] = 0
            closes[i] = end
            top = i
    return overlaps


def flatten(
    lane: cython.const[cython.int][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    parent: cython.const[cython.int][::1],
    out_start: cython.longlong[::1],
    out_end: cython.longlong[::1],
    out_row: cython.int[::1],
) -> cython.Py_ssize_t:
    """Cut nested rows into the stretches in which each is the innermost; return how many there are.

    The stretches of a lane are disjoint and in ascending order. Where rows overlap without nesting, the time
    that they share belongs to the later one.

    Args:
        lane: Lane of each row.
        start: Start of each row, ascending within a lane.
        end: End of each row.
        parent: Row of the one around it, -1 for none.
        out_start: Room for twice as many stretches as there are rows.
        out_end: Likewise.
        out_row: Likewise; the row that is the innermost.
    """
    rows: cython.Py_ssize_t = start.shape[0]
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = 0
    top: cython.int = -1
    until: cython.longlong
    since: cython.longlong = 0
    last: cython.bint
    with cython.nogil:
        for i in range(rows + 1):
            last = i == rows or (i > 0 and lane[i] != lane[i - 1])
            while top >= 0 and (last or top != parent[i]):
                until = end[top] if last else min(end[top], start[i])
                if until > since:
                    # A row without length does not part the one around it.
                    if n > 0 and out_row[n - 1] == top and out_end[n - 1] == since:
                        n -= 1
                    else:
                        out_start[n] = since
                    out_end[n] = until
                    out_row[n] = top
                    n += 1
                    since = until
                top = parent[top]
            if i == rows:
                break
            if top >= 0 and start[i] > since:
                if n > 0 and out_row[n - 1] == top and out_end[n - 1] == since:
                    n -= 1
                else:
                    out_start[n] = since
                out_end[n] = start[i]
                out_row[n] = top
                n += 1
            if top < 0 or start[i] > since:
                since = start[i]
            top = cython.cast(cython.int, i)
    return n


def inherit(parent: cython.const[cython.int][::1], value: cython.int[::1]) -> None:
    """Give every row that has none (-1) its parent's value; parents come first."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            if value[i] < 0 and parent[i] >= 0:
                value[i] = value[parent[i]]


def innermost(
    time: cython.const[cython.longlong][::1],
    row: cython.int[::1],
    parent: cython.const[cython.int][::1],
    closes: cython.const[cython.longlong][::1],
) -> None:
    """Climb from a row that starts at or before each time to the innermost still open then, -1 for none."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    with cython.nogil:
        for i in range(time.shape[0]):
            at = row[i]
            while at >= 0 and time[i] > closes[at]:
                at = parent[at]
            row[i] = at


def paths(
    parent: cython.const[cython.int][::1],
    member: cython.const[cython.uchar][::1],
    name: cython.const[cython.int][::1],
    path: cython.int[::1],
    path_parent: cython.int[::1],
    path_name: cython.int[::1],
    slots: cython.int[::1],
) -> int:
    """Number the chains of names of the rows that are members, root first; return how many there are.

    Args:
        parent: Parent of each row, before it.
        member: Whether a row adds its name to the chain.
        name: Name of each row.
        path: Filled with the chain of each row: its own where it is a member, else its parent's; -1 for none.
        path_parent: Room for as many numbers as there are members; filled with the chain without its last
            name.
        path_name: Likewise; the last name.
        slots: An empty (-1) hash table, a power of two and at least twice as long.
    """
    mask: cython.Py_ssize_t = slots.shape[0] - 1
    count: cython.int = 0
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    before: cython.int
    row: cython.int
    h: cython.ulonglong
    with cython.nogil:
        for i in range(parent.shape[0]):
            before = path[parent[i]] if parent[i] >= 0 else -1
            if not member[i]:
                path[i] = before
                continue
            h = (
                cython.cast(cython.ulonglong, before + 1) * 73244475
                + cython.cast(cython.ulonglong, name[i]) * 19349663
            )
            h ^= h >> 15
            at = h & mask
            while True:
                row = slots[at]
                if row < 0:
                    slots[at] = count
                    path_parent[count] = before
                    path_name[count] = name[i]
                    row = count
                    count += 1
                    break
                if path_parent[row] == before and path_name[row] == name[i]:
                    break
                at = (at + 1) & mask
            path[i] = row
    return count
