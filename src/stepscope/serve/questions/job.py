"""The question about the ranks of a job: who waits for whom, why, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from stepscope.errors import EmptyTraceError, UsageError
from stepscope.events.rank_file import unrecorded_text
from stepscope.serve.job_report import text_of, verdict
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.store.ranks import Ranks
from stepscope.text import counted


@question
def ranks(
    desk: Desk,
    run: Annotated[str, Meta(description="name of a run; default: the newest that has ranks")] = "",
    folder: Annotated[
        str, Meta(description="folder of the ranks' profiles or dumps, from the directory")
    ] = "",
) -> Answer:
    """Say which rank of a job is slow or stuck, in which stage and line, and what it costs."""
    from stepscope.analyze.health.slow_rank import slow_ranks
    from stepscope.job import load_ranks

    place = _place(desk, run, folder)
    job = load_ranks(place, cache=desk.backend.cache)
    lines = [verdict(job)]
    tables: list[Table] = []
    if job.accounts and job.hang is None and not job.stuck:
        slow, _ = slow_ranks(job.accounts, hosts=job.hosts, walls={})
        slow.sort(key=lambda finding: -finding.values.get("gpu_seconds_lost", 0.0))
        # A finding that says the same as the verdict says what to do, too.
        lines = [line for line in lines if line not in {finding.summary for finding in slow}]
        lines += [
            f"{finding.severity} {finding.rule}: {finding.summary}; do: {finding.action}" for finding in slow
        ]
    if job.blame:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (part.rank, part.wait_caused_ns / 1e6, f"{part.share:.1%}", part.cause, part.name, part.line)
            for part in job.blame
        )
        heads = ("rank", "waiting caused, ms", "share", "while it was", "in", "line")
        tables.append(Table("causes of waiting", heads, rows, names=("line",)))
    stored = Ranks(str(place))
    values: tuple[tuple[Cell, ...], ...] = tuple(
        (v.tag, v.step, v.ranks, v.mean, v.minimum, v.minimum_rank, v.maximum, v.maximum_rank)
        for v in stored.values()
    )
    columns = ("value", "step", "ranks", "mean", "min", "min rank", "max", "max rank")
    tables.append(Table("newest values of the ranks' own", columns, values, names=("value",)))
    lines += [lost for lost in [unrecorded_text(rank.facts for rank in stored.members())] if lost]
    report = [line for line in text_of(job)[1:] if line]
    tables.append(Table("lines of the report", (), tuple((line,) for line in report)))
    lines += job.notes
    return Answer("ranks", tuple(dict.fromkeys(lines)), tuple(table for table in tables if table.rows))


def _place(desk: Desk, run: str, folder: str) -> Path:
    """Return the directory that holds what was recorded of the ranks.

    Raises:
        UsageError: It lies outside the log directory.
        EmptyTraceError: Neither several ranks nor a profile was recorded there.
    """
    root = desk.log.path.resolve()
    if folder:
        place = (root / folder).resolve()
        if not place.is_relative_to(root):
            raise UsageError(f"{folder!r:.80} is not in the directory", hint="name a folder below it")
        return place
    runs = [desk.run(run)] if run else desk.runs()
    several = [run for run in runs if run.ranks.several]
    if several:
        return desk.directory(max(several, key=lambda run: run.written))
    # Without this look every event file below would be read, in search of a profile.
    if runs and not desk.profiles(runs[0].name if run else ""):
        whose = f"run {runs[0].name!r}" if run else f"none of {counted(len(runs), 'run')}"
        raise EmptyTraceError(
            f"{whose} recorded {'no other rank' if run else 'several ranks'}, and there is no profile",
            hint="create the run in every process; `stepscope whoami` says which rank each believes it is",
        )
    return desk.directory(runs[0]) if run else root
