"""The graph view of traces whose events are graph nodes: each node above the nodes that feed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stepscope.analyze.views.measure import Ints
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace


def node_names(trace: Trace) -> tuple[Ints, list[str]]:
    """Number the graph nodes that events belong to: by scope path, which is the node's name, else by name."""
    scopes = len(trace.scopes)
    key = np.where(trace.scope >= 0, trace.scope, scopes + trace.name)
    return key, [*trace.scopes.texts(), *trace.strings.texts()]


def dataflow(trace: Trace) -> tuple[Ints, Ints, list[str]]:
    """Turn the arrows between nodes into a tree, as tfprof does.

    A depth-first walk from the nodes that feed no other; each node stands once, below the first consumer that
    reaches it.

    Returns:
        The tree's node of each event; per node its parent, 0 being the root; and all names but the root's.
    """
    key, names = node_names(trace)
    present = distinct(key)
    ordered = sorted(present.tolist(), key=lambda number: names[number])
    feeds: dict[int, list[int]] = {number: [] for number in ordered}
    fed: set[int] = set()
    pairs = np.stack([key[trace.flows.target], key[trace.flows.source]], axis=1)
    for consumer, producer in np.unique(pairs, axis=0).tolist():
        if consumer != producer:
            feeds[consumer].append(producer)
            fed.add(producer)
    below = {number: sorted(feeds[number], key=lambda other: names[other]) for number in ordered}
    # What is only reachable through a cycle has no root of its own; it starts one at the end.
    order, parent = walk(below, [*(number for number in ordered if number not in fed), *ordered])
    table = np.full(int(present.max()) + 1, -1, np.int32)
    table[order] = np.arange(1, len(parent))
    return table[key], np.array(parent, np.int32), [names[number] for number in order]


def walk(
    below: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], starts: Iterable[int]
) -> tuple[list[int], list[int]]:
    """Turn a graph into a tree: each number stands once, in the order of a depth-first walk.

    Returns:
        The numbers in the order of the walk, which are the nodes 1, 2, … of the tree; and the parent of each
        node, the root's being -1.
    """
    place: dict[int, int] = {}
    parent = [-1]
    for start in starts:
        stack = [(start, 0)]
        while stack:
            number, above = stack.pop()
            if number in place:
                continue
            place[number] = len(parent)
            parent.append(above)
            stack += [(other, place[number]) for other in reversed(below[number])]
    return list(place), parent
