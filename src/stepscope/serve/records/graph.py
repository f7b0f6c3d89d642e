"""GraphDef and RunMetadata as the page reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.analyze.graph_flops import COUNTED, flops_of
from stepscope.events.columns import META_GRAPH
from stepscope.events.kinds.graph import (
    OWN_GRAPH,
    AttrValue,
    GraphDef,
    MetaGraphDef,
    Node,
    NodeCost,
    NodeDef,
    NodeExecStats,
    RunMetadata,
)
from stepscope.events.wire import decode, each_of

if TYPE_CHECKING:
    from stepscope.store import StoredRun

SHAPES = "_output_shapes"
LONGEST = 1000
"""Characters of an attribute that are sent."""


def nodes_of_run(run: StoredRun) -> list[Node]:
    """Return the nodes of the graph of a run that has one.

    TensorFlow writes a graph twice, once within a MetaGraphDef, which is read only if it is alone. A graph
    of Stepscope's own, whose costs are measured, stands before one of another tool.

    Raises:
        EventFileError: It is not a graph.
    """
    tag = min(run.tags("graph"), key=lambda tag: (tag != OWN_GRAPH, tag == META_GRAPH))
    data: bytes = run.record(tag)[-1][-1]
    if tag != META_GRAPH:
        return nodes_of(data)
    inner = decode(MetaGraphDef, data).graph_def
    return list(map(node_of, inner.node)) if inner else []


def nodes_of(data: bytes) -> list[Node]:
    """Return the nodes of a serialized GraphDef.

    Raises:
        EventFileError: It is not one.
    """
    return [node_of(node) for node in each_of(GraphDef, "node", data)]


def node_of(node: NodeDef) -> Node:
    """Return one node."""
    known = {attr.key: attr.value for attr in node.attr if attr.value is not None}
    listed = known[SHAPES].list_value if SHAPES in known else None
    shapes = [list(shape.sizes) for shape in listed.shape] if listed else []
    attributes = {
        name: one for name, value in known.items() if name != SHAPES and (one := plain(value)) is not None
    }
    return Node(node.name, node.op, node.input, shapes, node.device, attributes)


def plain(value: AttrValue) -> str | float | bool | None:
    """Return an attribute, None for those that are not plain values."""
    for number in (value.b, value.i, value.f):
        if number is not None:
            return number
    return value.s.decode("utf-8", "backslashreplace")[:LONGEST] if value.s is not None else None


def with_flops(nodes: list[Node], costs: list[NodeCost]) -> list[Node]:
    """Add FLOPs that the recorder did not count, from shapes as measured or as in the graph.

    Nothing is added if a graph has no shapes, or has no operation that is counted.
    """
    shapes = {node.name: node.shapes for node in nodes if node.shapes}
    shapes |= {cost.name: cost.shapes for cost in costs if cost.shapes}
    ops = {node.op for node in nodes}
    if not shapes or not ops & COUNTED or any("flops" in node.attributes for node in nodes):
        return nodes

    def given(node: Node) -> list[Sequence[int] | None]:
        inputs: list[Sequence[int] | None] = []
        for source in node.inputs:
            if not source.startswith("^"):
                name, _, number = source.partition(":")
                known = shapes.get(name, [])
                inputs.append(known[int(number or 0)] if int(number or 0) < len(known) else None)
        return inputs

    def counted(node: Node) -> Node:
        flops = flops_of(node.op, node.attributes, given(node), shapes.get(node.name, []))
        if flops is None:
            return node
        return dataclasses.replace(node, attributes={**node.attributes, "flops": flops})

    return [counted(node) for node in nodes]


def costs_of(data: bytes) -> list[NodeCost]:
    """Return the cost of each node of a serialized RunMetadata, as TensorBoard counts it.

    Raises:
        EventFileError: It is not one.
    """
    stats = decode(RunMetadata, data).step_stats
    taken: dict[tuple[str, str], list[NodeExecStats]] = {}
    for device in stats.dev_stats if stats else ():
        for node in device.node_stats:
            taken.setdefault((node.node_name, device.device), []).append(node)
    return [cost_of(name, device, nodes) for (name, device), nodes in taken.items()]


def cost_of(name: str, device: str, nodes: list[NodeExecStats]) -> NodeCost:
    """Return the cost of one node's executions: from the first start to the last end, and the most memory."""
    start = min(node.all_start_micros for node in nodes)
    end = max(node.all_start_micros + node.all_end_rel_micros for node in nodes)
    held = [sum(memory.total_bytes for memory in node.memory) for node in nodes if node.memory]
    return NodeCost(name, start, end - start, max(held, default=None), shapes_of(nodes[-1]), device)


def shapes_of(node: NodeExecStats) -> list[list[int]]:
    """Return the shapes of a node's outputs, in their order."""
    known = sorted(node.output, key=lambda output: output.slot)
    shapes = [output.tensor_description.shape for output in known if output.tensor_description]
    return [list(shape.sizes) for shape in shapes if shape is not None]
