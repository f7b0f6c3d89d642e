"""Point clouds and meshes: a tag for the points, one for the faces, one for the colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import Value
from stepscope.events.tensors import numbers, tensor
from stepscope.events.wire import Message, encode, message, wire

PLUGIN = "mesh"
PARTS = {"vertices": 1, "faces": 2, "colors": 3}
"""MeshPluginData.ContentType."""
_SUFFIX = {"vertices": "VERTEX", "faces": "FACE", "colors": "COLOR"}


@message
class Content(Message):
    """MeshPluginData."""

    version: int = wire(1, "int32")
    name: str = wire(2, "string")
    content_type: int = wire(3, "int32")
    json_config: str = wire(5, "string")
    shape: list[int] = wire(6, "int32", repeated=True)
    components: int = wire(7, "uint32")


def values(
    tag: str, parts: Mapping[str, NDArray[Any]], config: str = "{}", *, description: str = ""
) -> list[Value]:
    """Return the values that record a mesh.

    Args:
        tag: Name of the series.
        parts: ``vertices`` and perhaps ``faces`` and ``colors``, each [batch, n, 3].
        config: JSON of the settings of THREE.js.
        description: Markdown.
    """
    components = sum(1 << PARTS[name] for name in parts)
    values = []
    for name, data in parts.items():
        content = Content(
            name=tag,
            content_type=PARTS[name],
            json_config=config,
            shape=list(data.shape),
            components=components,
        )
        kind = np.int32 if name == "faces" else np.uint8 if name == "colors" else np.float32
        stored = tensor(np.ascontiguousarray(data, kind))
        series = f"{tag}_{_SUFFIX[name]}"
        values.append(Value.of(series, PLUGIN, stored, encode(content), description=description))
    return values


def read(value: Value) -> NDArray[Any]:
    """Return the part of a mesh that a tag holds, [batch, n, 3].

    Raises:
        EventFileError: It is not one.
    """
    part = numbers(value.tensor, "a mesh")
    if part.ndim != 3:
        raise EventFileError(f"a mesh has 3 dimensions, found shape {list(part.shape)}", hint=UNUSUAL_SUMMARY)
    return part
