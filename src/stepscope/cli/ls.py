"""``stepscope ls``: the runs of a log directory in the terminal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.cli.arguments import add_budget, add_cache
from stepscope.cli.budget import within
from stepscope.cli.output import Output, aligned, complain, not_readable, put, say
from stepscope.cli.sync import line, waiting
from stepscope.errors import LogDirectoryError, NoEventFilesError
from stepscope.health.finding import plain
from stepscope.text import counted, number
from stepscope.urls import is_url, shown

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.store import Log, Series, StoredRun

MEANING = ("KIND", "ROLE", "SPLIT", "BECAUSE OF")
SHOWN_VALUES = 3
"""Number of last values in the table; ``--tags`` and ``--json`` give all."""
JUDGED = 1_000_000
"""Points of the runs whose health is judged unasked; ``--health`` judges all."""
JUDGED_S = 1.0
"""Seconds after which no further run is judged unasked: many short runs take longer than a long one."""
MIN_JUDGED = 8
"""Runs that are judged however long that takes, so that a small list is complete on a busy machine."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope ls``."""
    parser.add_argument("log_dir", nargs="?", default=".", metavar="LOGDIR", help="default: this directory")
    parser.add_argument("--tags", action="store_true", help="one line per series instead of one per run")
    parser.add_argument("--ranks", action="store_true", help="one line per rank of each run that has several")
    parser.add_argument("--health", action="store_true", help="judge the health of all runs, however large")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_budget(parser)
    add_cache(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the runs.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
        NoEventFilesError: There is no run.
    """
    from stepscope import store

    waits = waiting(arguments.log_dir) if is_url(arguments.log_dir) else []
    here = f"{line(waits[0])}; stepscope sync sends it" if waits else ""
    try:
        opened = store.open(arguments.log_dir, cache=arguments.cache)
    except LogDirectoryError as error:
        if here:  # a store has no directory before something is in it
            raise LogDirectoryError(error.message, hint=here, path=error.path) from error
        raise
    with opened as log:
        if not log.runs():
            check_readable(log, arguments.log_dir)
            raise NoEventFilesError(
                "no event files: found none with 'tfevents' in its name, in this directory or below",
                hint=here
                or "pass the directory that a run writes to, or one above it; "
                "stepscope import turns logs of other tools into runs",
                path=shown(arguments.log_dir),
            )
        if arguments.json:
            reports = judged(log, every=arguments.health)
            facts = facts_of(log, reports, ranks=arguments.ranks, newest=bool(arguments.budget)) | {
                "waiting": [asdict(wait) for wait in waits]
            }
            put(within(Output("", facts), arguments.budget), as_json=True)
            return
        say(within(Output(table(log, arguments, now=time.time())), arguments.budget).text.rstrip("\n"))
        for problem in problem_lines(log):
            complain(problem)
        for wait in waits:
            complain(line(wait))


def check_readable(log: Log, path: str) -> None:
    """Raise LogDirectoryError if no run was found because something could not be read."""
    if unread := log.unread:
        raise not_readable("no run can be read", unread[0], path)


def table(log: Log, arguments: argparse.Namespace, *, now: float) -> str:
    """Return the table that was asked for."""
    if arguments.ranks:
        from stepscope.cli.ls_ranks import table_of_ranks

        return table_of_ranks(log, now=now)
    if arguments.tags:
        return table_of_tags(log)
    reports = judged(log, every=arguments.health)
    text = table_of_runs(log, reports, now=now, newest=bool(arguments.budget))
    left = len(log.runs()) - len(reports)
    return f"{text}\nhealth not judged: {counted(left, 'run')}; ls --health judges all\n" if left else text


def judged(log: Log, *, every: bool) -> dict[str, HealthReport]:
    """Return the reports on the health of runs by name, the same as on the page.

    Args:
        log: With the runs.
        every: Whether to judge all of them; else those written last, up to ``JUDGED`` points and as far as
            ``JUDGED_S`` reaches.
    """
    from stepscope.serve.health import report_of

    reports: dict[str, HealthReport] = {}
    points, began = 0, time.monotonic()
    for run in runs_of(log, newest=True):
        points += run.num_points()
        in_time = len(reports) < MIN_JUDGED or time.monotonic() - began < JUDGED_S
        if every or (points <= JUDGED and in_time):
            reports[run.name] = report_of(log, run)
    return reports


def runs_of(log: Log, *, newest: bool) -> list[StoredRun]:
    """Return all runs by name, or the one written last first."""
    return sorted(log.runs(), key=lambda run: -run.written) if newest else log.runs()


def as_tree(runs: Sequence[StoredRun]) -> Iterator[tuple[int, StoredRun]]:
    """Yield the runs in their order, each with those of which it is the parent after it, and its depth."""
    families: dict[str, list[StoredRun]] = {}
    for run in runs:
        families.setdefault(run.base, []).append(run)
    children: dict[str | None, list[str]] = {}
    for base, members in families.items():
        children.setdefault(members[0].parent, []).append(base)
    waiting = [(0, base) for base in reversed(children.get(None, []))]
    while waiting:
        depth, base = waiting.pop()
        yield from ((depth, run) for run in families[base])
        waiting += [(depth + 1, child) for child in reversed(children.get(base, []))]


def table_of_runs(log: Log, reports: Mapping[str, HealthReport], *, now: float, newest: bool = False) -> str:
    """Return one line per run; how many ranks each has, if one has several."""
    ranks = {run.name: ranks_of(run) for run in log.runs()}
    several = any(ranks.values())
    middle = ["RANKS", "UPDATED"] if several else ["UPDATED"]
    rows = [["RUN", "STATE", "STEP", "POINTS", *middle, "PROBLEMS", "LAST VALUES", "HEALTH"]]
    for depth, run in [(0, run) for run in runs_of(log, newest=True)] if newest else as_tree(log.runs()):
        state, _ = run.condition(now=now)
        rows.append(
            [
                "  " * depth + run.name,
                state,
                step_of(run),
                f"{run.num_points():,}",
                *[ranks[run.name] or "-"] * several,
                updated(run, now),
                str(len(run.problems) or "-"),
                last_values(run),
                reports[run.name].outcome if run.name in reports else "-",
            ]
        )
    return aligned(rows, right={2, 3, 4, 6} if several else {2, 3, 5})


def ranks_of(run: StoredRun) -> str:
    """Return how many ranks have written, and out of how many if some have not; "" without ranks."""
    if not run.ranks.several:
        return ""
    count, size = run.ranks.count(), run.ranks.size()
    return "" if not count else f"{count:,}" if size is None or count >= size else f"{count:,} of {size:,}"


def step_of(run: StoredRun) -> str:
    """Return how far a run has come."""
    step, total = run.last_step, run.info.total_steps
    return "-" if step is None else f"{step:,}" + (f"/{total:,}" if total else "")


def updated(run: StoredRun, now: float) -> str:
    """Return how long ago a run was last written."""
    from stepscope.store.info import age

    return f"{age(max(0.0, now - run.written))} ago" if run.written else "-"


def last_values(run: StoredRun) -> str:
    """Return the last values of the most telling tags."""
    from stepscope.store.charts import charts_of

    charts = charts_of(frozenset(run.tags()), meanings=run.meanings)
    tags = [line.tag for chart in sorted(charts, key=lambda chart: chart.place) for line in chart.lines]
    shown = [f"{tag} {number(newest(run.columns(tag)).last.value)}" for tag in tags[:SHOWN_VALUES]]
    return "  ".join(shown) + (f"  +{len(tags) - SHOWN_VALUES}" if len(tags) > SHOWN_VALUES else "")


def newest(series: list[Series]) -> Series:
    """Return the series of the newest attempt; of several writers, the one with the latest point."""
    return max(series, key=lambda one: (one.attempt, one.last.wall))


def table_of_tags(log: Log) -> str:
    """Return one line per series."""
    rows = [[*("RUN", "TAG", "WRITER", "ATTEMPT", "POINTS", "STEP", "LAST VALUE"), *MEANING]]
    for run in log.runs():
        for tag in run.tags():
            about = run.meanings.described(tag, run.split)
            meaning = [about.kind, about.role or "-", about.split or "-", about.because or "-"]
            for series in run.columns(tag):
                last = series.last
                place = [
                    series.writer,
                    str(series.attempt),
                    f"{len(series):,}",
                    f"{last.step:,}",
                    f"{last.value:.6g}",
                ]
                rows.append([run.name, tag, *place, *meaning])
    return aligned(rows, right={3, 4, 5, 6})


def problem_lines(log: Log) -> list[str]:
    """Return one line per problem: run, problem, file."""
    problems = [(run.name, problem) for run in log.runs() for problem in run.problems]
    problems += [(str(log.path), problem) for problem in log.problems]
    files = [f" ({Path(problem.file).name})" if problem.file else "" for _, problem in problems]
    return [f"{where}: {problem.text}{file}" for (where, problem), file in zip(problems, files, strict=True)]


def facts_of(
    log: Log, reports: Mapping[str, HealthReport], *, ranks: bool = False, newest: bool = False
) -> dict[str, Any]:
    """Return everything as JSON types; single ranks only if requested."""
    return {
        "path": str(log.path),
        "runs": [
            run_facts(run, reports.get(run.name)) | (rank_facts(run) if ranks else {})
            for run in runs_of(log, newest=newest)
        ],
        "problems": [problem_facts(problem) for problem in log.problems],
    }


def run_facts(run: StoredRun, report: HealthReport | None = None) -> dict[str, Any]:
    """Return one run; unrecorded values are null, and so is the health of a run that was not judged."""
    state, reason = run.condition()
    info = run.info
    return {
        "name": run.name,
        "base": run.base,
        "split": run.split,
        "parent": run.parent,
        "state": state,
        "reason": reason,
        "verdict": report.outcome if report else None,
        "coverage": [asdict(row) for row in report.coverage] if report else None,
        "step": run.last_step,
        "total_steps": info.total_steps,
        "points": run.num_points(),
        "started": info.started,
        "updated": run.last_wall,
        "steps_per_second": run.steps_per_second,
        "config": plain(info.config),
        "labels": list(info.labels),
        "writers": [
            {"id": writer.id, "rank": writer.rank, "attempts": writer.attempt, "files": writer.files}
            for writer in run.writers
        ],
        "series": [
            series_facts(series) | meaning
            for tag in run.tags()
            for meaning in [meaning_facts(run, tag)]
            for series in run.columns(tag)
        ],
        "problems": [problem_facts(problem) for problem in run.problems],
    }


def rank_facts(run: StoredRun) -> dict[str, Any]:
    """Return every rank of a run."""
    from stepscope.cli.ls_ranks import facts_of_rank

    return {
        "ranks": [facts_of_rank(rank) for rank in run.ranks.members()],
        "values_of_ranks": [plain(asdict(value)) for value in run.ranks.values()],
    }


def series_facts(series: Series) -> dict[str, Any]:
    """Return one series and its newest point."""
    return {
        "tag": series.tag,
        "split": series.split,
        "writer": series.writer,
        "attempt": series.attempt,
        "superseded_from": series.superseded_from,
        "points": len(series),
        "step": series.last.step,
        "wall_time": plain(series.last.wall),
        "value": plain(series.last.value),
    }


def meaning_facts(run: StoredRun, tag: str) -> dict[str, Any]:
    """Return the meaning of a tag, and the evidence for it."""
    about = run.meanings.described(tag, run.split)
    return {"metric": about.metric, "kind": about.kind, "role": about.role, "evidence": about.evidence}


def problem_facts(problem: Any) -> dict[str, Any]:
    """Return one problem."""
    return {"kind": problem.kind, "count": problem.count, "file": problem.file, "text": problem.text}
