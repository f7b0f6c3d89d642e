"""A run in the shape of TensorFlow 1's ``FileWriter``, for hooks and code that want one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.events.messages import (
    Event,
    SessionLog,
    SessionStatus,
    Summary,
    TaggedRunMetadata,
    Value,
)
from stepscope.events.wire import decode
from stepscope.record import Run


class RunWriter:
    """Writes the summaries of TensorFlow's hooks into a run, under its own tags.

    Args:
        run: The run to record into.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def get_logdir(self) -> str:
        """Return the run's directory."""
        return str(self.run.log_dir)

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Record a Summary, serialized or not."""
        data = summary if isinstance(summary, bytes) else summary.SerializeToString()
        record_summary(self.run, data, global_step)

    def add_event(self, event: Any) -> None:
        """Record an Event with the step it has."""
        data = event.SerializeToString()
        self._later(lambda: decode(Event, data), event.step, data, "an event")

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Record that a checkpoint was saved. The run itself records the session's beginning and end."""
        if session_log.status == SessionStatus.CHECKPOINT:
            data = session_log.SerializeToString()
            self._later(
                lambda: Event(session_log=decode(SessionLog, data)), global_step, data, "a checkpoint"
            )

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Record a graph."""
        graph_def = graph.as_graph_def(add_shapes=True) if graph is not None else graph_def
        data = graph_def.SerializeToString()
        self._later(lambda: Event(graph_def=data), global_step, data, "a graph")

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Record a MetaGraphDef."""
        data = meta_graph_def.SerializeToString()
        self._later(lambda: Event(meta_graph_def=data), global_step, data, "a meta graph")

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Record the metadata of a traced step."""
        data = run_metadata.SerializeToString()
        self._later(lambda: Event(tagged_run_metadata=TaggedRunMetadata(tag, data)), global_step, data, tag)

    def flush(self) -> None:
        """Write everything soon; the run does so by itself within a second."""
        self.run.flush_soon()

    def close(self) -> None:
        """Do the same: the run is its maker's to close."""
        self.flush()

    def reopen(self) -> None:
        """Do nothing: the run is open."""

    def _later(self, make: Callable[[], Event], step: Any, data: bytes, tag: str) -> None:
        self.run.event(make, int(step or 0), nbytes=len(data), tag=tag)


def record_summary(run: Run, data: bytes, step: Any, skip: str = "") -> None:
    """Record the values of a Summary: numbers as such, everything else as it is.

    Args:
        run: The run to record into.
        data: The serialized Summary.
        step: Of its values.
        skip: A tag that is recorded elsewhere.
    """
    step = None if step is None else int(step)
    others: list[Value] = []
    for value in decode(Summary, data).value:
        if value.tag == skip:
            continue
        if value.simple_value is not None:
            run.scalar(value.tag, value.simple_value, step)
        else:
            others.append(value)
    if others:
        run.event(lambda: others, step, nbytes=len(data), tag=others[0].tag)
