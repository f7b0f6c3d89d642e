"""Answers to ``GET changelog``: what changed in a run, when, and in which order."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepscope.health.changes import ChangeGroup, LoggedChange
from stepscope.health.finding import plain
from stepscope.lru import Lru
from stepscope.serve.encode import encoded
from stepscope.serve.reply import run_of
from stepscope.serve.routes import get
from stepscope.store import Log

KEPT = 64
"""Runs whose answers are kept."""
MOST = 200
"""Most groups of one answer, the first ones; the rest are only counted."""


class ChangeLogLine(msgspec.Struct, frozen=True):
    """One change of a run."""

    source: str
    """``series``, ``setting``, ``attempt`` or ``finding``."""
    tag: str
    """The series; empty for an attempt or a finding."""
    part: str
    """The part of the run that the series belongs to; empty for the run itself."""
    rank: int | None
    kind: str
    """``jump``, ``drift``, ``not finite``, ``finite again``, ``stopped`` or ``counter``."""
    text: str
    """One sentence without its step."""
    first_step: int
    """First step at which it may have begun."""
    last_step: int
    before: float | str | None
    """Level before it; a number that is not finite is text."""
    after: float | str | None
    lasts: bool
    """Whether the series has not come back since."""


class ChangeLogGroup(msgspec.Struct, frozen=True):
    """Changes that may have begun at the same time, causes first."""

    first_step: int
    last_step: int
    wall: float
    main: bool
    """Whether it holds more than changes of side series, such as those of layers."""
    text: str
    """All of it as one sentence, with its steps."""
    changes: list[ChangeLogLine]


class ChangeLog(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/changelog?run=``: all changes of a run, in the order of time."""

    run: str
    groups: list[ChangeLogGroup]
    more: int
    """Groups beyond the most that are sent."""


class ChangeAnswers:
    """Computes change logs when somebody asks, and keeps them until their run has new points."""

    def __init__(self) -> None:
        self._answers: Lru[str, tuple[int, bytes]] = Lru(KEPT)
        self._lock = threading.Lock()

    @get("changelog", ChangeLog)
    def answer(self, run: Annotated[str, Meta(description="name of a run")], log: Log | None) -> bytes:
        """Return the changes of a run.

        Raises:
            Refusal: No such run.
        """
        _, stored = run_of(log, run)
        generation = max(each.generation for each in (stored, *stored.parts))
        with self._lock:
            kept = self._answers.get(run)
            if kept is not None and kept[0] == generation:
                return kept[1]
            groups = stored.changes()
            sent = [group_of(group) for group in groups[:MOST]]
            body = encoded(ChangeLog(run, sent, max(len(groups) - MOST, 0)))
            self._answers.put(run, (generation, body))
            return body


def group_of(group: ChangeGroup) -> ChangeLogGroup:
    """Return a group as it travels."""
    changes = [change_of(each) for each in group.changes]
    return ChangeLogGroup(group.first_step, group.last_step, group.wall, group.main, group.text, changes)


def change_of(logged: LoggedChange) -> ChangeLogLine:
    """Return a change as it travels."""
    change = logged.change
    before: Any = plain(change.before)
    after: Any = plain(change.after)
    return ChangeLogLine(
        logged.source, logged.tag, logged.run, logged.rank, change.kind, logged.text, change.first_step,
        change.last_step, before, after, change.lasts,
    )  # fmt: skip
