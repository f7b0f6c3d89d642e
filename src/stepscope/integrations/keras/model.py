"""A model as it is recorded: its facts, the graph of its layers, and its weights and embeddings per epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from stepscope.events.kinds.graph import Node
from stepscope.events.messages import DataClass, Metadata, Tensor, Value
from stepscope.integrations.keras import rates, weights
from stepscope.integrations.keras.weights import Metadata as LabelFiles
from stepscope.record import Run
from stepscope.scrub import utf8

KERAS_PLUGIN, KERAS_TAG = "graph_keras_model", "keras"


class ModelRecorder:
    """Records a model's structure once it is known, and its weights as epochs end.

    Args:
        graph: Whether to record the graph of the layers.
        histograms: Every how many epochs the weights are recorded; 0 for never.
        images: Whether to record them as images, too.
        embeddings: Every how many epochs ``Embedding`` layers are recorded; 0 for never.
        labels: Files of labels for these.
    """

    def __init__(
        self, *, graph: bool, histograms: int, images: bool, embeddings: int, labels: LabelFiles
    ) -> None:
        self._graph, self._histograms, self._images = graph, histograms, images
        self._embeddings, self._labels = embeddings, labels
        self._unbuilt = False

    def describe(self, run: Run, model: Any, params: Mapping[str, Any]) -> None:
        """Record the model's structure, before its first batch.

        Args:
            run: Where to.
            model: The model.
            params: What ``fit`` tells its callbacks.
        """
        facts = facts_of(model, params)
        run.describe({key: value for key, value in facts.items() if key not in run.config})
        self._unbuilt = not getattr(model, "built", False)
        if self._graph and run.role.writes and not self._unbuilt:
            self._draw(run, model)

    def describe_built(self, run: Run, model: Any, params: Mapping[str, Any]) -> None:
        """Record it again after its first epoch, where it was not built before."""
        if self._unbuilt and getattr(model, "built", False):
            self.describe(run, model, params)

    def epoch_ended(self, run: Run, model: Any, epoch: int, step: int) -> None:
        """Record the weights and embeddings that are due with this epoch, on the rank that writes."""
        if not run.role.writes:
            return
        if self._histograms and epoch % self._histograms == 0:
            weights.record_weights(run, model, step, images=self._images)
        if self._embeddings and epoch % self._embeddings == 0:
            weights.record_embeddings(run, model, step, self._labels)

    def _draw(self, run: Run, model: Any) -> None:
        """Record the graph of the layers and, for TensorBoard, the model's own description."""
        found = nodes(model)
        if found:
            run.graph(found, step=0)
        try:
            value = description(model)
        except Exception:  # noqa: BLE001  a model of the user's own need not say what it is made of
            return
        run.event(lambda: [value], 0, tag=KERAS_TAG)


def nodes(model: Any) -> list[Node]:
    """Return a node for each use of a layer, with the ones it takes its inputs from.

    Models within the model become scopes. For a model that is not a graph of layers, such as one that defines
    ``call``, only the layers are known and not their connections.
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
    return Value(KERAS_TAG, tensor=Tensor.of_texts(utf8(text)), metadata=metadata)


def facts_of(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return names and sizes of a model and its training, for the run's configuration.

    Args:
        model: A compiled model.
        params: What ``fit`` passes to its callbacks.
    """
    optimizer = getattr(model, "optimizer", None)
    rate = rates.readings(optimizer)
    found = {
        "framework": f"keras {keras.__version__} on {keras.backend.backend()}",
        "model": getattr(model, "name", type(model).__name__),
        "parameters": parameters(model),
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "learning_rate": rate.get("optimizer/lr"),
        "epochs": params.get("epochs"),
        "steps_per_epoch": params.get("steps"),
    }
    return {key: value for key, value in found.items() if value is not None}


def parameters(model: Any) -> int | None:
    """Return how many numbers are trained; None for a model that has no weights before its first batch."""
    if not getattr(model, "built", False):
        return None
    return sum(size(weight) for weight in model.trainable_weights)


def size(weight: Any) -> int:
    """Return how many numbers a weight holds."""
    count = 1
    for length in weight.shape:
        count *= int(length)
    return count
