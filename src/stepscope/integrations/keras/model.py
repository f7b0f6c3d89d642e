"""A Keras model as it is recorded: its facts, its graph, its optimizer's settings, its weights."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from stepscope.errors import RecordError
from stepscope.events.kinds.graph import Node
from stepscope.events.messages import DataClass, Tensor, Value
from stepscope.record import Run
from stepscope.text import utf8

KERAS_PLUGIN, KERAS_TAG = "graph_keras_model", "keras"
Labels = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None


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
        self, *, graph: bool, histograms: int, images: bool, embeddings: int, labels: Labels
    ) -> None:
        self._graph, self._histograms, self._images = graph, histograms, images
        self._embeddings, self._labels = embeddings, labels
        self._unbuilt = False

    def describe(self, run: Run, model: Any, params: Mapping[str, Any]) -> None:
        """Record the model's structure, before its first batch.

        Args:
            run: The run to record into.
            model: The model.
            params: The facts that ``fit`` gives its callbacks.
        """
        facts = facts_of(model, params)
        run.describe({key: value for key, value in facts.items() if key not in run.config})
        self._unbuilt = not getattr(model, "built", False)
        if self._graph and run.role.writes and not self._unbuilt:
            self._draw(run, model)

    def describe_built(self, run: Run, model: Any, params: Mapping[str, Any]) -> None:
        """Record it again after its first epoch, if it was not built before."""
        if self._unbuilt and getattr(model, "built", False):
            self.describe(run, model, params)

    def epoch_ended(self, run: Run, model: Any, epoch: int, step: int) -> None:
        """Record the weights and embeddings that are due with this epoch, on the rank that writes."""
        if not run.role.writes:
            return
        if self._histograms and epoch % self._histograms == 0:
            record_weights(run, model, step, images=self._images)
        if self._embeddings and epoch % self._embeddings == 0:
            record_embeddings(run, model, step, self._labels)

    def _draw(self, run: Run, model: Any) -> None:
        """Record the graph of the layers and, for TensorBoard, the model's own description."""
        graph_nodes = nodes(model)
        if graph_nodes:
            run.graph(graph_nodes, step=0)
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
    graph_nodes: list[Node] = []
    walk(model, str(model.name), [], graph_nodes)
    return graph_nodes


def walk(model: Any, scope: str, sources: list[str], nodes: list[Node]) -> list[str]:
    """Add the nodes of a model below a scope; return the names of those that give its outputs."""
    graph = getattr(model, "_functional", None) or model
    depths = getattr(graph, "_nodes_by_depth", None)
    if not depths:
        return [name for layer in model.layers for name in add(layer, scope, [], nodes)]
    made: dict[int, list[str]] = {}
    for depth in sorted(depths, reverse=True):
        for node in depths[depth]:
            layer = getattr(node, "operation", None) or node.layer
            inputs = [name for parent in node.parent_nodes for name in made.get(id(parent), ())]
            made[id(node)] = add(layer, scope, inputs or sources, nodes)
    return [name for node in depths[0] for name in made[id(node)]]


def add(layer: Any, scope: str, inputs: list[str], nodes: list[Node]) -> list[str]:
    """Add one layer, or its inner ones; return the names of the nodes of its outputs."""
    taken = {node.name for node in nodes}
    name = base = f"{scope}/{layer.name}"
    count = 0
    while name in taken or any(other.startswith(f"{name}/") for other in taken):
        count += 1
        name = f"{base}_{count}"
    if getattr(layer, "layers", None):
        return walk(layer, name, inputs, nodes)
    nodes.append(Node(name, type(layer).__name__, tuple(inputs)))
    return [name]


def description(model: Any) -> Value:
    """Return the model as its own JSON, from which TensorBoard draws the conceptual graph."""
    text = Tensor.of_texts(utf8(model.to_json()))
    return Value.of(KERAS_TAG, KERAS_PLUGIN, text, b"1", data_class=DataClass.BLOB_SEQUENCE)


def facts_of(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return names and sizes of a model and its training, for the run's configuration.

    Args:
        model: A compiled model.
        params: The facts that ``fit`` gives its callbacks.
    """
    optimizer = getattr(model, "optimizer", None)
    rate = readings(optimizer)
    facts_ = {
        "framework": f"keras {keras.__version__} on {keras.backend.backend()}",
        "model": getattr(model, "name", type(model).__name__),
        "parameters": parameters(model),
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "learning_rate": rate.get("optimizer/lr"),
        "epochs": params.get("epochs"),
        "steps_per_epoch": params.get("steps"),
    }
    return {key: value for key, value in facts_.items() if value is not None}


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


def record_weights(run: Run, model: Any, step: int, *, images: bool) -> None:
    """Record the histogram of each weight, and its image if it has one."""
    for weight in model.weights:
        name = str(getattr(weight, "path", weight.name)).replace(":", "_")
        values = held(weight)
        run.histogram(f"weights/{name}/histogram", values, step)
        if images and (pictures := as_images(array(weight))) is not None:
            run.images(f"weights/{name}/image", pictures, step, dataformats="NHWC")


def held(weight: Any) -> Any:
    """Return values for a snapshot: torch's stay on the device; JAX reuses the memory of its arrays."""
    if keras.backend.backend() == "torch":
        return weight.value
    return array(weight)


def as_images(values: NDArray[Any]) -> NDArray[np.float32] | None:
    """Return a weight as images [n, height, width, 1], from black for the least to white for the greatest.

    As in Keras's own callback: a vector is a column, a matrix lies on its side, and of three dimensions each
    slice along the last is an image; others have none.
    """
    values = np.squeeze(values).astype(np.float32)
    if values.ndim == 1:
        values = values[:, None]
    elif values.ndim == 2 and values.shape[0] > values.shape[1]:
        values = values.T
    if values.ndim == 2:
        values = values[None]
    elif values.ndim == 3 and keras.backend.image_data_format() == "channels_last":
        values = values.transpose(2, 0, 1)
    if values.ndim != 3 or not values.size:
        return None
    low, high = np.nanmin(values), np.nanmax(values)
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.ascontiguousarray(scaled[..., None], np.float32)


def record_embeddings(run: Run, model: Any, step: int, metadata: Labels) -> None:
    """Record the matrix of each ``Embedding`` layer for the projector.

    Args:
        run: The run to record into.
        model: Whose layers.
        step: When.
        metadata: A file with a line per row of the matrix, as TensorBoard takes it: of several columns the
            first line names them. Of several layers, files by the name of the layer.

    Raises:
        RecordError: ``metadata`` names a layer that is not there.
    """
    embeddings = [layer for layer in layers(model) if isinstance(layer, keras.layers.Embedding)]
    if isinstance(metadata, Mapping) and (unknown := set(metadata) - {layer.name for layer in embeddings}):
        raise RecordError(
            f"embeddings_metadata names no Embedding layer: {', '.join(sorted(unknown))}",
            hint=f"there are {', '.join(layer.name for layer in embeddings) or 'none'}",
        )
    for layer in embeddings:
        path = metadata.get(layer.name) if isinstance(metadata, Mapping) else metadata
        labels, columns = read_labels(path) if path is not None else (None, None)
        run.embedding(
            f"embeddings/{layer.name}", array(layer.embeddings), step, labels=labels, columns=columns
        )


def layers(model: Any) -> list[Any]:
    """Return the layers of a model and of those within it."""
    members = []
    for layer in getattr(model, "layers", ()):
        members += [layer, *layers(layer)]
    return members


def read_labels(path: str | os.PathLike[str]) -> tuple[list[Any], list[str] | None]:
    """Return the lines of a file of labels, and the names of its columns if there are several."""
    rows = [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    if rows and len(rows[0]) > 1:
        return rows[1:], rows[0]
    return [row[0] for row in rows], None


def readings(optimizer: Any, step: int | None = None) -> dict[str, float]:
    """Return the learning rate and, with mixed precision, the loss scale.

    Several optimizers each have a learning rate of their own, under their name.

    Args:
        optimizer: The model's; None if it is not compiled with one.
        step: Updates done, if only schedules are wanted: on JAX variables cannot be read within an epoch.
    """
    values = {}
    if step is None and (scale := getattr(optimizer, "dynamic_scale", None)) is not None:
        values["gradients/loss_scale"] = number(scale)
    for path, one in parts_of_optimizer(optimizer):
        schedule = getattr(one, "_learning_rate", None)
        rate: Any = None
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            rate = schedule(updates(one) if step is None else step)
        elif step is None:
            rate = getattr(one, "learning_rate", None)
        if rate is not None:
            values[f"{path}/lr"] = number(rate)
    return values


def parts_of_optimizer(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the optimizers that one is made of, with distinguishing names."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(optimizer, "optimizers", None)
    if several:
        for one in several:
            yield f"optimizer/{one.name}", one
    elif optimizer is not None:
        yield "optimizer", optimizer


def updates(optimizer: Any) -> int:
    """Return how many updates an optimizer has made; 0 if it does not say."""
    iterations = getattr(optimizer, "iterations", None)
    return 0 if iterations is None else int(number(iterations))


def batches_per_call(model: Any) -> int:
    """Return how many batches one call of a model's ``train_function`` trains."""
    batches = getattr(model, "steps_per_execution", None)
    return 1 if batches is None else max(int(number(batches)), 1)


def array(value: Any) -> NDArray[Any]:
    """Return a variable, a tensor or a number as an array; this waits for its device."""
    if not hasattr(keras, "ops"):
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if isinstance(value, keras.Variable):
        value = value.value
    if hasattr(value, "detach"):  # Keras's own conversion of torch tensors makes numpy 2 warn
        value = value.detach().cpu()
        return np.asarray((value.float() if value.dtype.itemsize == 2 else value).numpy())
    return np.asarray(keras.ops.convert_to_numpy(value))


def number(value: Any) -> float:
    """Return a variable or tensor of one element as a number."""
    return float(array(value).reshape(()))
