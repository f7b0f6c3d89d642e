"""Kinds of summaries that tags hold, and how their values are taken apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events import Event, Value
from stepscope.events.hparams import decode_content
from stepscope.events.kinds import audio, histogram, image, layout, mesh, pr_curve, text
from stepscope.events.tensors import array

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
ABOUT_THE_RUN = ("stepscope", "hparams")
"""Kinds that say something of the run and are no results of a step."""
BEFORE_A_SESSION = (*ABOUT_THE_RUN, "graph", "run_metadata", "keras_model")
"""Kinds that a writer may record before its session's start: the Estimator writes the graph there."""


def kind_of(plugin: str, content: bytes) -> Kind:
    """Return the kind of a tag, from the plugin that shows it and what that plugin wants to know."""
    if plugin == image.PLUGIN and image.VIDEO in content:
        return "video"
    return _KINDS.get(plugin, "other")


def decode(kind: Kind, event: Event, index: int) -> Any:
    """Return a value as its kind's own type; what those are stands in ``StoredRun.record``.

    Args:
        kind: Of the tag.
        event: That holds it.
        index: Of the value in the event.

    Raises:
        EventFileError: It is not what its plugin says.
    """
    if event.graph_def is not None:
        return event.graph_def
    if event.meta_graph_def is not None:
        return event.meta_graph_def
    if event.tagged_run_metadata is not None:
        return event.tagged_run_metadata.run_metadata
    if event.log_message is not None:
        return event.log_message.message
    if index >= len(event.values):
        raise EventFileError("the event has no such value", hint="the file was replaced: open it again")
    return _DECODERS.get(kind, _plain)(event.values[index])


def _hparams(value: Value) -> dict[str, Any]:
    content = value.metadata.plugin_data.content if value.metadata and value.metadata.plugin_data else b""
    found = decode_content(content)
    if found.session_start_info:
        return found.session_start_info.hparams
    if found.experiment:
        return found.experiment.facts
    return {"status": found.session_end_info.status} if found.session_end_info else {}


def _single(value: Value) -> bytes:
    if value.tensor is None or not value.tensor.string_val:
        raise EventFileError("a blob without its bytes", hint=UNUSUAL_SUMMARY)
    return value.tensor.string_val[0]


def _json(value: Value) -> Any:
    try:
        return json.loads(_single(value))
    except ValueError as error:
        raise EventFileError(f"no JSON: {error}", hint=UNUSUAL_SUMMARY) from error


def _plain(value: Value) -> Any:
    return value if value.tensor is None else array(value.tensor)


_DECODERS: dict[Kind, Callable[[Value], Any]] = {
    "histogram": histogram.read,
    "image": image.read,
    "video": image.read,
    "audio": audio.read,
    "text": text.read,
    "table": text.read_table,
    "pr_curve": pr_curve.read,
    "mesh": mesh.read,
    "hparams": _hparams,
    "layout": layout.read,
    "graph": _single,
    "run_metadata": _single,
    "keras_model": _single,
    "embedding": _json,
    "stepscope": _json,
}
