"""The objects that scripts use below ``SummaryWriter``: its ``file_writer`` and ``_get_file_writer()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.compat.dialect import whole
from stepscope.events.messages import Event, Summary, TaggedRunMetadata, decode_event
from stepscope.events.wire import decode

if TYPE_CHECKING:
    from stepscope.compat.base import Base


class Added:
    """Takes events, summaries and graphs as protocol buffers, or serialized."""

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
        writer: Whose run what is added goes to.
    """

    def __init__(self, writer: Base) -> None:
        self._writer = writer

    @property
    def event_writer(self) -> OwnFile:
        """The object that takes events: this one."""
        return self

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self._writer.get_logdir()

    def flush(self) -> None:
        """Write everything that was added."""
        self._writer.flush()

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def reopen(self) -> None:
        """Do nothing: what is added after ``close`` opens the run again by itself."""

    def _profile_tag(self) -> str:
        return self._writer._dialect.profile_tag

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        at, when = self._writer._place(step or None, wall)
        self._writer._run.event(lambda: event, at, nbytes=1024, tag="file_writer", wall=when)


def _bytes(message: Any) -> bytes:
    return bytes(message) if isinstance(message, bytes | bytearray) else bytes(message.SerializeToString())
