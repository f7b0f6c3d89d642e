"""Weights at the end of an epoch: their distribution, as images, and embeddings for the projector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from stepscope.errors import RecordError
from stepscope.integrations.keras.arrays import array
from stepscope.record import Run

Metadata = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None


def record_weights(run: Run, model: Any, step: int, *, images: bool) -> None:
    """Record the histogram of each weight, and its image where it has one."""
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


def record_embeddings(run: Run, model: Any, step: int, metadata: Metadata) -> None:
    """Record the matrix of each ``Embedding`` layer for the projector.

    Args:
        run: Where to.
        model: Whose layers.
        step: When.
        metadata: A file with a line per row of the matrix, as TensorBoard takes it: of several columns the
            first line names them. Of several layers, files by the name of the layer.

    Raises:
        RecordError: ``metadata`` names a layer that is not there.
    """
    found = [layer for layer in layers(model) if isinstance(layer, keras.layers.Embedding)]
    if isinstance(metadata, Mapping) and (unknown := set(metadata) - {layer.name for layer in found}):
        raise RecordError(
            f"embeddings_metadata names no Embedding layer: {', '.join(sorted(unknown))}",
            hint=f"there are {', '.join(layer.name for layer in found) or 'none'}",
        )
    for layer in found:
        path = metadata.get(layer.name) if isinstance(metadata, Mapping) else metadata
        labels, columns = read_labels(path) if path is not None else (None, None)
        run.embedding(
            f"embeddings/{layer.name}", array(layer.embeddings), step, labels=labels, columns=columns
        )


def layers(model: Any) -> list[Any]:
    """Return the layers of a model and of those within it."""
    found = []
    for layer in getattr(model, "layers", ()):
        found += [layer, *layers(layer)]
    return found


def read_labels(path: str | os.PathLike[str]) -> tuple[list[Any], list[str] | None]:
    """Return the lines of a file of labels, and the names of its columns where there are several."""
    rows = [line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()]
    if rows and len(rows[0]) > 1:
        return rows[1:], rows[0]
    return [row[0] for row in rows], None
