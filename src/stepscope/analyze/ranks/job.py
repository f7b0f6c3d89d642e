"""All ranks of one job: from their profiles, their dumps, or the telemetry of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from stepscope.errors import EmptyTraceError
from stepscope.trace.ranks import absent_ranks, overlapping

if TYPE_CHECKING:
    from stepscope.analyze.parameter_server import TaskStep, TaskTraffic
    from stepscope.analyze.ranks.account import Account
    from stepscope.analyze.ranks.blame import Answers, Blame, Doings, OwnStretches, WaitCost
    from stepscope.analyze.ranks.clocks import Clocks
    from stepscope.analyze.ranks.frontier import Frontier
    from stepscope.analyze.ranks.hangs import Hang
    from stepscope.analyze.ranks.own_work import Excess, OwnWork
    from stepscope.analyze.ranks.path import RanksPath
    from stepscope.analyze.ranks.stragglers import SharedCause, Straggler
    from stepscope.analyze.ranks.stuck import StuckRank
    from stepscope.analyze.ranks.waits import Bandwidth, SlowGroup, Waits
    from stepscope.analyze.ranks.what_if import JobReplay
    from stepscope.trace.model import Trace


@dataclass(frozen=True)
class Job:
    """The ranks of a job, as far as they are known.

    Facts that the recording lacks are None or empty, and ``notes`` says why.

    Attributes:
        source: ``run``, ``profiles`` or ``dumps``.
        ranks: Ranks that were recorded.
        missing: Ranks that belong to the job and were not.
        clocks: The ranks' clocks, from profiles.
        waits: Waiting in collectives, from profiles.
        bandwidths: Transfers by operation and group, from profiles.
        blame: The ranks and causes of the waiting, from profiles; sums to all of it.
        costs: The same by ``host``, ``scope``, ``line`` and ``cause``, over all ranks.
        path: The chain of work and transfers that made the steps so long, from profiles.
        stragglers: Ranks that come last beyond chance, from profiles.
        replay: How long a step would take if a rank were different, from profiles.
        shared: The cause that delays changing ranks if none stands out, from profiles.
        slow_groups: Process groups whose transfers take longer than those of similar groups, from profiles.
        frontier: The time by stage, from a run's telemetry; of several groups of ranks that in
            which one rank costs most.
        accounts: Likewise of each group of ranks whose work is alike.
        stage_clock: Whose time the stages are: ``host``, or ``device`` if the devices timed them.
        stuck: Ranks whose step does not end, from ``HangHook``.
        hosts: Host of each rank, if it was recorded.
        hang: Who is waited for, from dumps.
        ends: How ranks failed, were killed or vanished, in words, the first to end first; from telemetry.
        tasks: Share of receiving of workers and parameter servers, from TensorFlow's profiles.
        notes: The open questions, in sentences.
    """

    source: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...] = ()
    clocks: Clocks | None = None
    waits: Waits | None = None
    bandwidths: tuple[Bandwidth, ...] = ()
    blame: tuple[Blame, ...] = ()
    costs: Mapping[str, tuple[WaitCost, ...]] = field(default_factory=dict)
    path: RanksPath | None = None
    stragglers: tuple[Straggler, ...] = ()
    replay: JobReplay | None = None
    shared: SharedCause | None = None
    slow_groups: tuple[SlowGroup, ...] = ()
    frontier: Frontier | None = None
    accounts: tuple[Account, ...] = ()
    stage_clock: str = ""
    stuck: tuple[StuckRank, ...] = ()
    hosts: dict[int, str] = field(default_factory=dict)
    hang: Hang | None = None
    tasks: tuple[TaskTraffic, ...] = ()
    ends: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=())

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON types; unknown facts are null or empty."""
        return {
            "source": self.source,
            "ranks": len(self.ranks),
            "missing": list(self.missing),
            "clock": _own_clocks() if self.accounts else _clock_data(self.clocks),
            "stage_clock": self.stage_clock or None,
            "stages": _stage_data(self.frontier),
            "groups": [_group_data(account) for account in self.accounts],
            "wait": _account_wait(self.accounts) if self.accounts else _wait_data(self.waits),
            "bandwidth": [_fields(row) for row in self.bandwidths],
            "blame": [*map(_fields, self.blame), *_account_blame(self.accounts)],
            "costs": {by: [_fields(row) for row in rows] for by, rows in self.costs.items()},
            "critical_path": _path_data(self.path),
            "stragglers": [
                *map(_fields, self.stragglers),
                *(row for account in self.accounts for row in _leaders(account.frontier)),
            ],
            "suspects": [_fields(row) for row in self.hang.suspects] if self.hang else [],
            "stuck": [_fields(row) for row in self.stuck],
            "ends": [{"rank": rank, "end": end} for rank, end in self.ends.items()],
            "what_if": [*_what_if_data(self.replay), *_account_what_if(self.accounts)],
            "shared_cause": _fields(self.shared) if self.shared else None,
            "slow_groups": [_fields(row) for row in self.slow_groups],
            "parameter_server": _tasks_data(self.tasks),
            "notes": list(self.notes),
        }


Progress = Callable[[str, int, int, float], None]
"""Called with the activity, the number of files, and the seconds it took so far."""


@dataclass(frozen=True, slots=True)
class HowRead:
    """How the files of a job are read.

    Attributes:
        cache: Keep the columns in the user's cache directory.
        processes: Number of processes on this machine, by default one per processor.
        ray: On a Ray cluster, see :func:`stepscope.workers.spread`.
        progress: Called as files are done.
        network_bytes_per_s: Rate of a rank's network in one direction.
    """

    cache: bool = True
    processes: int | None = None
    ray: bool | str = False
    progress: Progress | None = None
    network_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class JobParts:
    """The answers of the files of a job of which only collectives and steps are kept.

    Attributes:
        tasks: Steps of TensorFlow's tasks.
        own: Gives each rank's savings by itself.
        causes: Gives the last ranks' other work, and ranks' work in stretches of time.
    """

    tasks: Sequence[TaskStep]
    own: Callable[[], dict[int, OwnWork]]
    causes: Callable[[Waits, Excess, Mapping[int, OwnStretches]], tuple[Answers, Doings]]


def job_of(trace: Trace, parts: JobParts | None = None, *, network_bytes_per_s: float | None = None) -> Job:
    """Return a job as the profiles of all ranks, or their flight-recorder dumps, show it.

    Args:
        trace: The profiles or dumps, whole, or their collectives and steps.
        parts: If only those are given, the answers of the files themselves.
        network_bytes_per_s: Rate of a rank's network in one direction, which no profile holds.

    Raises:
        EmptyTraceError: One rank alone, no collective that ranks share, or files that contradict each other.
    """
    if doubt := overlapping(trace):
        raise EmptyTraceError(
            f"cannot tell who waits for whom: {doubt}", hint="leave one recording of each rank in the folder"
        )
    if trace.format == "flight_recorder":
        return _of_dumps(trace)
    return _of_profiles(trace, parts, network_bytes_per_s)


def _of_dumps(trace: Trace) -> Job:
    from stepscope.analyze.ranks.hangs import find_hang

    hang = find_hang(trace)
    return Job("dumps", hang.ranks, hang.missing, hang=hang, notes=hang.notes)


def _of_profiles(trace: Trace, parts: JobParts | None, network: float | None) -> Job:
    from stepscope.analyze.ranks.blame import answers_of, blame_of, costs_of
    from stepscope.analyze.ranks.clocks import align_clocks
    from stepscope.analyze.ranks.joint import joint_collectives
    from stepscope.analyze.ranks.own_work import excess_of, own_work
    from stepscope.analyze.ranks.path import Walks
    from stepscope.analyze.ranks.stragglers import find_stragglers, shared_cause
    from stepscope.analyze.ranks.waits import bandwidths, measure_waits, slow_groups
    from stepscope.analyze.ranks.what_if import what_if

    tasks = _tasks(trace, parts)
    sizes = [source.world_size for source in trace.sources]
    missing = tuple(absent_ranks(max(sizes, default=0), trace.ranks))
    try:
        joint = joint_collectives(trace)
    except EmptyTraceError:
        if not tasks:  # of parameter servers, which need no collectives
            raise
        return Job("profiles", trace.ranks, missing, tasks=tasks)
    clocks = align_clocks(trace, joint)
    waits = measure_waits(trace, joint, clocks)
    notes = list(joint.notes)
    if clocks.refused is not None:
        notes.append(f"waits are not attributed to ranks: the clocks cannot be aligned, {clocks.refused}")
        return Job("profiles", trace.ranks, missing, clocks, tasks=tasks, notes=tuple(notes))
    if not joint.whole.all():
        notes.append("not all members of the groups were recorded: waits are lower bounds")
    own = parts.own() if parts else {rank: own_work(trace, rank) for rank in joint.ranks}
    replay = what_if(trace, waits, clocks, own)
    if replay.refused is not None:
        notes.append(f"no what-if: {replay.refused}")
    excess = excess_of(joint.row, waits.last, own.values(), len(trace))
    walks = Walks(trace, waits, clocks)
    if walks.refused is not None:
        notes.append(f"no critical path: {walks.refused}")
    ask = parts.causes if parts else partial(answers_of, trace)
    answers, doings = ask(waits, excess, walks.stretches)
    hosts = {source.rank: source.host for source in trace.sources if source.host}
    laid, stragglers = blame_of(waits, answers), find_stragglers(trace, waits, answers)
    return Job(
        "profiles", trace.ranks, missing, clocks, waits,
        bandwidths(trace, waits, network_bytes_per_s=network), laid,
        costs_of(waits, answers, hosts), walks.path(doings), stragglers, replay,
        shared=None if stragglers else shared_cause(trace, waits, laid), hosts=hosts,
        slow_groups=slow_groups(trace, waits), tasks=tasks, notes=tuple(notes),
    )  # fmt: skip


def _tasks(trace: Trace, parts: JobParts | None) -> tuple[TaskTraffic, ...]:
    from stepscope.analyze.parameter_server import parameter_server, traffic

    if parts:
        return traffic(parts.tasks)
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


def _own_clocks() -> dict[str, Any]:
    """Return why a run's telemetry aligns no clocks."""
    why = "not needed: how long the stages took is compared, each by its rank's own clock"
    return {"reference": None, "offsets_ns": {}, "refused": why}


def _account_blame(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """Return the ranks to which the waiting of others is attributed, and the stage; most first."""
    rows = [
        (rank, stage.stage, (len(frontier.ranks) - 1) * lost)
        for account in accounts
        if account.own is None
        for frontier in [account.frontier]
        for stage, by_rank in zip(frontier.stages, frontier.led_s.tolist(), strict=True)
        for rank, lost in zip(frontier.ranks, by_rank, strict=True)
        if lost > 0
    ]
    total = sum(waited for *_, waited in rows)
    clear = {
        (stage.leader, stage.stage)
        for account in accounts
        for stage in account.frontier.stages
        if stage.label == "persistent"
    }
    return [
        {
            "rank": rank, "wait_caused_ns": round(1e9 * waited), "share": waited / total, "cause": stage,
            "name": "", "line": "", "scope": "", "clear": (rank, stage) in clear,
        }
        for rank, stage, waited in sorted(rows, key=lambda row: -row[2])
    ]  # fmt: skip


def _account_wait(accounts: Sequence[Account]) -> dict[str, Any]:
    """Return how long a run's ranks waited for each other; the share of communication is not recorded."""
    if any(account.own is not None for account in accounts):  # each waits for servers, which no run records
        return {"total_ns": None, "transfer_ns": None, "share_of_communication": None}
    total = sum(row["wait_caused_ns"] for row in _account_blame(accounts))
    return {"total_ns": total, "transfer_ns": None, "share_of_communication": None}


def _account_what_if(accounts: Sequence[Account]) -> list[dict[str, Any]]:
    """Return how long a run's steps would take without each group's slowest rank, if they can be replayed."""
    from stepscope.analyze.ranks.account import onset
    from stepscope.analyze.ranks.what_if import TOLERANCE

    effects = []
    for account in accounts:
        seen = onset(account)
        if seen is not None and account.off <= TOLERANCE:
            effects.append(
                {
                    "change": f"rank {seen.rank} like the median rank", "rank": seen.rank,
                    "recorded_ns": 1e9 * seen.after_s, "predicted_ns": 1e9 * seen.without_s,
                    "gain_ns": 1e9 * seen.delay_s,
                }
            )  # fmt: skip
    return effects


def _path_data(path: RanksPath | None) -> dict[str, Any] | None:
    if path is None:
        return None
    return {
        "steps": path.steps,
        "step_ns": path.total_ns / path.steps if path.steps else None,
        "refused": path.refused,
        "switches": path.switches,
        "ranks": {str(rank): ns for rank, ns in path.ranks.items()},
        "pieces": [_fields(piece) for piece in path.pieces],
    }


def _stage_data(frontier: Frontier | None) -> list[dict[str, Any]]:
    return [_fields(stage) for stage in frontier.stages] if frontier else []


def _group_data(account: Account) -> dict[str, Any]:
    frontier = account.frontier
    return {
        "group": account.group,
        "ranks": list(frontier.ranks),
        "steps": frontier.steps,
        "group_s": frontier.group_s,
        "meets": account.meets,
        "stages": _stage_data(frontier),
    }


def _leaders(frontier: Frontier) -> list[dict[str, Any]]:
    """Return the ranks that persist in a stage of a run's telemetry, as stragglers."""
    total = sum(frontier.caused_s.values()) or 1.0
    return [
        {
            "rank": stage.leader,
            "score": min(1.0, frontier.caused_s[stage.leader] / total),
            "confidence": round(stage.led, 4),
            "since": stage.since,
            "stage": stage.stage,
        }
        for stage in frontier.stages
        if stage.label == "persistent"
    ]


def _wait_data(waits: Waits | None) -> dict[str, Any] | None:
    if waits is None:
        return None
    return {
        "total_ns": waits.total_ns,
        "transfer_ns": int(waits.transfer_ns.sum()),
        "share_of_communication": waits.share_of_communication,
    }


def _what_if_data(replay: JobReplay | None) -> list[dict[str, Any]]:
    if replay is None:
        return []
    return [{**_fields(change), "gain_ns": change.gain_ns} for change in replay.changes]


def _task_data(task: TaskTraffic, worst: str | None) -> dict[str, Any]:
    from stepscope.analyze.parameter_server import holds_of, parts_of

    names = ("task", "server", "receive_ratio", "exposed_ratio")
    middle = sorted(step.wall_ns for step in task.steps)[len(task.steps) // 2]
    parts = parts_of(task)
    return {name: getattr(task, name) for name in names} | {
        "steps": len(task.steps),
        "step_ns": middle,
        "parts": _fields(parts) if parts else None,
        "holds_ratio": holds_of(task),
        "bottleneck": task.task == worst,
    }


def _tasks_data(tasks: Sequence[TaskTraffic]) -> list[dict[str, Any]]:
    from stepscope.analyze.parameter_server import bottleneck

    worst = bottleneck(tasks)
    return [_task_data(task, worst) for task in tasks]
