"""The kinds of values that plugins show, read as their own types, and whether they can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events import hparams, wire
from stepscope.events.kinds import audio, histogram, image, layout, mesh, pr_curve, text
from stepscope.events.messages import Audio as OldAudio
from stepscope.events.messages import Histogram, Image, Tensor, Value
from stepscope.events.tensors import has_numpy_type, held_array
from stepscope.events.wire import Message, decode

M = TypeVar("M", bound=Message)
Kind = Literal[
    "histogram",
    "image",
    "video",
    "audio",
    "text",
    "table",
    "pr_curve",
    "mesh",
    "hparams",
    "layout",
    "graph",
    "run_metadata",
    "keras_model",
    "embedding",
    "tensor",
    "stepscope",
    "other",
]

_KINDS: dict[str, Kind] = {
    histogram.PLUGIN: "histogram",
    image.PLUGIN: "image",
    image.VIDEO_PLUGIN: "video",
    audio.PLUGIN: "audio",
    text.PLUGIN: "text",
    text.TABLE_PLUGIN: "table",
    pr_curve.PLUGIN: "pr_curve",
    mesh.PLUGIN: "mesh",
    "hparams": "hparams",
    layout.PLUGIN: "layout",
    "graphs": "graph",
    "graph_tagged_run_metadata": "run_metadata",
    "graph_run_metadata": "run_metadata",
    "graph_run_metadata_graph": "run_metadata",
    "graph_keras_model": "keras_model",
    "stepscope_embedding": "embedding",
    "tensor": "tensor",
    "stepscope": "stepscope",
}
_OLD: dict[int, dict[str, Any]] = {
    4: {"image": Image()},
    5: {"histo": Histogram()},
    6: {"audio": OldAudio()},
}
"""Values of the old style, by their field in Summary.Value."""
_NUMBERS = ("histogram", "pr_curve", "mesh")
"""Kinds whose type and shape decide whether they can be read, not their content."""
_LIMIT = 4096
"""Number of different tensor headers that are remembered."""


def kind_of(plugin: str, content: bytes) -> Kind:
    """Return the kind of a tag, from the plugin that shows it and the plugin's content."""
    if plugin == image.PLUGIN and image.VIDEO in content:
        return "video"
    return _KINDS.get(plugin, "other")


def read_value(kind: Kind, value: Value) -> Any:
    """Return a value as its kind's own type.

    Raises:
        EventFileError: It does not fit its plugin.
    """
    return _READERS.get(kind, _plain)(value)


class Checks:
    """Decides which values fit their plugins, before anybody asks for them."""

    def __init__(self) -> None:
        self._known: set[tuple[str, bytes]] = set()
        self._last: dict[str, tuple[int, bytes]] = {}

    def holds(self, plugin: str, content: bytes, number: int, body: bytes) -> bool:
        """Return whether a value can be read.

        Args:
            plugin: Of its tag.
            content: The plugin's content.
            number: Of the field of Summary.Value that is set, 0 for none.
            body: That field, if it is a tensor.
        """
        size, before = self._last.get(plugin, (-1, b""))
        if number == 8 and size == len(body) and body.startswith(before):
            return True
        kind = kind_of(plugin, content)
        if kind == "hparams":
            return _decoded(hparams.PluginContent, content) is not None
        if number != 8:
            return _reads(kind, Value(**_OLD.get(number, {})))
        beginning = body[: numbers_at(memoryview(body))] if kind in _NUMBERS else b""
        if beginning and (kind, beginning) in self._known:
            self._last[plugin] = len(body), beginning
            return True
        tensor = _decoded(Tensor, body)
        readable = tensor is not None and _reads(kind, Value(tensor=tensor))
        if readable and beginning and len(self._known) < _LIMIT:
            self._known.add((kind, beginning))
        return readable


def _reads(kind: Kind, value: Value) -> bool:
    try:
        read_value(kind, value)
    except EventFileError:
        return False
    return True


def _decoded(kind: type[M], data: bytes) -> M | None:
    try:
        return decode(kind, data)
    except EventFileError:
        return None


def numbers_at(tensor: memoryview) -> int:
    """Return the start of the numbers at the end of a serialized tensor, 0 if it ends otherwise.

    The bytes before say type, shape and how many bytes of numbers there are.
    """
    at, end = 0, len(tensor)
    try:
        while at < end:
            key = tensor[at]
            value, after = wire.read_value(tensor, at + 1, key & 7, key)
            if after == end:  # content, floats, doubles
                return end - len(value) if key in (0x22, 0x2A, 0x32) else 0
            at = after
    except EventFileError:
        pass
    return 0


# --- readers ----------------------------------------------------------------------------------------


def _single(value: Value) -> bytes:
    if value.tensor is None or not value.tensor.string_val:
        raise EventFileError("a blob without its bytes", hint=UNUSUAL_SUMMARY)
    return value.tensor.string_val[0]


def _json(value: Value) -> Any:
    try:
        return json.loads(_single(value))
    except (ValueError, RecursionError) as error:
        raise EventFileError(f"not JSON: {error}", hint=UNUSUAL_SUMMARY) from error


def _plain(value: Value) -> Any:
    return value if value.tensor is None or not has_numpy_type(value.tensor) else held_array(value.tensor)


_READERS: dict[Kind, Callable[[Value], Any]] = {
    "histogram": histogram.read,
    "image": image.read,
    "video": image.read,
    "audio": audio.read,
    "text": text.read,
    "table": text.read_table,
    "pr_curve": pr_curve.read,
    "mesh": mesh.read,
    "hparams": hparams.read,
    "layout": layout.read,
    "graph": _single,
    "run_metadata": _single,
    "keras_model": _single,
    "embedding": _json,
    "stepscope": _json,
}
