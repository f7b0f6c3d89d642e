"""Kinds of summaries that tags hold, and how their values are found in events."""

from __future__ import annotations

from typing import Any

from stepscope.errors import EventFileError
from stepscope.events import Event
from stepscope.events.kinds.reading import Kind, kind_of, read_value

__all__ = ["ABOUT_THE_RUN", "BEFORE_A_SESSION", "Kind", "decode", "kind_of"]

ABOUT_THE_RUN = ("stepscope", "hparams")
"""Kinds that describe the run and are not results of a step."""
BEFORE_A_SESSION = (*ABOUT_THE_RUN, "graph", "run_metadata", "keras_model")
"""Kinds that a writer may record before its session starts: the Estimator writes the graph then."""


def decode(kind: Kind, event: Event, index: int) -> Any:
    """Return a value in the type of its kind; ``StoredRun.record`` lists these types.

    Args:
        kind: Kind of the tag.
        event: The event that holds it.
        index: Index of the value in the event.

    Raises:
        EventFileError: It does not fit its plugin.
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
    return read_value(kind, event.values[index])
