"""Models as graphs: torch's modules, ONNX and OpenVINO's XML.

Only the structure of a file is read, not its weights. Where the originals are installed, their own functions
make the graphs, so that what is written is theirs.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from stepscope.errors import EventFileError
from stepscope.events.columns import GRAPHS, RUN_METADATA
from stepscope.events.kinds.graph import (
    PRODUCER,
    Attr,
    AttrValue,
    GraphDef,
    Node,
    NodeDef,
    Versions,
    node_name,
)
from stepscope.events.messages import Metadata, Tensor, Value
from stepscope.events.wire import Message, decode, encode, message, wire
from stepscope.record.summaries.documents import serialized
from stepscope.record.summaries.encoder import Prepared, refused

if TYPE_CHECKING:
    from stepscope.integrations.torch.graph import TracedModule

ONNX_READERS = ("torch.utils.tensorboard._onnx_graph", "tensorboardX.onnx_graph")
"""Modules that have ``load_onnx_graph``; both return the same graph."""


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


def onnx_graph(file: str | os.PathLike[str]) -> bytes:
    """Return the graph of an ONNX file as the originals make it; without the package onnx, our own.

    Raises:
        RefusalError: The file is not such a graph.
    """
    for name in ONNX_READERS:
        try:
            importlib.import_module("onnx")
            load = importlib.import_module(name).load_onnx_graph
        except ImportError:
            continue
        try:
            return bytes(load(os.fspath(file)).SerializeToString())
        except Exception as error:  # noqa: BLE001  of the file, or of a package's own code
            raise refused(
                f"a file that cannot be read as ONNX: {error}", "pass the path of an .onnx file"
            ) from None
    return serialized("graph", onnx_nodes(file))


@message
class OnnxNode(Message):
    """onnx.NodeProto."""

    input: list[str] = wire(1, "string", repeated=True)
    output: list[str] = wire(2, "string", repeated=True)
    name: str = wire(3, "string")
    op_type: str = wire(4, "string")


@message
class OnnxValue(Message):
    """onnx.ValueInfoProto, and onnx.TensorProto reduced to its name."""

    name: str = wire(1, "string")


@message
class OnnxTensor(Message):
    """onnx.TensorProto; its values stay unread."""

    dims: list[int] = wire(1, "int64", repeated=True)
    name: str = wire(8, "string")


@message
class OnnxGraph(Message):
    """onnx.GraphProto."""

    node: list[OnnxNode] = wire(1, OnnxNode, repeated=True)
    name: str = wire(2, "string")
    initializer: list[OnnxTensor] = wire(5, OnnxTensor, repeated=True)
    input: list[OnnxValue] = wire(11, OnnxValue, repeated=True)
    output: list[OnnxValue] = wire(12, OnnxValue, repeated=True)


@message
class OnnxModel(Message):
    """onnx.ModelProto."""

    graph: OnnxGraph | None = wire(7, OnnxGraph)


def onnx_nodes(file: str | os.PathLike[str]) -> list[Node]:
    """Return the nodes of an ONNX model.

    Raises:
        RefusalError: The file is not such a graph.
    """
    try:
        graph = decode(OnnxModel, Path(file).read_bytes()).graph
    except (OSError, EventFileError) as error:
        raise refused(
            f"a file that cannot be read as ONNX: {error}", "pass the path of an .onnx file"
        ) from None
    if graph is None or not graph.node:
        raise refused("an ONNX file without a graph", "pass the path of an .onnx file")
    nodes = [Node(node_name(value.name), "Input") for value in graph.input]
    nodes += [
        Node(node_name(tensor.name), "Parameter", shapes=[tuple(tensor.dims)]) for tensor in graph.initializer
    ]
    made = {node.name: node.name for node in nodes}
    for number, node in enumerate(graph.node):
        name = node_name(node.name or f"{node.op_type}_{number}")
        made.update({node_name(output): name for output in node.output})
    inner = []
    for number, node in enumerate(graph.node):
        name = node_name(node.name or f"{node.op_type}_{number}")
        inputs = [made[node_name(each)] for each in node.input if each and node_name(each) in made]
        inner.append(Node(name, node.op_type, inputs))
    outputs = [
        Node(node_name(f"{value.name}_output"), "Output", [made[node_name(value.name)]])
        for value in graph.output
        if node_name(value.name) in made
    ]
    return unique([*nodes, *inner, *outputs])


def openvino_graph(file: str | os.PathLike[str]) -> bytes:
    """Return the graph of an OpenVINO model from its XML: like tensorboardX, a node for each end of an edge.

    Raises:
        RefusalError: The file is not such a graph.
    """
    try:
        root: Any = ElementTree.fromstring(Path(file).read_bytes())  # noqa: S314  the user's own model
    except (OSError, ElementTree.ParseError) as error:
        raise refused(
            f"a file that cannot be read: {error}", "pass the path of OpenVINO's .xml file"
        ) from None
    names = {layer.get("id"): layer.get("name") for layer in root.iterfind("layers/layer")}
    ends = [(edge.get("from-layer"), edge.get("to-layer")) for edge in root.iterfind("edges/edge")]
    if not names or any(names.get(end) is None for edge in ends for end in edge):
        raise refused("XML without layers and the edges between them", "pass the path of OpenVINO's .xml")
    parameters = [Attr("parameters", AttrValue(s=b""))]
    nodes = [NodeDef(names[to], "op", [names[start]], attr=parameters) for start, to in ends]
    return encode(GraphDef(nodes, Versions(PRODUCER)))


def unique(nodes: list[Node]) -> list[Node]:
    """Return the nodes under unique names."""
    return list({node.name: node for node in nodes}.values())
