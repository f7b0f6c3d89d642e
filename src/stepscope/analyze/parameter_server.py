"""How much of a TensorFlow step goes into tensors from other tasks (``RecvTensor``), per task.

With parameter servers each worker's trace holds its own device and those of the servers it talks to. For each
task and step, with R the union of the task's ``RecvTensor`` and C that of its other operators:

- receive ratio = R / step
- exposed ratio = (R without C) / step: receiving while the task computed nothing

Who sent is not recorded, nor are bytes in the Chrome timeline. A receive lasts from the request to the
arrival, so it holds the sender's own work. A step in which a task recorded no receive is left out for that
task: its receives may be in another task's trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

import numpy as np

from stepscope.analyze.device import rows_spans
from stepscope.analyze.named import named
from stepscope.analyze.spans import Ints
from stepscope.analyze.windows import windows
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Kind, Trace

_TASK = re.compile(r"/job:(?P<job>[^/]+)/replica:\d+/task:(?P<task>\d+)")
_RECEIVING = re.compile(r"RecvTensor|^_?Recv\b|_HostRecv")
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


def parameter_server(trace: Trace) -> tuple[TaskTraffic, ...]:
    """Measure what each task waits to receive; workers first, by name.

    Raises:
        EmptyTraceError: The trace names no tasks, or records no receive.
    """
    names = [_task_of(lane.process) for lane in trace.lanes]
    receiving = _receiving(trace)
    if not any(names) or not len(receiving):
        raise EmptyTraceError(
            f"cannot tell what tasks receive: no RecvTensor of a named task in this {trace.format} profile",
            hint="a timeline of tf.train.ProfilerHook on a cluster with parameter servers holds them",
        )
    steps: dict[str, list[TaskStep]] = {}
    for step in _steps(trace, names, receiving):
        steps.setdefault(step.task, []).append(step)
    found = [TaskTraffic(task, _is_server(task), tuple(these)) for task, these in steps.items()]
    return tuple(sorted(found, key=lambda task: (task.server, task.task)))


def _task_of(process: str) -> str:
    match = _TASK.search(process)
    return f"{match['job']}:{match['task']}" if match else ""


def _is_server(task: str) -> bool:
    return task.partition(":")[0] in _SERVERS


def _receiving(trace: Trace) -> Ints:
    wanted = named(trace, _RECEIVING)
    return np.flatnonzero((trace.kind == Kind.SEND_RECV) & wanted[trace.name])


def _steps(trace: Trace, names: list[str], receiving: Ints) -> list[TaskStep]:
    every, found = windows(trace), []
    tasks = np.array(names)[trace.lane]
    is_receive = np.zeros(len(trace), bool)
    is_receive[receiving] = True
    counted = (trace.kind == Kind.HOST_OP) | (trace.kind == Kind.DATA_LOADING) | (trace.kind == Kind.KERNEL)
    for rank in np.unique(trace.rank).tolist():
        mine = every.of_rank(rank)
        for task in sorted(set(names) - {""}):
            rows = np.flatnonzero((tasks == task) & (trace.rank == rank))
            if not len(rows):
                continue
            receives = rows[is_receive[rows]]
            receive = rows_spans(trace, receives)
            compute = rows_spans(trace, rows[counted[rows] & ~is_receive[rows]])
            measured = [
                spans.within(mine.start_ns, mine.end_ns)
                for spans in (receive, receive.minus(compute), compute)
            ]
            for n in range(len(mine)):
                start = trace.start_ns[receives]
                inside = receives[(start >= mine.start_ns[n]) & (start < mine.end_ns[n])]
                if not len(inside):
                    continue
                moved = trace.bytes[inside]
                found.append(
                    TaskStep(
                        rank=rank,
                        step=int(mine.number[n]),
                        task=task,
                        wall_ns=int(mine.end_ns[n] - mine.start_ns[n]),
                        receive_ns=int(measured[0][n]),
                        exposed_ns=int(measured[1][n]),
                        compute_ns=int(measured[2][n]),
                        receives=len(inside),
                        received_bytes=int(moved[moved >= 0].sum()) if (moved >= 0).any() else None,
                    )
                )
    return found
