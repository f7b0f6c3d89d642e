"""Point clouds and meshes: a tag for the points, one for the faces, one for the colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import DataClass, Metadata, Value
from stepscope.events.tensors import held_array, tensor
from stepscope.events.wire import Message, decode, encode, message, wire

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
        tag: Its series.
        parts: ``vertices`` and perhaps ``faces`` and ``colors``, each [batch, n, 3].
        config: JSON of the settings of THREE.js.
        description: Markdown.
    """
    components = sum(1 << PARTS[name] for name in parts)
    found = []
    for name, data in parts.items():
        content = Content(
            name=tag,
            content_type=PARTS[name],
            json_config=config,
            shape=list(data.shape),
            components=components,
        )
        metadata = Metadata.of(
            PLUGIN, encode(content), data_class=int(DataClass.TENSOR), summary_description=description
        )
        kind = np.int32 if name == "faces" else np.uint8 if name == "colors" else np.float32
        stored = tensor(np.ascontiguousarray(data, kind))
        found.append(Value(f"{tag}_{_SUFFIX[name]}", tensor=stored, metadata=metadata))
    return found


def read(value: Value) -> NDArray[Any]:
    """Return the part of a mesh that a tag holds, [batch, n, 3].

    Raises:
        EventFileError: It is not one.
    """
    if value.tensor is None:
        raise EventFileError("a mesh without a tensor", hint=UNUSUAL_SUMMARY)
    found = held_array(value.tensor)
    if found.dtype.kind not in "fiu":
        raise EventFileError(f"a mesh has numbers, found {found.dtype}", hint=UNUSUAL_SUMMARY)
    if found.ndim != 3:
        raise EventFileError(
            f"a mesh has 3 dimensions, found shape {list(found.shape)}", hint=UNUSUAL_SUMMARY
        )
    return found


def part_of(content: bytes) -> tuple[str, str]:
    """Return name and part (``vertices faces colors``) from the plugin data of a mesh's tag.

    Raises:
        EventFileError: The bytes are no such data.
    """
    found = decode(Content, content)
    part = next((name for name, number in PARTS.items() if number == found.content_type), "vertices")
    return found.name, part
