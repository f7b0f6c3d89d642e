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


def nearest(
    parent: cython.const[cython.int][::1], wanted: cython.const[cython.uchar][::1], found: cython.int[::1]
) -> None:
    """Find for each row the nearest wanted row among itself and its ancestors, -1 where there is none."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parent.shape[0]):
            if wanted[i]:
                found[i] = cython.cast(cython.int, i)
            elif parent[i] >= 0:
                found[i] = found[parent[i]]
            else:
                found[i] = -1


def outermost(
    parent: cython.const[cython.int][::1],
    label: cython.const[cython.int][::1],
    outer: cython.uchar[::1],
) -> None:
    """Mark the rows that no ancestor shares its label with, so that recursion is counted once.

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


def longest(
    first: cython.const[cython.longlong][::1],
    source: cython.const[cython.int][::1],
    weight: cython.const[cython.longlong][::1],
    distance: cython.longlong[::1],
    taken: cython.longlong[::1],
) -> None:
    """Find the longest path to every node of a graph whose nodes are in topological order.

    Args:
        first: n + 1; the edges into node i are ``first[i] … first[i + 1] - 1``.
        source: Node that each edge comes from, smaller than the one it goes to.
        weight: Of each edge.
        distance: n; zeros on entry.
        taken: n; the edge that the longest path enters by, -1 where no edge lengthens it. -1 on entry.
    """
    i: cython.Py_ssize_t
    e: cython.longlong
    along: cython.longlong
    with cython.nogil:
        for i in range(distance.shape[0]):
            for e in range(first[i], first[i + 1]):
                along = distance[source[e]] + weight[e]
                if taken[i] < 0 or along > distance[i]:
                    distance[i] = along
                    taken[i] = e
