"""Models in files as graphs: ONNX and OpenVINO's XML. Only their structure is read, no weight is."""

# ruff: noqa: RUF009 - ``wire`` makes a dataclass field, no shared default

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from stepscope.errors import EventFileError
from stepscope.events.kinds.graph import Node, node_name
from stepscope.events.wire import Message, decode, message, wire
from stepscope.record.summary_encoder import refused


@message
@dataclass
class OnnxNode(Message):
    """onnx.NodeProto."""

    input: list[str] = wire(1, "string", repeated=True)
    output: list[str] = wire(2, "string", repeated=True)
    name: str = wire(3, "string")
    op_type: str = wire(4, "string")


@message
@dataclass
class OnnxValue(Message):
    """onnx.ValueInfoProto, and onnx.TensorProto as far as its name goes."""

    name: str = wire(1, "string")


@message
@dataclass
class OnnxTensor(Message):
    """onnx.TensorProto; its values stay unread."""

    dims: list[int] = wire(1, "int64", repeated=True)
    name: str = wire(8, "string")


@message
@dataclass
class OnnxGraph(Message):
    """onnx.GraphProto."""

    node: list[OnnxNode] = wire(1, OnnxNode, repeated=True)
    name: str = wire(2, "string")
    initializer: list[OnnxTensor] = wire(5, OnnxTensor, repeated=True)
    input: list[OnnxValue] = wire(11, OnnxValue, repeated=True)
    output: list[OnnxValue] = wire(12, OnnxValue, repeated=True)


@message
@dataclass
class OnnxModel(Message):
    """onnx.ModelProto."""

    graph: OnnxGraph | None = wire(7, OnnxGraph)


def onnx_nodes(file: str | os.PathLike[str]) -> list[Node]:
    """Return the nodes of an ONNX model.

    Raises:
        RefusalError: The file is none.
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


def openvino_nodes(file: str | os.PathLike[str]) -> list[Node]:
    """Return the nodes of an OpenVINO model, from its XML.

    Raises:
        RefusalError: The file is none.
    """
    try:
        root: Any = ElementTree.fromstring(Path(file).read_bytes())  # noqa: S314  the user's own model
    except (OSError, ElementTree.ParseError) as error:
        raise refused(
            f"a file that cannot be read: {error}", "pass the path of OpenVINO's .xml file"
        ) from None
    layers = {layer.get("id"): layer for layer in root.iter("layer")}
    if not layers:
        raise refused("XML without layers", "pass the path of OpenVINO's .xml file")
    names = {key: node_name(layer.get("name") or f"layer{key}") for key, layer in layers.items()}
    inputs: dict[str | None, list[str]] = {}
    for edge in root.iter("edge"):
        inputs.setdefault(edge.get("to-layer"), []).append(names.get(edge.get("from-layer"), "unknown"))
    return unique(
        [Node(names[key], layer.get("type") or "", inputs.get(key, ())) for key, layer in layers.items()]
    )


def unique(nodes: list[Node]) -> list[Node]:
    """Return nodes of which none has the name of another."""
    return list({node.name: node for node in nodes}.values())
