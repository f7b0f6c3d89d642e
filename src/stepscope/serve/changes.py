"""Answers to ``GET changelog``: what changed in a run, when, and in which order."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.health.changes import ChangeGroup, LoggedChange, only_in
from stepscope.health.finding import plain
from stepscope.health.ring import median
from stepscope.lru import Current
from stepscope.serve.encode import encoded
from stepscope.serve.reply import run_of
from stepscope.serve.routes import get
from stepscope.serve.run_series import StepTag, points_of, step_tags
from stepscope.store import Log, StoredRun
from stepscope.store.run import RECENT

KEPT = 64
"""Runs whose answers are kept."""
MAX_GROUPS = 200
"""Most groups of one answer, the first ones; the rest are only counted."""


class ChangeLogLine(msgspec.Struct, frozen=True):
    """One change of a run."""

    source: str
    """``series setting attempt rank code capture finding`` or ``checkpoint``."""
    tag: str
    """The series; empty for everything else."""
    part: str
    """The part of the run that the series belongs to; empty for the run itself."""
    rank: int | None
    kind: str
    """``jump``, ``drift``, ``not finite``, ``finite again``, ``stopped``, ``counter`` or ``constant``."""
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


class StepTimeBefore(msgspec.Struct, frozen=True):
    """How long steps took before they became longer for good: the levels of that change."""

    step: int
    """First step at which they may have been longer."""
    seconds: float
    wait_s: float | None
    """Of that, waiting for data; None: not recorded."""


class ChangeLog(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/changelog?run=``: all changes of a run, in the order of time."""

    run: str
    groups: list[ChangeLogGroup]
    step_time_before: StepTimeBefore | None
    more: int
    """Groups beyond the most that are sent."""


class ChangeAnswers:
    """Computes change logs when somebody asks, and keeps them until their run has new points."""

    def __init__(self) -> None:
        self._groups: Current[str, list[ChangeGroup]] = Current(KEPT)
        self._answers: Current[tuple[str, str], bytes] = Current(KEPT)
        self._lock = threading.Lock()

    @get("changelog", ChangeLog)
    def answer(
        self,
        run: Annotated[str, Meta(description="name of a run")],
        log: Log | None,
        other: Annotated[str, Meta(description="another run: only what did not change in it, too")] = "",
    ) -> bytes:
        """Return the changes of a run, or those that another run does not have.

        Raises:
            Refusal: No such run.
        """
        runs = [run_of(log, name)[1] for name in ([run, other] if other else [run])]
        state = tuple(one.family_generation for one in runs)
        with self._lock:
            return self._answers.of((run, other), state, lambda: encoded(self._log(run, runs)))

    def lines(self, run: StoredRun) -> list[LoggedChange]:
        """Return the changes of a run in the order of their groups."""
        with self._lock:
            return [line for group in self._of(run) for line in group.changes]

    def _log(self, name: str, runs: list[StoredRun]) -> ChangeLog:
        own, *others = map(self._of, runs)
        groups = own
        for compared in others:
            groups = only_in(groups, compared)
        sent = [
            ChangeLogGroup(
                group.first_step, group.last_step, group.wall, group.main, group.text,
                list(map(change_of, group.changes)),
            )
            for group in groups[:MAX_GROUPS]
        ]  # fmt: skip
        before = step_time_before(runs[0], own)
        return ChangeLog(name, sent, before, max(len(groups) - MAX_GROUPS, 0))

    def _of(self, run: StoredRun) -> list[ChangeGroup]:
        return self._groups.of(run.name, run.family_generation, run.changes)


def step_time_before(run: StoredRun, groups: list[ChangeGroup]) -> StepTimeBefore | None:
    """Return how long steps took before they became longer for good; None if they did not."""
    tags = step_tags(run)
    for group in reversed(groups):
        rises = {change.tag: change.change for change in group.changes if _rises_for_good(change)}
        if (time := tags.get("step_time")) is None or (rise := rises.get(time.tag)) is None:
            continue
        wait = tags.get("data_wait")
        waited = wait and (
            rises[wait.tag].before if wait.tag in rises else _usual(run, wait, rise.first_step)
        )
        return StepTimeBefore(
            rise.first_step,
            float(rise.before or 0.0) * time.seconds,
            None if waited is None or wait is None else waited * wait.seconds,
        )
    return None


def _rises_for_good(logged: LoggedChange) -> bool:
    """Return whether a series of the run itself is on a higher level since."""
    change = logged.change
    if logged.run or logged.rank is not None or change.kind != "jump" or not change.lasts:
        return False
    return change.before is not None and change.after is not None and change.after > change.before


def _usual(run: StoredRun, timed: StepTag, step: int) -> float | None:
    """Return the median of the newest points from before a step."""
    steps, values = points_of(run.columns(timed.tag))
    values = values[(steps < step) & np.isfinite(values)][-RECENT:]
    return median(values) if len(values) else None


def change_of(logged: LoggedChange) -> ChangeLogLine:
    """Return a change as it travels."""
    change = logged.change
    before: Any = plain(change.before)
    after: Any = plain(change.after)
    return ChangeLogLine(
        logged.source, logged.tag, logged.run, logged.rank, change.kind, logged.text, change.first_step,
        change.last_step, before, after, change.lasts,
    )  # fmt: skip
