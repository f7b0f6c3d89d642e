"""The layers of a model as a graph that TensorBoard draws, and the model's own description for it."""

from __future__ import annotations

from typing import Any

from stepscope.events.kinds.graph import Node
from stepscope.events.messages import DataClass, Metadata, Shape, Tensor, Value
from stepscope.events.tensors import STRING
from stepscope.scrub import utf8

KERAS_PLUGIN, KERAS_TAG = "graph_keras_model", "keras"


def nodes(model: Any) -> list[Node]:
    """Return a node for each use of a layer, with the ones it takes its inputs from.

    Models within the model become scopes. Of a model that is no graph of layers, as those that define
    ``call``, only the layers are known and not what goes where.
    """
    found: list[Node] = []
    walk(model, str(model.name), [], found)
    return found


def walk(model: Any, scope: str, sources: list[str], found: list[Node]) -> list[str]:
    """Add the nodes of a model below a scope; return the names of those that give its outputs."""
    graph = getattr(model, "_functional", None) or model
    depths = getattr(graph, "_nodes_by_depth", None)
    if not depths:
        return [name for layer in model.layers for name in add(layer, scope, [], found)]
    made: dict[int, list[str]] = {}
    for depth in sorted(depths, reverse=True):
        for node in depths[depth]:
            layer = getattr(node, "operation", None) or node.layer
            inputs = [name for parent in node.parent_nodes for name in made.get(id(parent), ())]
            made[id(node)] = add(layer, scope, inputs or sources, found)
    return [name for node in depths[0] for name in made[id(node)]]


def add(layer: Any, scope: str, inputs: list[str], found: list[Node]) -> list[str]:
    """Add one layer, or what is in it; return the names of what gives its outputs."""
    taken = {node.name for node in found}
    name = base = f"{scope}/{layer.name}"
    count = 0
    while name in taken or any(other.startswith(f"{name}/") for other in taken):
        count += 1
        name = f"{base}_{count}"
    if getattr(layer, "layers", None):
        return walk(layer, name, inputs, found)
    found.append(Node(name, type(layer).__name__, tuple(inputs)))
    return [name]


def description(model: Any) -> Value:
    """Return the model as its own JSON, from which TensorBoard draws the conceptual graph."""
    text = model.to_json()
    metadata = Metadata.of(KERAS_PLUGIN, b"1", data_class=int(DataClass.BLOB_SEQUENCE))
    return Value(KERAS_TAG, tensor=Tensor(STRING, Shape(), string_val=[utf8(text)]), metadata=metadata)
