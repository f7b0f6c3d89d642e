"""Point clouds and meshes: a tag for the points, one for the faces, one for the colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import Value
from stepscope.events.tensors import numbers, tensor
from stepscope.events.wire import Message, decode, encode, message, wire

PLUGIN = "mesh"
PartName = Literal["vertices", "faces", "colors"]
_PARTS: dict[int, PartName] = {1: "vertices", 2: "faces", 3: "colors"}
PARTS: dict[str, int] = {part: number for number, part in _PARTS.items()}
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


@dataclass(frozen=True, slots=True)
class MeshPart:
    """Which part of which mesh a tag holds.

    Attributes:
        mesh: The tag under which it was recorded.
    """

    mesh: str
    part: PartName


def part_of(tag: str, content: bytes) -> MeshPart:
    """Return the part of a mesh that a tag holds; points alone if its plugin does not say.

    The name in the plugin's content lacks the scopes of the tag, so the mesh is the tag without its ending.
    """
    try:
        part = _PARTS.get(decode(Content, content).content_type)
    except EventFileError:
        part = None
    return (
        MeshPart(tag, "vertices") if part is None else MeshPart(tag.removesuffix(f"_{_SUFFIX[part]}"), part)
    )


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
