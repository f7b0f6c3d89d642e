"""The two files of a run: what was logged, and beside it what the run says of itself.

Both are framed as event files are. Only the first has the name of one, so that TensorBoard and other readers
of event files find what was logged and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stepscope.events.messages import Event
from stepscope.events.writer import EventWriter

PREFIX = "stepscope/"
"""Of tags that a run records by itself: its state, cost, findings and profiles."""


class RunWriter:
    """Writes the event file of a run and the file beside it; as ``EventWriter`` in all else.

    Args:
        directory: Of the run.
        open_log: Makes the event file.
        own_file: Whether there is a file beside it; else all goes into the event file.
    """

    def __init__(
        self,
        directory: str,
        open_log: Callable[[str], EventWriter] = EventWriter,
        *,
        own_file: bool = True,
    ) -> None:
        self._log = open_log(directory)
        try:
            self._own = EventWriter(directory, beside=Path(self._log.path)) if own_file else self._log
        except OSError:
            self._log.abandon()
            Path(self._log.path).unlink(missing_ok=True)
            raise
        self._files = [self._log] if self._own is self._log else [self._log, self._own]

    @property
    def path(self) -> str | os.PathLike[str]:
        """The event file."""
        return self._log.path

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [file.path for file in self._files]

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written."""
        return sum(file.buffered_bytes for file in self._files)

    @property
    def bytes_written(self) -> int:
        """What reached the files, in bytes."""
        return sum(file.bytes_written for file in self._files)

    def scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Add a scalar."""
        self._of(tag).scalar(tag, value, step, wall_time)

    def scalars(self, values: list[tuple[str, float]], step: int, wall_time: float) -> None:
        """Add several of one step and time, all of the run itself or none."""
        self._of(values[0][0] if values else "").scalars(values, step, wall_time)

    def records(self, data: bytes) -> None:
        """Add whole records of what was logged."""
        self._log.records(data)

    def event(self, event: Event) -> None:
        """Add any event; its first tag says whose it is."""
        values = event.values
        self._of(values[0].tag if values else "").event(event)

    def flush(self, sync: bool = False) -> None:
        """Write what is buffered. Raises OSError; what was not written stays buffered."""
        for file in self._files:
            file.flush(sync)

    def close(self) -> None:
        """Write what is buffered and close the files, also where writing fails."""
        try:
            self._log.close()
        finally:
            self._own.close()

    def abandon(self) -> None:
        """Close the files without writing what is buffered."""
        for file in self._files:
            file.abandon()

    def _of(self, tag: str) -> EventWriter:
        return self._own if tag.startswith(PREFIX) else self._log
