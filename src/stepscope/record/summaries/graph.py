"""Graphs and what their nodes took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepscope.events.kinds import graph
from stepscope.events.messages import Event, TaggedRunMetadata
from stepscope.record.problems import shown
from stepscope.record.summary_encoder import Prepared, bounded, refused

_EXPECTED = {
    "graph": "pass nodes (stepscope.events.kinds.graph.Node), or a GraphDef",
    "costs": "pass costs (stepscope.events.kinds.graph.NodeCost), or a RunMetadata",
}


def prepare(what: str, value: Any) -> Prepared:
    """Return a graph, or what its nodes took.

    Args:
        what: "graph" or "costs".
        value: Serialized, a message, or nodes or costs in our own words.

    Raises:
        RefusalError: It is none.
    """
    data = serialized(what, value)
    if what == "graph":
        return Prepared(lambda tag: Event(graph_def=data), bounded(len(data)))
    return Prepared(lambda tag: Event(tagged_run_metadata=TaggedRunMetadata(tag, data)), bounded(len(data)))


def serialized(what: str, value: Any) -> bytes:
    """Return a graph or costs as bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    serialize = getattr(value, "SerializeToString", None)
    if serialize is not None:
        return bytes(serialize())
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refused(f"{shown(value)} for {what}", _EXPECTED[what])
    parts = list(value)
    kind = graph.Node if what == "graph" else graph.NodeCost
    if not parts or not all(isinstance(part, kind) for part in parts):
        raise refused(f"{len(parts)} parts that are not all {kind.__name__}", _EXPECTED[what])
    return graph.graph_def(parts) if what == "graph" else graph.run_metadata(parts)
