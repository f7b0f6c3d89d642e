"""Answer to ``GET profile/ranks``: the job as the profiles or dumps of all ranks show it."""

from __future__ import annotations

from dataclasses import replace

from stepscope.analyze.parameter_server import bottleneck, holds_of, parts_of
from stepscope.analyze.ranks.job import Job, job_of
from stepscope.analyze.ranks.stragglers import needed
from stepscope.errors import EmptyTraceError
from stepscope.serve.profiles.job_types import (
    JobAnswer,
    JobCosts,
    JobTask,
    JobWait,
)
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get

MOST = 200
"""Rows of sums and of the critical path; the rest is shorter."""


@get("profile/ranks")
def job(profile: OpenProfile) -> JobAnswer:
    """Return who waits for whom.

    Raises:
        Refusal: One rank alone, or nothing that ranks do together was recorded.
    """
    try:
        found = profile.once(("ranks",), lambda: job_of(profile.recorded))
    except EmptyTraceError as error:
        raise Refusal(422, error.message, error.hint or "profile all ranks of the job") from None
    return answer_of(profile.path, found)


def answer_of(name: str, found: Job) -> JobAnswer:
    """Return a job as the page gets it."""
    return JobAnswer(
        path=name,
        source=found.source,
        ranks=list(found.ranks),
        missing=list(found.missing),
        clock=found.clocks,
        wait=_wait(found),
        bandwidth=found.bandwidths,
        blame=found.blame,
        costs=[JobCosts(by, rows[:MOST]) for by, rows in found.costs.items()],
        critical_path=replace(path, pieces=path.pieces[:MOST]) if (path := found.path) else None,
        shared=found.shared,
        slow_groups=found.slow_groups,
        stragglers=found.stragglers,
        what_if=found.replay.changes if found.replay else (),
        suspects=found.hang.suspects if found.hang else (),
        tasks=_tasks(found),
        notes=list(found.notes),
    )  # fmt: skip


def _tasks(found: Job) -> list[JobTask]:
    worst = bottleneck(found.tasks)
    rows = []
    for task in found.tasks:
        parts = parts_of(task)
        rows.append(
            JobTask(
                task.task, task.server, len(task.steps), task.receive_ratio, task.exposed_ratio,
                parts.compute if parts else None, parts.waiting if parts else None,
                parts.transfer if parts else None, holds_of(task), task.task == worst,
            )
        )  # fmt: skip
    return rows


def _wait(found: Job) -> JobWait | None:
    waits = found.waits
    if waits is None:
        return None
    transfer, count = int(waits.transfer_ns.sum()), len(waits.joint)
    return JobWait(
        waits.total_ns, transfer, waits.share_of_communication, count, needed(count, len(found.ranks))
    )
