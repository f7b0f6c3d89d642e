"""Graphs of operations, and their costs in a step: GraphDef and RunMetadata as TensorBoard reads them.

TensorBoard colours by compute time and memory if a graph and tagged run metadata lie in one run and name
the same nodes: time from the first start to the last end of a node, memory the sum over its allocators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from stepscope.events.messages import Shape
from stepscope.events.wire import Message, encode, message, wire

PRODUCER = 22
"""Version of the graph format that TensorBoard's own writers of other frameworks' graphs give."""
OWN_GRAPH, OWN_COSTS = "stepscope/graph", "stepscope/graph_costs"
"""Tags of a graph, and of its nodes' costs, that stand in the file beside one of another tool's."""
OWN_SCOPE = "stepscope_gradients"
"""Scope of the operations that Stepscope itself adds to a graph of TensorFlow, to measure gradients."""
_KINDS = {"cuda": "GPU", "rocm": "GPU", "xla": "TPU"}
_ODD = re.compile(r"[^A-Za-z0-9_.\\/>-]")


def is_own(node: str) -> bool:
    """Return whether a node of a graph was added by Stepscope itself."""
    return node.removeprefix("_retval_").partition("/")[0] == OWN_SCOPE


@message
class ListValue(Message):
    """AttrValue.ListValue."""

    s: list[bytes] = wire(2, "bytes", repeated=True)
    i: list[int] = wire(3, "int64", repeated=True)
    shape: list[Shape] = wire(7, Shape, repeated=True)


@message
class AttrValue(Message):
    """One attribute."""

    list_value: ListValue | None = wire(1, ListValue, oneof="value")
    s: bytes | None = wire(2, "bytes", oneof="value")
    i: int | None = wire(3, "int64", oneof="value")
    f: float | None = wire(4, "float", oneof="value")
    b: bool | None = wire(5, "bool", oneof="value")


@message
class Attr(Message):
    """One entry of the map of attributes."""

    key: str = wire(1, "string")
    value: AttrValue | None = wire(2, AttrValue)


@message
class NodeDef(Message):
    """One operation."""

    name: str = wire(1, "string")
    op: str = wire(2, "string")
    input: list[str] = wire(3, "string", repeated=True)
    device: str = wire(4, "string")
    attr: list[Attr] = wire(5, Attr, repeated=True)


@message
class Versions(Message):
    """VersionDef."""

    producer: int = wire(1, "int32")


@message
class GraphDef(Message):
    """A graph."""

    node: list[NodeDef] = wire(1, NodeDef, repeated=True)
    versions: Versions | None = wire(4, Versions)


@message
class MetaGraphDef(Message):
    """A graph with the facts that TensorFlow needs to load it again."""

    graph_def: GraphDef | None = wire(2, GraphDef)


@message
class AllocatorMemory(Message):
    """AllocatorMemoryUsed, in bytes."""

    allocator_name: str = wire(1, "string")
    total_bytes: int = wire(2, "int64")
    peak_bytes: int = wire(3, "int64")


@message
class TensorDescription(Message):
    """An output of a node."""

    dtype: int = wire(1, "int32")
    shape: Shape | None = wire(2, Shape)


@message
class NodeOutput(Message):
    """One output of a node."""

    slot: int = wire(1, "int32")
    tensor_description: TensorDescription | None = wire(3, TensorDescription)


@message
class NodeExecStats(Message):
    """One execution of a node, in microseconds."""

    node_name: str = wire(1, "string")
    all_start_micros: int = wire(2, "int64")
    op_start_rel_micros: int = wire(3, "int64")
    op_end_rel_micros: int = wire(4, "int64")
    all_end_rel_micros: int = wire(5, "int64")
    memory: list[AllocatorMemory] = wire(6, AllocatorMemory, repeated=True)
    output: list[NodeOutput] = wire(7, NodeOutput, repeated=True)


@message
class DeviceStepStats(Message):
    """The nodes that ran on a device."""

    device: str = wire(1, "string")
    node_stats: list[NodeExecStats] = wire(2, NodeExecStats, repeated=True)


@message
class StepStats(Message):
    """The nodes that ran in a step."""

    dev_stats: list[DeviceStepStats] = wire(1, DeviceStepStats, repeated=True)


@message
class RunMetadata(Message):
    """Facts of a step."""

    step_stats: StepStats | None = wire(1, StepStats)


@dataclass(frozen=True)
class Node:
    """One node of a graph in our own words.

    Attributes:
        name: Its place, as ``encoder/layer0/linear``: the part before a slash is a scope that the page
            folds up.
        op: The operation.
        inputs: Names of the nodes whose outputs it takes.
        shapes: Of its outputs; -1 for a size that is not known.
        device: As ``cpu`` or ``cuda:0``.
        attributes: Other facts to show: numbers, booleans and texts.
    """

    name: str
    op: str = ""
    inputs: Sequence[str] = ()
    shapes: Sequence[Sequence[int]] = ()
    device: str = ""
    attributes: Mapping[str, str | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeCost:
    """The cost of a node in one step.

    Attributes:
        name: As in the graph.
        start_us: When it began, in microseconds from any common origin.
        duration_us: How long it took.
        memory_bytes: The bytes it allocated; None if that was not measured.
        shapes: Of its outputs.
        device: The device that it ran on.
    """

    name: str
    start_us: float
    duration_us: float
    memory_bytes: int | None = None
    shapes: Sequence[Sequence[int]] = ()
    device: str = "cpu"


def graph_def(nodes: Iterable[Node]) -> bytes:
    """Return a serialized GraphDef."""
    made = [
        NodeDef(node.name, node.op or "Node", list(node.inputs), _device(node.device), _attributes(node))
        for node in nodes
    ]
    return encode(GraphDef(made, Versions(PRODUCER)))


def run_metadata(costs: Iterable[NodeCost]) -> bytes:
    """Return a serialized RunMetadata; costs of one node count from the first start to the last end."""
    devices: dict[str, list[NodeExecStats]] = {}
    for cost in costs:
        devices.setdefault(_device(cost.device), []).append(_executed(cost))
    stats = [DeviceStepStats(device, executed) for device, executed in devices.items()]
    return encode(RunMetadata(StepStats(stats)))


def node_name(text: str) -> str:
    r"""Return a name that TensorBoard takes for a node: of letters, digits and ``_ . \ / > -``."""
    name = _ODD.sub("_", text).strip("/") or "node"
    return name if name[0].isalnum() or name[0] == "." else "n" + name


def _executed(cost: NodeCost) -> NodeExecStats:
    took = max(round(cost.duration_us), 1)  # TensorBoard leaves out what took no time
    memory = [] if cost.memory_bytes is None else [AllocatorMemory(cost.device, cost.memory_bytes)]
    outputs = [
        NodeOutput(slot, TensorDescription(1, Shape.of(*shape))) for slot, shape in enumerate(cost.shapes)
    ]
    return NodeExecStats(cost.name, round(cost.start_us), 0, took, took, memory, outputs)


def _device(device: str) -> str:
    """Return a device as TensorFlow spells it, by which TensorBoard groups."""
    if not device or device.startswith("/"):
        return device
    kind, _, number = device.partition(":")
    kind = {"cuda": "GPU", "gpu": "GPU", "rocm": "GPU", "tpu": "TPU", "xla": "TPU"}.get(
        kind.lower(), kind.upper()
    )
    return f"/device:{kind}:{number or 0}"


def _attributes(node: Node) -> list[Attr]:
    attributes = [Attr(name, _attribute(value)) for name, value in node.attributes.items()]
    if node.shapes:
        shapes = [Shape.of(*shape) for shape in node.shapes]
        attributes.append(Attr("_output_shapes", AttrValue(list_value=ListValue(shape=shapes))))
    return attributes


def _attribute(value: object) -> AttrValue:
    if isinstance(value, bool):
        return AttrValue(b=value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return AttrValue(i=value)
    if isinstance(value, float):
        return AttrValue(f=value)
    return AttrValue(s=str(value).encode("utf-8", "replace"))
