"""What scripts reach for below ``SummaryWriter``: ``writer.file_writer``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.events.messages import Event, Summary, decode_event
from stepscope.events.wire import decode

if TYPE_CHECKING:
    from stepscope.compat.base import Base


class FileWriter:
    """Takes events and summaries as protocol buffers.

    Args:
        writer: Whose run they go to.
    """

    def __init__(self, writer: Base) -> None:
        self._writer = writer

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self._writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Add an Event message."""
        found = decode_event(bytes(event.SerializeToString()))
        self._put(found, found.step if step is None else step, walltime)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a Summary message, or a serialized one."""
        data = summary if isinstance(summary, bytes) else summary.SerializeToString()
        self._put(Event(summary=decode(Summary, bytes(data))), global_step or 0, walltime)

    def flush(self) -> None:
        """Write everything that was added."""
        self._writer.flush()

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def reopen(self) -> None:
        """Do nothing: what is added after ``close`` opens the run again by itself."""

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        self._writer._run.event(lambda: event, step, nbytes=1024, tag="file_writer", wall=wall)
