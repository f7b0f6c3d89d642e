"""Answer to ``GET report``: the report of a run as a file to keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.errors import UnknownRunError
from stepscope.serve.reply import refusing
from stepscope.serve.report import report
from stepscope.store.annotations import Notes

if TYPE_CHECKING:
    from stepscope.store import Log


@dataclass(frozen=True)
class ReportFile:
    """A report, and what to call its file."""

    text: str
    file_name: str


def answer(name: str, log: Log | None) -> ReportFile:
    """Return the report of a run.

    Raises:
        Refusal: There is no such run.
    """
    with refusing():
        if log is None:
            raise UnknownRunError(f"no run {name!r}", hint="nothing has been read yet")
        log.run(name)
        notes = Notes(log.path)
        notes.refresh()
        text = report(log, name, notes[name])
    own = log.path.name if name == "." else name
    return ReportFile(text, f"{re.sub(r'[^A-Za-z0-9._=-]+', '-', own).strip('-.') or 'run'}.html")
