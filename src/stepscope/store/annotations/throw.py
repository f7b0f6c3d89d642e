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
    family = [each for each in log.runs() if each is run or each.base == name]
    writing = next((each.name for each in family if each.state == "running"), None)
    if writing is not None:
        raise UsageError(f"{writing!r} is still being written", hint="stop it first, or archive it")
    kept = [each.name for each in log.runs() if each not in family]
    files = [Path(file) for each in family for writer in each.writers for file in writer.files]
    return Trash(log.path).throw(name, files, others=kept)
