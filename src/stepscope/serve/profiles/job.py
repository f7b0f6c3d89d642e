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

MAX_ROWS = 200
"""Rows of sums and of the critical path; the rest is shorter."""


@get("profile/ranks")
def job(profile: OpenProfile) -> JobAnswer:
    """Return who waits for whom.

    Raises:
        Refusal: One rank alone, or nothing that ranks do together was recorded.
    """
    try:
        answer = profile.once(("ranks",), lambda: job_of(profile.recorded))
    except EmptyTraceError as error:
        raise Refusal(422, error.message, error.hint or "profile all ranks of the job") from None
    return answer_of(profile.path, answer)


def answer_of(name: str, job: Job) -> JobAnswer:
    """Return a job as the page gets it."""
    return JobAnswer(
        path=name,
        source=job.source,
        ranks=list(job.ranks),
        missing=list(job.missing),
        clock=job.clocks,
        wait=_wait(job),
        bandwidth=job.bandwidths,
        blame=job.blame,
        costs=[JobCosts(by, rows[:MAX_ROWS]) for by, rows in job.costs.items()],
        critical_path=replace(path, pieces=path.pieces[:MAX_ROWS]) if (path := job.path) else None,
        shared=job.shared,
        slow_groups=job.slow_groups,
        stragglers=job.stragglers,
        what_if=job.replay.changes if job.replay else (),
        suspects=job.hang.suspects if job.hang else (),
        tasks=_tasks(job),
        notes=list(job.notes),
    )  # fmt: skip


def _tasks(job: Job) -> list[JobTask]:
    worst = bottleneck(job.tasks)
    rows = []
    for task in job.tasks:
        parts = parts_of(task)
        rows.append(
            JobTask(
                task.task, task.server, len(task.steps), task.receive_ratio, task.exposed_ratio,
                parts.compute if parts else None, parts.waiting if parts else None,
                parts.transfer if parts else None, holds_of(task), task.task == worst,
            )
        )  # fmt: skip
    return rows


def _wait(job: Job) -> JobWait | None:
    waits = job.waits
    if waits is None:
        return None
    transfer, count = int(waits.transfer_ns.sum()), len(waits.joint)
    return JobWait(
        waits.total_ns, transfer, waits.share_of_communication, count, needed(count, len(job.ranks))
    )
