# cython: boundscheck=False, wraparound=False
"""Walks over a forest in which every parent's row precedes its children's. -1 is no parent."""

from __future__ import annotations

import cython


def accumulate(parent: cython.const[cython.int][::1], total: cython.longlong[::1]) -> None:
    """Add to every row what its descendants have.

    Args:
        parent: Row of each row's parent, smaller than its own, or -1.
        total: Own value on entry, value with all descendants on return.
    """
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0] - 1, -1, -1):
            if parent[i] >= 0:
                total[parent[i]] += total[i]


def inherit(parent: cython.const[cython.int][::1], value: cython.int[::1]) -> None:
    """Give each row that has no value of its own (-1) its nearest ancestor's."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            if value[i] < 0 and parent[i] >= 0:
                value[i] = value[parent[i]]


def least(parent: cython.const[cython.int][::1], value: cython.int[::1]) -> None:
    """Give each row the least value among itself and its ancestors."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            if parent[i] >= 0 and value[parent[i]] < value[i]:
                value[i] = value[parent[i]]


def nearest(
    parent: cython.const[cython.int][::1], wanted: cython.const[cython.uchar][::1], above: cython.int[::1]
) -> None:
    """Find for each row the nearest wanted row among itself and its ancestors, -1 where there is none."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            if wanted[i]:
                above[i] = cython.cast(cython.int, i)
            elif parent[i] >= 0:
                above[i] = above[parent[i]]
            else:
                above[i] = -1


def outermost(
    parent: cython.const[cython.int][::1],
    label: cython.const[cython.int][::1],
    outer: cython.uchar[::1],
) -> None:
    """Mark the rows whose label no ancestor has, so that recursion is counted once.

    A row without a label (-1) is never marked.
    """
    i: cython.Py_ssize_t
    above: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            outer[i] = label[i] >= 0
            if not outer[i]:
                continue
            above = parent[i]
            while above >= 0:
                if label[above] == label[i]:
                    outer[i] = 0
                    break
                above = parent[above]


def depths(parent: cython.const[cython.int][::1], depth: cython.int[::1]) -> None:
    """Count the ancestors of each row."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            depth[i] = depth[parent[i]] + 1 if parent[i] >= 0 else 0


def walk(
    before: cython.const[cython.int][::1],
    time: cython.const[cython.longlong][::1],
    node: cython.Py_ssize_t,
    until: cython.longlong,
    path: cython.int[::1],
) -> cython.Py_ssize_t:
    """Follow a graph back from a node to the first one at or before a time; return how many nodes that are.

    Args:
        before: The node from which each node is reached, -1 where a path begins.
        time: Time of each node, never later than that of the nodes reached from it.
        node: Where to begin.
        until: Where to stop.
        path: Filled with the nodes, the latest first; as long as there are nodes.
    """
    n: cython.Py_ssize_t = 0
    with cython.nogil:
        while node >= 0 and n < path.shape[0]:
            path[n] = cython.cast(cython.int, node)
            n += 1
            if time[node] <= until:
                break
            node = before[node]
    return n
