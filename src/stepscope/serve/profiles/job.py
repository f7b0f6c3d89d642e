"""Answer to ``GET profile/ranks``: what the profiles or dumps of all ranks tell of their job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analyze.ranks.job import Job, job_of
from stepscope.analyze.ranks.stragglers import needed
from stepscope.errors import EmptyTraceError
from stepscope.serve.profiles.job_types import (
    JobAnswer,
    JobBandwidth,
    JobBlame,
    JobChange,
    JobClock,
    JobClocks,
    JobStraggler,
    JobSuspect,
    JobTask,
    JobWait,
)
from stepscope.serve.reply import Refusal

if TYPE_CHECKING:
    from stepscope.serve.profiles.open_profiles import OpenProfile


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


def answer_of(path: str, found: Job) -> JobAnswer:
    """Return a job as the page gets it."""
    return JobAnswer(
        path=path,
        source=found.source,
        ranks=list(found.ranks),
        missing=list(found.missing),
        clock=_clocks(found),
        wait=_wait(found),
        bandwidth=[
            JobBandwidth(
                row.operation, row.group, row.ranks, row.count, row.bytes, float(row.transfer_ns),
                row.bus_bytes_per_s,
            )
            for row in found.bandwidths
        ],
        blame=[
            JobBlame(row.rank, row.wait_caused_ns, row.share, row.cause, row.name, row.line)
            for row in found.blame
        ],
        stragglers=[
            JobStraggler(row.rank, row.score, row.confidence, row.since, row.last, row.of)
            for row in found.stragglers
        ],
        what_if=[
            JobChange(row.change, float(row.recorded_ns), float(row.predicted_ns))
            for row in (found.replay.changes if found.replay else ())
        ],
        suspects=[
            JobSuspect(row.rank, row.reason, row.confidence, list(row.evidence))
            for row in (found.hang.suspects if found.hang else ())
        ],
        tasks=[
            JobTask(task.task, task.server, len(task.steps), task.receive_ratio, task.exposed_ratio)
            for task in found.tasks
        ],
        notes=list(found.notes),
    )  # fmt: skip


def _clocks(found: Job) -> JobClocks | None:
    if found.clocks is None:
        return None
    clocks = [
        JobClock(rank, clock.offset_ns, clock.drift, clock.error_ns, clock.joint)
        for rank, clock in sorted(found.clocks.clocks.items())
    ]
    return JobClocks(found.clocks.reference, clocks, found.clocks.refused, found.clocks.one_host)


def _wait(found: Job) -> JobWait | None:
    waits = found.waits
    if waits is None:
        return None
    transfer, count = int(waits.transfer_ns.sum()), len(waits.joint)
    return JobWait(
        waits.total_ns, transfer, waits.share_of_communication, count, needed(count, len(found.ranks))
    )
