"""All ranks of one job, from whatever was recorded of it: a run, profiles, or dumps of a hang."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.text import counted
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.analyze.ranks.hangs import Hang
    from stepscope.analyze.ranks.job import HowRead, Job, Progress
    from stepscope.store.ranks import Rank, Ranks
    from stepscope.trace.model import Trace


def load_ranks(
    path: str | os.PathLike[str],
    *,
    cache: bool = True,
    processes: int | None = None,
    ray: bool | str = False,
    progress: Progress | None = None,
    network_bytes_per_s: float | None = None,
) -> Job:
    """Read what was recorded about all ranks of a job, and determine who waits for whom, and why.

    Large folders, and all folders if ``processes`` or ``ray`` is given, are read file by file: each file is a
    task, and only its collectives and steps are kept.

    Args:
        path: A run's directory with the telemetry of its ranks, a directory with one profile a rank, or one
            with the flight-recorder dumps of all ranks; or the URL of one.
        cache: Keep the columns of profiles in the user's cache directory.
        processes: The number of processes that read profiles; by default one per processor.
        ray: Have a Ray cluster read them: its address, ``local`` for one that is started here, True for the
            one that ``ray.init`` finds. A connected session takes precedence. The machines of the cluster
            must see the files under the same path, or be able to fetch them from their URL.
        progress: Called for a folder that is read file by file, with the activity (``read`` or ``ask``), the
            number of files, and the seconds it has taken so far.
        network_bytes_per_s: The rate of each rank's network in one direction, with which the bandwidth of
            process groups of several machines is compared. Within one machine it is compared with the rate of
            the devices' link.

    Raises:
        TraceError: Nothing there, or nothing that can be read.
        EmptyTraceError: One rank alone.
        UsageError: Ray is not installed, or cannot be reached.
    """
    place = _copied(path) if is_url(path) else Path(path)
    from stepscope.trace.set import exists

    if not exists(place):
        raise TraceError(
            "no such run or profile", hint="pass a run's directory or a folder of profiles", path=place
        )
    if (place / "ranks").is_dir() and not _is_single(place):
        return _of_run(place)
    from stepscope.analyze.ranks.job import HowRead
    from stepscope.trace.ranks import missing_ranks

    where = HowRead(cache, processes, ray, progress, network_bytes_per_s)
    job, trace = _of_profiles(place, os.fspath(path), where)
    told_elsewhere = missing_ranks(trace)
    of_files = (note for note in trace.notes if note not in told_elsewhere)
    return replace(job, notes=(*of_files, *job.notes))


def _is_single(place: Path) -> bool:
    """Return whether a run's only process wrote all its files of ranks."""
    from stepscope.store.ranks import Ranks

    ranks = Ranks(str(place), keep=False)
    return bool(ranks.names()) and not ranks.several


def _copied(url: str | os.PathLike[str]) -> Path:
    from stepscope.mirror import fetched  # loads what speaks with stores, which a file needs none of

    return fetched(url)


def _of_profiles(place: Path, path: str, where: HowRead) -> tuple[Job, Trace]:
    from stepscope.trace import pool
    from stepscope.trace.set import files_of

    if place.is_dir() and (where.ray or where.processes or pool.large(files_of(place))):
        from stepscope.analyze.ranks.many import job_of_files

        return job_of_files(place, where, url=path if is_url(path) else "")
    from stepscope.analyze.ranks.job import job_of
    from stepscope.trace import load_trace

    trace = load_trace(place, cache=where.cache)
    return job_of(trace, network_bytes_per_s=where.network_bytes_per_s), trace


def _of_run(place: Path) -> Job:
    from stepscope.analyze.ranks.account import accounts_of, named_loss, notes_of, notes_of_sizes
    from stepscope.analyze.ranks.job import Job
    from stepscope.analyze.ranks.stuck import stuck_ranks
    from stepscope.store.ranks import Ranks
    from stepscope.trace.ranks import absent_ranks

    ranks = Ranks(str(place), keep=False)
    stalled = ranks.stalled()  # first: a rank that ends its step removes its file, and then records the step
    table = ranks.stages()
    members = [
        member for member in ranks.members() if member.kind == "rank" and member.attempts[-1] == table.attempt
    ]
    stuck, hang = stuck_ranks(stalled), _recorded_hang(place, stalled, members)
    if len(table.ranks) < 2:
        raise _too_few(ranks, table.ranks, place)
    ends = ends_of(members)
    changed = [*notes_of_ends(ends), *notes_of_sizes(ranks.sizes()), *ranks.notes()]
    missing = tuple(absent_ranks(ranks.size() or 0, table.ranks))
    try:
        accounts = accounts_of(table)
    except EmptyTraceError as error:
        if not stuck:
            raise
        return Job(
            "run",
            tuple(table.ranks),
            missing,
            stuck=stuck,
            hang=hang,
            ends=ends,
            notes=(*changed, error.message),
        )
    notes = [*changed, *notes_of(accounts, table)]
    hosts = {rank: host for rank, host in zip(table.ranks, table.hosts, strict=True) if host}
    worst = max(accounts, key=lambda account: named_loss(account.frontier))
    return Job(
        "run", tuple(table.ranks), missing, frontier=worst.frontier, accounts=accounts,
        stage_clock=table.clock, stuck=stuck, hosts=hosts, hang=hang, ends=ends, notes=tuple(notes),
    )  # fmt: skip


def _too_few(ranks: Ranks, numbers: Sequence[int], place: Path) -> EmptyTraceError:
    """Return the error for a newest attempt of fewer than two ranks, which may have begun only just now."""
    text = f"cannot tell who waits for whom: expected the telemetry of several ranks, found {len(numbers)}"
    hint = "create the run in every process; `stepscope whoami` says which rank each believes it is"
    attempts = ranks.attempts()
    if numbers and len(attempts) > 1 and (ranks.size() or 1) > 1:
        text += f": of {ranks.size()} ranks, only rank {numbers[0]} has begun attempt {attempts[-1]}"
        hint = (
            "wait for the other ranks; without a common directory each rank counts its own attempts, so "
            "start all of them again, or none"
        )
    return EmptyTraceError(text, hint=hint, path=place)


MOST_ENDS = 4
"""Number of ranks whose end is told."""


def ends_of(members: Sequence[Rank]) -> dict[int, str]:
    """Return how ranks failed, were killed or vanished, in the order of their last steps.

    Nothing if all vanished or were stopped: the whole job was ended then, or is on another machine. After a
    rank is lost, launchers stop the others, which says nothing of these.

    Args:
        members: The ranks of one attempt.
    """
    lost = [member for member in members if member.state in ("failed", "stalled")]
    if not any(member.state == "failed" for member in lost) and all(
        member.state in ("stalled", "stopped") for member in members
    ):
        return {}
    lost = lost or [member for member in members if member.state == "stopped" and _signal_of(member)]
    lost.sort(key=lambda member: -1 if member.digest.last_step is None else member.digest.last_step)
    return {member.rank: _end_of(member) for member in lost}


def _signal_of(member: Rank) -> str | None:
    """Return the signal that a rank wrote down as its end."""
    return member.reason if member.reason in signal.Signals.__members__ else None


def _end_of(member: Rank) -> str:
    """Return in words how a rank ended, and at which step."""
    last = member.digest.last_step
    at = "before its first step" if last is None else f"at step {last}"
    if (number := _signal_of(member)) is not None:
        return f"was killed by {number} {at}"
    if member.is_gone:
        return f"was killed {at}: no record how"
    why = f": {member.reason[:120]}" if member.reason else ""
    return f"{'failed' if member.state == 'failed' else 'stopped recording'} {at}{why}"


def notes_of_ends(ends: Mapping[int, str]) -> list[str]:
    """Return which ranks failed, were killed or vanished, the first to end first."""
    lines = [f"rank {rank} {end}" for rank, end in list(ends.items())[:MOST_ENDS]]
    if len(ends) > MOST_ENDS:
        lines.append(
            f"{counted(len(ends) - MOST_ENDS, 'more rank')} failed, were killed or stopped recording"
        )
    return lines


def _recorded_hang(place: Path, stalled: list[dict[str, Any]], members: Sequence[Rank]) -> Hang | None:
    """Return the hang that the flight recorders of ranks show whose steps do not end; None if none was on.

    A rank that ended a step after the first dump was late, and its own step has not lasted long enough for a
    dump. So a missing dump says nothing about it. The others write theirs again, and if it ends no more
    steps, their dumps become newer than its last step.
    """
    from stepscope.analyze.ranks.hangs import find_hang
    from stepscope.trace import load_trace
    from stepscope.trace.merge import merge, with_rank

    traces, taken = [], {}
    running = [rank for facts in stalled if isinstance(rank := facts.get("rank"), int)]
    for facts in stalled:
        name, rank = facts.get("recorder"), facts.get("rank")
        if isinstance(rank, int) and name == f"flight-recorder-{rank}":
            try:
                traces.append(with_rank(load_trace(place / "ranks" / name, cache=False), rank))
            except TraceError:  # damaged, or gone meanwhile: the stacks still tell
                continue
            if isinstance(wall := facts.get("wall"), (int, float)) and math.isfinite(wall):
                taken[rank] = round(wall * 1e9)
    if len(traces) < 2:
        return None
    first = min(taken.values(), default=None)
    late = [
        member.rank
        for member in members
        if first is not None and member.state == "running" and (member.digest.last_wall or 0.0) * 1e9 > first
    ]
    try:
        return find_hang(merge(traces), taken, [*running, *late])
    except EmptyTraceError:
        return None
