"""Graphs of torch's modules, with what their operations cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.events.columns import GRAPHS, RUN_METADATA
from stepscope.events.messages import Metadata, Tensor, Value
from stepscope.record.summaries.documents import serialized
from stepscope.record.summaries.encoder import Prepared

if TYPE_CHECKING:
    from stepscope.integrations.torch.graph import TracedModule


def measured(model: Any, inputs: Any, *, verbose: bool) -> TracedModule:
    """Return our own graph of a module, with the costs of its operations."""
    from stepscope.integrations.torch.graph import trace

    found = trace(model, inputs)
    if verbose:
        print(*(f"{node.name}: {node.op}({', '.join(node.inputs)})" for node in found.nodes), sep="\n")
    return found


def own_graph(what: str, parts: Any) -> Prepared:
    """Return a graph, or the costs of its nodes, as a summary, for places where no graph event may be.

    Args:
        what: "graph" or "costs".
        parts: The nodes, or their costs.
    """
    stored = Tensor.of_texts(serialized(what, parts))
    about = Metadata.of(GRAPHS if what == "graph" else RUN_METADATA)
    return Prepared(lambda tag: [Value(tag, tensor=stored, metadata=about)], len(stored.string_val[0]))
