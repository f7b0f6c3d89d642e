"""The graph view of traces whose events are graph nodes: each node above the nodes that feed it."""

from __future__ import annotations

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
    place: dict[int, int] = {}
    parent = [-1]
    # What is only reachable through a cycle has no root of its own; it starts one at the end.
    for start in [*(number for number in ordered if number not in fed), *ordered]:
        stack = [(start, 0)]
        while stack:
            number, above = stack.pop()
            if number in place:
                continue
            place[number] = len(parent)
            parent.append(above)
            below = sorted(feeds[number], key=lambda other: names[other], reverse=True)
            stack += [(other, place[number]) for other in below]
    table = np.full(int(present.max()) + 1, -1, np.int32)
    table[list(place)] = list(place.values())
    return table[key], np.array(parent, np.int32), [names[number] for number in place]
