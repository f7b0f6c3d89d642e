"""Writes the log of another tool as the event file of a run."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope.adopt.log import Log
from stepscope.errors import LogDirectoryError
from stepscope.events.hparams import start_value
from stepscope.events.messages import Event, Summary
from stepscope.events.writer import EventWriter
from stepscope.record.config import flat, plain


def write(log: Log, directory: str | os.PathLike[str]) -> Path:
    """Write a run, so that everything here, TensorBoard too, reads it.

    Args:
        log: The run.
        directory: A log directory; the run's own is that of its name in it.

    Returns:
        The run's directory.

    Raises:
        LogDirectoryError: The run is there already, or cannot be written.
    """
    target = Path(directory, log.name)
    if target.exists() and any(target.iterdir()):
        raise LogDirectoryError(
            "a run of this name is there already",
            path=target,
            hint="give another name (--name), or delete it",
        )
    first = log.rows[0].wall_time
    try:
        writer = EventWriter(target, suffix=".imported", clock=lambda: first)
        if settings := flat(plain(log.settings)):
            values = [start_value(settings, start_time_secs=first)]
            writer.event(Event(first, 0, summary=Summary(values)))
        for row in log.rows:
            writer.scalars(row.values.items(), row.step, row.wall_time)
        writer.close()
    except OSError as error:
        raise LogDirectoryError(f"cannot be written: {error.strerror}", path=target) from error
    return target
