"""How much of a TensorFlow step goes into tensors from other tasks (``RecvTensor``), per task.

With parameter servers each worker's trace holds its own device and those of the servers it talks to. For each
task and step, with R the union of the task's ``RecvTensor`` and C that of its other operators:

- receive ratio = R / step
- exposed ratio = (R without C) / step: receiving while the task computed nothing

A worker's step falls into three parts that sum to it, with S its servers' computing in it and T all
receives, its own and its servers':

- own compute = C
- transfer = T without C and S
- waiting = the rest: a server computes, or nothing is recorded, as in a queue

and a server holds the worker up while it computes or receives and the worker computes nothing.

Who sent is not recorded, nor are bytes in the Chrome timeline. A receive lasts from the request to the
arrival, so it holds the sender's own work. A step in which a task recorded no receive is left out for that
task: its receives may be in another task's trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.stragglers import chance_of_wins
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.windows import windows
from stepscope.errors import EmptyTraceError
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace

_TASK = re.compile(r"/job:(?P<job>[^/]+)/replica:\d+/task:(?P<task>\d+)")
_SERVERS = ("ps",)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One task in one step of one trace."""

    rank: int
    step: int
    task: str
    """Such as ``worker:0`` or ``ps:1``."""
    wall_ns: int
    receive_ns: int
    """Union of its receives."""
    exposed_ns: int
    """Of these, while it computed nothing."""
    compute_ns: int
    """Union of its other operators."""
    receives: int
    received_bytes: int | None
    transfer_ns: int = 0
    """Of a worker's step: tensors were on their way, to it or to a server, and nobody computed."""
    waiting_ns: int = 0
    """Of a worker's step: the time other than its own compute and transfer."""
    holds_ns: int = 0
    """Of a server: it computed or received, and the worker computed nothing."""

    @property
    def receive_ratio(self) -> float:
        """Share of the step in which something was on its way to the task."""
        return self.receive_ns / self.wall_ns if self.wall_ns else 0.0

    @property
    def exposed_ratio(self) -> float:
        """Share of the step in which the task received and computed nothing."""
        return self.exposed_ns / self.wall_ns if self.wall_ns else 0.0


@dataclass(frozen=True, slots=True)
class TaskTraffic:
    """All recorded steps of one task."""

    task: str
    server: bool
    """Whether it is a parameter server; then its share is of the steps of the workers that recorded it."""
    steps: tuple[TaskStep, ...]

    @property
    def receive_ratio(self) -> float:
        """Share in the median step."""
        return median(step.receive_ratio for step in self.steps)

    @property
    def exposed_ratio(self) -> float:
        """Share in the median step."""
        return median(step.exposed_ratio for step in self.steps)


@dataclass(frozen=True, slots=True)
class StepParts:
    """All steps of a worker together, in parts that sum to 1."""

    compute: float
    waiting: float
    transfer: float


def parts_of(task: TaskTraffic) -> StepParts | None:
    """Return the parts of all steps of a worker together; None for a server."""
    whole = sum(step.wall_ns for step in task.steps)
    if task.server or not whole:
        return None
    transfer = sum(step.transfer_ns for step in task.steps) / whole
    waiting = sum(step.waiting_ns for step in task.steps) / whole
    return StepParts(1.0 - waiting - transfer, waiting, transfer)


def holds_of(task: TaskTraffic) -> float | None:
    """Return the share of the workers' steps in which a server holds them up; None for a worker."""
    whole = sum(step.wall_ns for step in task.steps)
    return sum(step.holds_ns for step in task.steps) / whole if task.server and whole else None


def bottleneck(tasks: Iterable[TaskTraffic]) -> str | None:
    """Return the server that holds workers up beyond chance and clearly longer than each other one.

    It does so in more of the steps that both are recorded in than one of equal servers would (binomial, 5 %
    over all servers), and for :data:`CLEARLY` times as long. None if no server stands out.
    """
    servers = [task for task in tasks if task.server]
    if len(servers) < 2:
        return servers[0].task if servers else None
    held = {task.task: {(step.rank, step.step): step.holds_ns for step in task.steps} for task in servers}
    worst = max(held, key=lambda name: sum(held[name].values()))
    for other in held.keys() - {worst}:
        both = held[worst].keys() & held[other].keys()
        mine, theirs = (np.array([held[name][at] for at in sorted(both)]) for name in (worst, other))
        wins, count = int((mine > theirs).sum()), int((mine != theirs).sum())
        chance = len(servers) * chance_of_wins(wins, count, 0.5)
        if chance > LEAST_CHANCE or mine.sum() < CLEARLY * theirs.sum():
            return None
    return worst


CLEARLY, LEAST_CHANCE = 1.2, 0.05


def parameter_server(trace: Trace) -> tuple[TaskTraffic, ...]:
    """Measure each task's waits to receive; workers first, by name.

    Raises:
        EmptyTraceError: The trace names no tasks, or records no receive.
    """
    tasks = traffic(task_steps(trace))
    if not tasks:
        raise EmptyTraceError(
            f"cannot tell what tasks receive: no RecvTensor of a named task in this {trace.format} profile",
            hint="a timeline of tf.train.ProfilerHook on a cluster with parameter servers holds them",
        )
    return tasks


def task_steps(trace: Trace) -> list[TaskStep]:
    """Measure each step of each task that received; none if the trace names no tasks."""
    names = [_task_of(lane.process) for lane in trace.lanes]
    if not any(names):
        return []
    receiving = np.flatnonzero(attribution(trace).purpose == Purpose.PARAMETER_SERVER)
    return _steps(trace, names, receiving) if len(receiving) else []


def traffic(steps: Iterable[TaskStep]) -> tuple[TaskTraffic, ...]:
    """Return steps by task; workers first, by name."""
    of: dict[str, list[TaskStep]] = {}
    for step in steps:
        of.setdefault(step.task, []).append(step)
    tasks = [TaskTraffic(task, _is_server(task), tuple(these)) for task, these in of.items()]
    return tuple(sorted(tasks, key=lambda task: (task.server, task.task)))


def _task_of(process: str) -> str:
    match = _TASK.search(process)
    return f"{match['job']}:{match['task']}" if match else ""


def _is_server(task: str) -> bool:
    return task.partition(":")[0] in _SERVERS


def _steps(trace: Trace, names: list[str], receiving: Ints) -> list[TaskStep]:
    every, shares = windows(trace), []
    tasks = np.array(names)[trace.lane]
    is_receive = np.zeros(len(trace), bool)
    is_receive[receiving] = True
    counted = (trace.kind == Kind.HOST_OP) | (trace.kind == Kind.DATA_LOADING) | (trace.kind == Kind.KERNEL)
    for rank in distinct(trace.rank).tolist():
        mine = every.of_rank(rank)
        spans = _spans_of(trace, tasks, rank, counted, is_receive)
        for task, (rows, receive, compute) in spans.items():
            receives = rows[is_receive[rows]]
            server = _is_server(task)
            others = [other for name, other in spans.items() if _is_server(name) != server]
            elsewhere = Spans.empty().union(*(other.compute for other in others))
            moving = receive.union(*(other.receive for other in others)).minus(compute.union(elsewhere))
            holding = receive.union(compute).minus(elsewhere)
            measured = [
                some.within(mine.start_ns, mine.end_ns).tolist()
                for some in (receive, receive.minus(compute), compute, moving, holding)
            ]
            for n in range(len(mine)):
                start = trace.start_ns[receives]
                inside = receives[(start >= mine.start_ns[n]) & (start < mine.end_ns[n])]
                if not len(inside):
                    continue
                moved, wall = trace.bytes[inside], int(mine.end_ns[n] - mine.start_ns[n])
                shares.append(
                    TaskStep(
                        rank=rank,
                        step=int(mine.number[n]),
                        task=task,
                        wall_ns=wall,
                        receive_ns=measured[0][n],
                        exposed_ns=measured[1][n],
                        compute_ns=measured[2][n],
                        receives=len(inside),
                        received_bytes=int(moved[moved >= 0].sum()) if (moved >= 0).any() else None,
                        transfer_ns=0 if server else measured[3][n],
                        waiting_ns=0 if server else wall - measured[2][n] - measured[3][n],
                        holds_ns=measured[4][n] if server and others else 0,
                    )
                )
    return shares


class _Task(NamedTuple):
    """Rows of a task, and when it received and computed."""

    rows: Ints
    receive: Spans
    compute: Spans


def _spans_of(
    trace: Trace, tasks: npt.NDArray[np.str_], rank: int, counted: npt.NDArray[np.bool_],
    is_receive: npt.NDArray[np.bool_],
) -> dict[str, _Task]:  # fmt: skip
    by_task = {}
    for task in sorted(set(tasks[trace.rank == rank].tolist()) - {""}):
        rows = np.flatnonzero((tasks == task) & (trace.rank == rank))
        receive = rows_spans(trace, rows[is_receive[rows]])
        by_task[task] = _Task(rows, receive, rows_spans(trace, rows[counted[rows] & ~is_receive[rows]]))
    return by_task
