"""Writes the log of another tool as the event file of a run."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from stepscope.adopt.log import Log
from stepscope.errors import LogDirectoryError
from stepscope.events.hparams import start_value
from stepscope.events.messages import Event, Summary
from stepscope.events.writer import EventWriter
from stepscope.record.config import flat, plain

MAX_PART = 100
"""Characters of each part of a run's name: file systems allow 255 bytes."""
_UNFIT = re.compile(r"[\x00-\x1f\x7f\\:]|^\.+")
"""Matches what a part of a path may not have everywhere; names in logs may lead out of the directory."""


def places(logs: Sequence[Log], directory: str | os.PathLike[str]) -> list[Path]:
    """Return the directory of each run, which lies in the log directory whatever the run's name is.

    Runs of one name are numbered from the second on.

    Raises:
        LogDirectoryError: A run is there already.
    """
    chosen: list[Path] = []
    for log in logs:
        parts = [_UNFIT.sub("_", part)[:MAX_PART] for part in log.name.split("/") if part.strip(". ")]
        path = Path(directory, *(parts or ["run"]))
        further = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
        target = next(target for target in itertools.chain([path], further) if target not in chosen)
        if target.exists() and any(target.iterdir()):
            raise LogDirectoryError(
                "a run of this name is there already",
                path=target,
                hint="give another name (--name), or delete it",
            )
        chosen.append(target)
    return chosen


def write(log: Log, target: Path) -> None:
    """Write a run, so that everything here, TensorBoard too, reads it.

    Args:
        log: The run.
        target: The run's directory.

    Raises:
        LogDirectoryError: It cannot be written.
    """
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
        raise LogDirectoryError(
            f"cannot be written: {error.strerror}", hint="give another directory (--to)", path=target
        ) from error
