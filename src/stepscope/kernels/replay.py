# cython: boundscheck=False, wraparound=False
"""Compute when each node of a graph happens, given how long it takes from one node to the next."""

from __future__ import annotations

import cython


def replay(
    source: cython.const[cython.int][::1],
    weight: cython.const[cython.longlong][::1],
    first: cython.const[cython.longlong][::1],
    order: cython.const[cython.int][::1],
    time: cython.longlong[::1],
) -> None:
    """Let every node happen as soon as all that it waits for has.

    Args:
        source: The node at which each edge begins; edges are in order of the node at which they end.
        weight: How long after its source an edge lets its target happen.
        first: Place of each node's first edge, and after the last node the number of edges.
        order: All nodes, each after those that it waits for.
        time: The times of nodes without edges on entry, of all nodes on return.
    """
    n: cython.Py_ssize_t
    e: cython.Py_ssize_t
    node: cython.Py_ssize_t
    reached: cython.longlong
    latest: cython.longlong
    with cython.nogil:
        for n in range(order.shape[0]):
            node = order[n]
            if first[node] == first[node + 1]:
                continue
            e = first[node]
            latest = time[source[e]] + weight[e]
            for e in range(first[node] + 1, first[node + 1]):
                reached = time[source[e]] + weight[e]
                if reached > latest:
                    latest = reached
            time[node] = latest


def ordered(
    source: cython.const[cython.int][::1],
    first: cython.const[cython.longlong][::1],
    after: cython.const[cython.int][::1],
    first_after: cython.const[cython.longlong][::1],
    waits: cython.int[::1],
    order: cython.int[::1],
) -> cython.Py_ssize_t:
    """Put every node after those that it waits for (Kahn, 1962); return how many were placed.

    Args:
        source: As for :func:`replay`.
        first: As for :func:`replay`.
        after: The node at which each edge ends; edges are in order of the node at which they begin.
        first_after: Place of each node's first edge in ``after``.
        waits: Scratch, one per node.
        order: Filled with the nodes; not all of them if some wait for each other in a circle.
    """
    n: cython.Py_ssize_t
    e: cython.Py_ssize_t
    node: cython.Py_ssize_t
    done: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    with cython.nogil:
        for n in range(waits.shape[0]):
            waits[n] = cython.cast(cython.int, first[n + 1] - first[n])
            if waits[n] == 0:
                order[count] = cython.cast(cython.int, n)
                count += 1
        while done < count:
            node = order[done]
            done += 1
            for e in range(first_after[node], first_after[node + 1]):
                waits[after[e]] -= 1
                if waits[after[e]] == 0:
                    order[count] = after[e]
                    count += 1
    return count
