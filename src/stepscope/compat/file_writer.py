"""The objects that scripts use below ``SummaryWriter``: its ``file_writer`` and ``_get_file_writer()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.compat.dialect import whole
from stepscope.events.messages import Event, Summary, TaggedRunMetadata, decode_event
from stepscope.events.wire import decode


class Added:
    """Accepts events, summaries and graphs as protocol buffers, or serialized."""

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Add an Event message."""
        found = decode_event(_bytes(event))
        self._put(found, found.step if step is None else whole(step), walltime)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a Summary message, or a serialized one."""
        step = 0 if global_step is None else whole(global_step)
        self._put(Event(summary=decode(Summary, _bytes(summary))), step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Add a GraphDef and the RunMetadata that belongs to it."""
        graph, measured = graph_profile
        self._put(Event(graph_def=_bytes(graph)), 0, walltime)
        metadata = TaggedRunMetadata(self._profile_tag(), _bytes(measured))
        self._put(Event(tagged_run_metadata=metadata), 0, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Add a GraphDef."""
        self._put(Event(graph_def=_bytes(graph)), 0, walltime)

    add_openvino_graph = add_onnx_graph

    def _profile_tag(self) -> str:
        return "step1"

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        raise NotImplementedError


class OwnFile(Added):
    """The file writer of a SummaryWriter.

    Args:
        log_dir: Directory of the run.
        profile_tag: Tag of the measured times of a graph.
        put: Receives an event with its step and wall time.
        flush: Writes everything that was added.
        close: Closes the writer.
    """

    def __init__(
        self,
        log_dir: str,
        profile_tag: str,
        *,
        put: Callable[[Event, Any, float | None], None],
        flush: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self._log_dir, self._tag = log_dir, profile_tag
        self._take, self._flush, self._close = put, flush, close

    @property
    def event_writer(self) -> OwnFile:
        """The object that accepts events: this one."""
        return self

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self._log_dir

    def flush(self) -> None:
        """Write everything that was added."""
        self._flush()

    def close(self) -> None:
        """Close the writer."""
        self._close()

    def reopen(self) -> None:
        """Do nothing: adding something after ``close`` opens the run again by itself."""

    def _profile_tag(self) -> str:
        return self._tag

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        self._take(event, step, wall)


def _bytes(message: Any) -> bytes:
    return bytes(message) if isinstance(message, bytes | bytearray) else bytes(message.SerializeToString())
