"""All ranks of one job: what their profiles, their dumps, or the telemetry of a run tell of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepscope.errors import EmptyTraceError
from stepscope.trace.ranks import overlapping

if TYPE_CHECKING:
    from stepscope.analyze.parameter_server import TaskTraffic
    from stepscope.analyze.ranks.account import Account
    from stepscope.analyze.ranks.blame import Blame
    from stepscope.analyze.ranks.clocks import Clocks
    from stepscope.analyze.ranks.frontier import Frontier
    from stepscope.analyze.ranks.hangs import Hang
    from stepscope.analyze.ranks.stragglers import Straggler
    from stepscope.analyze.ranks.stuck import StuckRank
    from stepscope.analyze.ranks.waits import Bandwidth, Waits
    from stepscope.analyze.ranks.what_if import JobReplay
    from stepscope.trace.model import Trace


@dataclass(frozen=True)
class Job:
    """The ranks of a job, as far as they are known.

    What its recording cannot tell is None or empty, and ``notes`` says why.

    Attributes:
        source: ``run``, ``profiles`` or ``dumps``.
        ranks: Ranks that were recorded.
        missing: Ranks that belong to the job and were not.
        clocks: The ranks' clocks, from profiles.
        waits: Waiting in collectives, from profiles.
        bandwidths: Transfers by operation and group, from profiles.
        blame: Who caused the waiting and by what, from profiles; sums to all of it.
        stragglers: Ranks that come last beyond chance, from profiles.
        replay: What a step would take if a rank were other, from profiles.
        frontier: Where the time goes by stage, from a run's telemetry; of several groups of ranks that in
            which one rank costs most.
        accounts: Likewise of each group of ranks whose work is alike.
        stuck: Ranks whose step does not end, from ``HangHook``.
        hosts: Host of each rank, from a run's telemetry.
        hang: Who is waited for, from dumps.
        tasks: Share of receiving of workers and parameter servers, from TensorFlow's profiles.
        notes: What could not be told, in sentences.
    """

    source: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...] = ()
    clocks: Clocks | None = None
    waits: Waits | None = None
    bandwidths: tuple[Bandwidth, ...] = ()
    blame: tuple[Blame, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    replay: JobReplay | None = None
    frontier: Frontier | None = None
    accounts: tuple[Account, ...] = ()
    stuck: tuple[StuckRank, ...] = ()
    hosts: dict[int, str] = field(default_factory=dict)
    hang: Hang | None = None
    tasks: tuple[TaskTraffic, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON types; what is not known is null or empty."""
        return {
            "source": self.source,
            "ranks": len(self.ranks),
            "missing": list(self.missing),
            "clock": _clock_data(self.clocks),
            "stages": _stage_data(self.frontier),
            "groups": [_group_data(account) for account in self.accounts],
            "wait": _wait_data(self.waits),
            "bandwidth": [_fields(row) for row in self.bandwidths],
            "blame": [_fields(row) for row in self.blame],
            "stragglers": [
                *map(_fields, self.stragglers),
                *(row for account in self.accounts for row in _leaders(account.frontier)),
            ],
            "suspects": [_fields(row) for row in self.hang.suspects] if self.hang else [],
            "stuck": [_fields(row) for row in self.stuck],
            "what_if": _what_if_data(self.replay),
            "parameter_server": [_task_data(task) for task in self.tasks],
            "notes": list(self.notes),
        }


def job_of(trace: Trace) -> Job:
    """Return what the profiles of all ranks, or their flight-recorder dumps, tell of a job.

    Raises:
        EmptyTraceError: One rank alone, no collective that ranks share, or files that contradict each other.
    """
    if doubt := overlapping(trace):
        raise EmptyTraceError(
            f"cannot tell who waits for whom: {doubt}", hint="leave one recording of each rank in the folder"
        )
    return _of_dumps(trace) if trace.format == "flight_recorder" else _of_profiles(trace)


def _of_dumps(trace: Trace) -> Job:
    from stepscope.analyze.ranks.hangs import find_hang

    hang = find_hang(trace)
    return Job("dumps", hang.ranks, hang.missing, hang=hang, notes=hang.notes)


def _of_profiles(trace: Trace) -> Job:
    from stepscope.analyze.ranks.blame import blame
    from stepscope.analyze.ranks.clocks import align_clocks
    from stepscope.analyze.ranks.joint import joint_collectives
    from stepscope.analyze.ranks.stragglers import find_stragglers
    from stepscope.analyze.ranks.waits import bandwidths, measure_waits
    from stepscope.analyze.ranks.what_if import what_if

    tasks = _tasks(trace)
    sizes = [source.world_size for source in trace.sources]
    missing = tuple(sorted(set(range(max(sizes, default=0))) - set(trace.ranks)))
    try:
        joint = joint_collectives(trace)
    except EmptyTraceError as error:
        if not tasks:
            raise
        return Job("profiles", trace.ranks, missing, tasks=tasks, notes=(error.message,))
    clocks = align_clocks(trace, joint)
    waits = measure_waits(trace, joint, clocks)
    notes = list(joint.notes)
    if clocks.refused is not None:
        notes.append(f"waits are not laid to ranks: the clocks cannot be aligned, {clocks.refused}")
        return Job("profiles", trace.ranks, missing, clocks, tasks=tasks, notes=tuple(notes))
    if not joint.whole.all():
        notes.append("not all members of the groups were recorded: waits are lower bounds")
    replay = what_if(trace, waits, clocks)
    if replay.refused is not None:
        notes.append(f"no what-if: {replay.refused}")
    return Job(
        "profiles", trace.ranks, missing, clocks, waits, bandwidths(trace, waits), blame(trace, waits),
        find_stragglers(trace, waits), replay, tasks=tasks, notes=tuple(notes),
    )  # fmt: skip


def _tasks(trace: Trace) -> tuple[TaskTraffic, ...]:
    from stepscope.analyze.parameter_server import parameter_server

    try:
        return parameter_server(trace)
    except EmptyTraceError:
        return ()


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def _clock_data(clocks: Clocks | None) -> dict[str, Any] | None:
    if clocks is None:
        return None
    return {
        "reference": clocks.reference,
        "offsets_ns": {
            str(rank): {
                "offset": round(clock.offset_ns), "error": round(clock.error_ns), "drift": clock.drift,
            }
            for rank, clock in clocks.clocks.items()
        },
        "refused": clocks.refused,
    }  # fmt: skip


def _stage_data(found: Frontier | None) -> list[dict[str, Any]]:
    return [_fields(stage) for stage in found.stages] if found else []


def _group_data(account: Account) -> dict[str, Any]:
    found = account.frontier
    return {
        "group": account.group,
        "ranks": list(found.ranks),
        "steps": found.steps,
        "group_s": found.group_s,
        "meets": account.meets,
        "stages": _stage_data(found),
    }


def _leaders(found: Frontier) -> list[dict[str, Any]]:
    """Return the ranks that persist in a stage of a run's telemetry, as stragglers."""
    total = sum(found.caused_s.values()) or 1.0
    return [
        {
            "rank": stage.leader,
            "score": min(1.0, found.caused_s[stage.leader] / total),
            "confidence": round(stage.led, 4),
            "since": stage.since,
            "stage": stage.stage,
        }
        for stage in found.stages
        if stage.label == "persistent"
    ]


def _wait_data(waits: Waits | None) -> dict[str, Any] | None:
    if waits is None:
        return None
    return {"total_ns": waits.total_ns, "share_of_communication": waits.share_of_communication}


def _what_if_data(replay: JobReplay | None) -> list[dict[str, Any]]:
    if replay is None:
        return []
    return [{**_fields(change), "gain_ns": change.gain_ns} for change in replay.changes]


def _task_data(task: TaskTraffic) -> dict[str, Any]:
    names = ("task", "server", "receive_ratio", "exposed_ratio")
    middle = sorted(step.wall_ns for step in task.steps)[len(task.steps) // 2]
    return {name: getattr(task, name) for name in names} | {"steps": len(task.steps), "step_ns": middle}
