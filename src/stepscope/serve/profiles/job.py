"""Answer to ``GET profile/ranks``: the job as the profiles or dumps of all ranks show it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from stepscope.analyze.parameter_server import bottleneck, holds_of, parts_of
from stepscope.analyze.ranks.blame import Blame, WaitCost
from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.hangs import Suspect
from stepscope.analyze.ranks.job import Job, job_of
from stepscope.analyze.ranks.path import RanksPath
from stepscope.analyze.ranks.stragglers import SharedCause, Straggler, needed
from stepscope.analyze.ranks.waits import Bandwidth, SlowGroup
from stepscope.analyze.ranks.what_if import WhatIf
from stepscope.errors import EmptyTraceError
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get


class JobWait(msgspec.Struct, frozen=True):
    """Waiting in collectives, of all ranks together."""

    total_ns: int
    transfer_ns: int
    share_of_communication: float
    collectives: int
    needed: int | None
    """Number of collectives needed to tell a slow rank from chance; None if as many were recorded."""


class JobCosts(msgspec.Struct, frozen=True):
    """All waiting, summed by one thing; the rows sum to it."""

    by: str
    """``host``, ``scope``, ``line`` or ``cause``."""
    rows: tuple[WaitCost, ...]


class JobTask(msgspec.Struct, frozen=True):
    """A worker or a parameter server."""

    task: str
    server: bool
    steps: int
    receive_ratio: float
    exposed_ratio: float
    compute_ratio: float | None
    """For a worker, the share of its steps in own compute; this, waiting and transfer sum to 1."""
    waiting_ratio: float | None
    transfer_ratio: float | None
    holds_ratio: float | None
    """For a server, the share of the workers' steps in which it holds them up."""
    bottleneck: bool


class JobAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/ranks?path=``: who waits for whom, because of what."""

    path: str
    source: str
    """``profiles`` or ``dumps``."""
    ranks: list[int]
    missing: list[int]
    clock: Clocks | None
    wait: JobWait | None
    bandwidth: tuple[Bandwidth, ...]
    blame: tuple[Blame, ...]
    costs: list[JobCosts]
    critical_path: RanksPath | None
    shared: SharedCause | None
    slow_groups: tuple[SlowGroup, ...]
    stragglers: tuple[Straggler, ...]
    what_if: tuple[WhatIf, ...]
    suspects: tuple[Suspect, ...]
    tasks: list[JobTask]
    notes: list[str]


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
