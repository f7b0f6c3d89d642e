"""The card of a program that has ended, from what its processes have written."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscope.cli.causes import causes_of
from stepscope.errors import StepscopeError
from stepscope.events.rank_file import unrecorded_text
from stepscope.files import json_object
from stepscope.names.meanings import meanings_at
from stepscope.record.card import (
    LEFT,
    PYTHON,
    REST,
    RUN,
    SAID,
    UNDIVIDED,
    Best,
    Card,
    StepSums,
    best_of,
    by_cost,
    command_for,
)
from stepscope.record.waits import CPU_WAIT, waited_s
from stepscope.serve.health import report_of
from stepscope.store import Log
from stepscope.store.lines import spent_s, windows_of_run
from stepscope.store.ranks import STAGES, Ranks
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.store.run import StoredRun

MAX_BYTES = 1 << 20
CAUSES_SECS = 30.0
"""How long the card waits for the analysis of the last profile."""
CUT = "the last steps and values: up to a second of them was not written when the process ended"
ISOLATED = ("-E", "-I", "-S")
"""Options of Python with which it does not look for us."""


def card_of_session(
    words: Sequence[str], session: Path, pid: int, status: int, lasted: float, *, profiled: bool = False
) -> Card | str:
    """Return the card of a program, or in words why there is none.

    Args:
        words: The command.
        session: The folder in which its processes left their notes.
        pid: Number of the process that the command became.
        status: How it ended, as ``Popen.returncode``.
        lasted: For how many seconds.
        profiled: Whether steps were to be profiled: then the causes are those of the newest profile.
    """
    notes = list(session.glob(f"{RUN}*.json"))
    facts = [found_facts for path in notes if (found_facts := json_object(path, MAX_BYTES))]
    directories = sorted({str(recorded.get("directory")) for recorded in facts})
    printed = _said(session)
    ended = _how(status)
    if not directories:
        return f"{ended}; nothing was recorded: {_why(words, session, printed)}"
    ends = _Ends(session, pid, status, max(path.stat().st_mtime for path in notes))
    started = time.time() - lasted
    cards = [
        _card_of(Path(directory), ends, started, lasted, printed, profiled=profiled)
        for directory in directories
    ]
    card = max(cards, key=lambda candidate: (candidate.steps, candidate.status != "finished"))
    others = [other for other in cards if other is not card]
    if not others:
        return card
    more = ", ".join(
        f"{other.run} ({counted(other.steps, 'step')}"
        + (")" if other.status == card.status else f", {other.status})")
        for other in others
    )
    return replace(card, unknown=[f"also recorded: {more}", *card.unknown])


def _how(status: int) -> str:
    if status < 0:
        try:
            return f"the program was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"the program was ended by signal {-status}"
    return "the program ended" if not status else f"the program ended with code {status}"


def _said(session: Path) -> list[str]:
    try:
        return list(dict.fromkeys((session / SAID).read_text("utf-8").splitlines()))
    except OSError:
        return []


def _why(words: Sequence[str], session: Path, printed: Sequence[str]) -> str:
    if not any(session.glob(f"{PYTHON}*")):
        options = [word for word in words if word in ISOLATED]
        if options:
            return f"python {options[0]} ignores environment variables; run it without that option"
        return "no Python process was seen; the environment must reach it (PYTHONPATH)"
    if printed:
        return printed[0]
    return (
        "no step was seen: no optimizer of PyTorch or TensorFlow, no fit(), no step of JAX, "
        "and no metric printed three times with its epoch or step"
    )


def _waited_s(run: StoredRun) -> float:
    """Return the seconds for which the threads of a run waited for a processor, as far as it is recorded."""
    begun = run.start_wall or 0.0
    return sum(
        waited_s(series.value.tolist(), series.wall.tolist(), begun) for series in run.own_columns(CPU_WAIT)
    )


def _card_of(
    directory: Path, ends: _Ends, started: float, lasted: float, printed: Sequence[str], *, profiled: bool
) -> Card:
    causes = causes_of(directory, patience_s=CAUSES_SECS) if profiled else None
    with Log(directory, cache=False) as log:
        log.refresh()
        run = log.runs()[0] if log.runs() else None
        left = ends.left(run, directory)
        state, reason = ends.of(run, left)
        cut = left is None and (run is None or run.info.status == "running")
        stack = (run.info.stack or "") if run is not None and state == "failed" else ""
        report = None if run is None else report_of(log, run)
        best = [] if run is None else _best(run, str(directory))
        waited = 0.0 if run is None else _waited_s(run)
    findings = report.verdict.findings if report else []
    missing = []
    if causes is not None:
        findings = causes.untold(findings)
        missing += [f"the causes: {causes.lacking}"] if causes.lacking else []
    elif profiled:
        missing.append("the causes: no steps were profiled; the program ended before")
    ranks = Ranks(str(directory))
    steps = _times(ranks)
    members = ranks.members()
    windows = windows_of_run(members)
    lines_s = {str(line): seconds for line, seconds in spent_s(windows).items()}
    lost = unrecorded_text(rank.facts for rank in members)
    unknown = [lost] if lost else []
    if cut and steps.steps:
        unknown.append(CUT)
    if steps.steps and not steps.parts_s.keys() - {"data", REST, UNDIVIDED}:
        unknown.append("the stages of the steps, such as forward and backward: run.stage(name) tells")
    return Card(
        run=str(directory),
        status=state,
        reason=reason,
        duration_s=lasted,
        steps=steps.steps,
        median_s=steps.median_s,
        slowest_s=steps.slowest_s,
        slowest_step=steps.slowest_step,
        parts_s=steps.parts_of(lasted, started),
        findings=by_cost([*(causes.found if causes else ()), *findings]),
        health=report.outcome if report else "",
        covered=report.coverage if report else (),
        lines_s=lines_s,
        stack=stack,
        best=best,
        waited_s=waited,
        cut=cut,
        unknown=[*printed, *unknown, *missing],
        command=command_for(str(directory)),
    )


@dataclass(frozen=True)
class _Ends:
    """How the processes of a program ended.

    Attributes:
        session: The folder of their notes.
        pid: Number of the process that the command became ...
        status: ... and how it ended, as ``Popen.returncode``.
        last_begun: When the last run began, in seconds since the epoch.
    """

    session: Path
    pid: int
    status: int
    last_begun: float

    def of(self, run: StoredRun | None, left: int | None) -> tuple[str, str | None]:
        """Return state and reason: of the run if it wrote them, else those of its process.

        Args:
            run: The run; None if it has written nothing.
            left: What ``left`` returned.
        """
        state, reason = ("running", None) if run is None else run.condition()
        if state in ("failed", "stopped") or (state == "finished" and self.status == 0):
            return state, reason
        if run is not None and state == "finished" and (run.last_wall or self.last_begun) < self.last_begun:
            return state, reason  # the program went on: its end is that of a later run
        status = self.status
        if run is not None and state != "finished" and run.info.pid is not None:
            if left is None and run.info.pid != self.pid and status >= 0:
                return "ended", f"process {run.info.pid} did not exit, as after kill -9; {_how(status)}"
            status = status if left is None or run.info.pid == self.pid else left
        if status < 0:
            return "killed", _how(status).rpartition(" ")[2]
        if status:
            return "failed", f"exit code {status}"
        return "finished", None if state == "finished" else "Python did not exit normally"

    def left(self, run: StoredRun | None, directory: Path) -> int | None:
        """Return the code with which the process of a run left, as by ``os._exit``; 0 if it gave none.

        Args:
            run: The run.
            directory: Its own.

        Returns:
            None if it did not leave so; then what it recorded last may not be written.
        """
        if run is None or run.info.status != "running":
            return None
        try:
            return int((self.session / f"{LEFT}{run.info.pid}-{directory.name}").read_text("utf-8"))
        except (OSError, ValueError):
            return None


def _best(run: StoredRun, directory: str) -> list[Best]:
    extremes = {}
    for tag in run.tags():
        if tag.startswith("stepscope/"):
            continue
        for series in run.columns(tag):
            values = np.asarray(series.value)
            if np.isfinite(values).any():
                low, high = int(np.nanargmin(values)), int(np.nanargmax(values))
                extremes[tag] = (
                    Best(tag, float(values[low]), int(series.step[low])),
                    Best(tag, float(values[high]), int(series.step[high])),
                    int(np.isfinite(values).sum()),
                )
    return best_of(extremes, meanings_at(directory))


def _times(ranks: Ranks) -> StepSums:
    """Return sums over the steps of the first rank."""
    sums = StepSums()
    try:
        table = ranks.stages()
        steps = ranks.steps(table.ranks[0])
    except (StepscopeError, IndexError):
        return sums
    _, last = np.unique(steps.step[::-1], return_index=True)  # of a step recorded twice the newest counts
    chosen = len(steps.step) - 1 - last
    numbers = steps.step[chosen]
    at = np.searchsorted(table.steps, numbers)
    known = (at < len(table.steps)) & (table.steps[np.minimum(at, len(table.steps) - 1)] == numbers)
    spent = table.durations_s[at[known], 0].astype(np.float64)
    stages = {name: spent[:, column] for column, name in enumerate(table.stages) if name not in STAGES}
    waits, times = steps.data_wait_s[chosen][known], steps.step_time_s[chosen][known]
    walls = steps.wall[chosen][known]
    sums.add_columns(numbers[known], walls, times.astype(np.float64), waits.astype(np.float64), stages)
    return sums
