"""Runs beside a run, one per line of ``add_scalars``: plain event files, written on the background thread."""

from __future__ import annotations

import os
import time
from typing import Any

from stepscope.events.writer import EventWriter
from stepscope.record.pending import Pending


class Branch:
    """An event file of its own; what is put into it is with the operating system at once.

    Args:
        directory: Of the run.
        suffix: Of the file's name.
    """

    def __init__(self, directory: str, suffix: str) -> None:
        self.directory, self._suffix = directory, suffix
        self._writer: EventWriter | None = None

    def put(self, tag: str, value: float | Pending, step: int | Pending, wall: float | None) -> None:
        """Write a number. Runs on the background thread, as everything here does."""
        if self._writer is None:
            self._writer = EventWriter(self.directory, suffix=self._suffix)
        number = value if isinstance(value, float) else value.read()
        at = step if isinstance(step, int) else int(step.read())
        self._writer.scalar(tag, number, at, time.time() if wall is None else wall)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class Branches:
    """All of them, by directory."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._known: dict[str, Branch] = {}

    def get(self, *parts: str) -> Branch:
        """Return the one of a directory."""
        directory = os.path.join(*parts)  # noqa: PTH118  as text, as the original makes it
        found = self._known.get(directory)
        if found is None:
            found = self._known[directory] = Branch(directory, self._suffix)
        return found

    def close(self) -> None:
        """Close them all; their run has been closed before."""
        for branch in self._known.values():
            branch.close()
        self._known = {}

    def __iter__(self) -> Any:
        return iter(list(self._known.values()))
