"""Deletion of a run of a log: its parts, and whether it may be deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import UsageError
from stepscope.store.annotations.trash import ThrownRun, Trash

if TYPE_CHECKING:
    from stepscope.store.log import Log


def throw_run(log: Log, name: str) -> ThrownRun:
    """Move a run, its evaluation and everything it wrote into the trash.

    Raises:
        UnknownRunError: There is none of this name.
        UsageError: It is part of another run, or still being written.
        LogDirectoryError: It cannot be moved.
    """
    run = log.run(name)
    if run.base != name and any(other.name == run.base for other in log.runs()):
        raise UsageError(f"{name!r} is a part of the run {run.base!r}", hint="delete that run")
    family = [member for member in log.runs() if member is run or member.base == name]
    writing = next((member.name for member in family if member.state == "running"), None)
    if writing is not None:
        raise UsageError(f"{writing!r} is still being written", hint="stop it first, or archive it")
    others = [other.name for other in log.runs() if other not in family]
    files = [Path(file) for member in family for writer in member.writers for file in writer.files]
    return Trash(log.path).throw(name, files, others=others)
