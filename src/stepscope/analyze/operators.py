"""The operator table: calls, host and device time of each operator.

- host total: time in the operator; a call of its own name within it (recursion) is counted once
- host self: less the operators it calls. Calls into the runtime, such as launches, count as the operator's
  own.
- device total: device work launched by it or by its calls
- device self: device work launched by it directly

``Self`` adds up over all operators, ``total`` does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.groups import Groups, PerStep
from stepscope.attribute.named import named
from stepscope.attribute.spans import Ints
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.trace.model import Kind, Trace

RECORDERS = re.compile(r"^stepscope ")
"""Matches the names of what a capture records of itself: it is no operator of the program."""
FOLLOWED_STEP = re.compile(r"^stepscope followed values$")
"""Matches the mark of the last step after those of a capture, in which it followed values."""


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """All calls of one operator; device values are None if launches were not recorded."""

    name: str
    calls: int
    host_total_ns: int
    host_self_ns: int
    device_total_ns: int | None
    device_self_ns: int | None
    host_per_step: PerStep
    device_per_step: PerStep | None
    flops: int | None
    """Sum over the calls that recorded any."""
    bytes: int | None


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Times of every operator's call, one entry each."""

    rows: Ints
    """Rows of the trace."""
    outer: npt.NDArray[np.bool_]
    """Whether no operator of the same name called it, so that totals count it."""
    host_self_ns: npt.NDArray[np.int64]
    device_total_ns: npt.NDArray[np.int64]
    device_self_ns: npt.NDArray[np.int64]


def operator_times(trace: Trace) -> OperatorTimes:
    """Compute host and device times of every operator's call."""
    is_operator = (trace.kind == Kind.HOST_OP) & ~named(trace, RECORDERS)[trace.name]
    rows = np.flatnonzero(is_operator)
    parent = np.ascontiguousarray(trace.parent, np.int32)
    above = np.where(parent >= 0, trace.operator[parent], -1)
    called = rows[above[rows] >= 0]
    inner = np.bincount(above[called], weights=trace.duration_ns[called], minlength=len(trace))[rows]
    own = device_time(trace, trace.operator)
    total = own.copy()
    tree.accumulate(np.where(is_operator, above, -1).astype(np.int32), total)
    return OperatorTimes(
        rows=rows,
        outer=trace.outermost(np.where(is_operator, trace.name, -1))[rows],
        host_self_ns=np.maximum(0, trace.duration_ns[rows] - inner).astype(np.int64),
        device_total_ns=total[rows],
        device_self_ns=own[rows],
    )


def device_time(trace: Trace, owner: Ints) -> npt.NDArray[np.int64]:
    """Return i8[rows]: device time given to the row that owns its launch.

    Args:
        trace: The trace.
        owner: For each row the row that owns it, -1 for none.
    """
    work = trace.device_work()
    work = work[trace.launch[work] >= 0]
    mine = owner[trace.launch[work]]
    known = mine >= 0
    time = np.bincount(mine[known], weights=trace.duration_ns[work[known]], minlength=len(trace))
    return time.astype(np.int64)


def operator_table(trace: Trace) -> tuple[OperatorStats, ...]:
    """Sum operators by name, most device time first, then most host self time.

    Raises:
        EmptyTraceError: No operators were recorded.
    """
    times = operator_times(trace)
    rows = times.rows
    if not len(rows):
        raise EmptyTraceError(
            f"cannot tell which operators ran: no operators of the host in this {trace.format} profile",
            hint="torch.profiler records them with ProfilerActivity.CPU",
        )
    outer, groups = times.outer, Groups.by(trace.name[rows])
    has_device = bool((trace.launch >= 0).any())
    duration = np.where(outer, trace.duration_ns[rows], 0)
    device_outer = np.where(outer, times.device_total_ns, 0)
    count, host_total = groups.count(), groups.sum(duration)
    host_self, device_total = groups.sum(times.host_self_ns), groups.sum(device_outer)
    device_self = groups.sum(times.device_self_ns)
    host_steps = groups.per_step(trace, rows, duration)
    device_steps = groups.per_step(trace, rows, device_outer) if has_device else [None] * len(groups)
    flops, bytes_moved = (_recorded(groups, column[rows]) for column in (trace.flops, trace.bytes))
    return tuple(
        OperatorStats(
            name=trace.strings[int(groups.key[g])],
            calls=int(count[g]),
            host_total_ns=int(host_total[g]),
            host_self_ns=int(host_self[g]),
            device_total_ns=int(device_total[g]) if has_device else None,
            device_self_ns=int(device_self[g]) if has_device else None,
            host_per_step=host_steps[g],
            device_per_step=device_steps[g],
            flops=flops[g],
            bytes=bytes_moved[g],
        )
        for g in np.lexsort((-host_self, -device_self)).tolist()
    )


def _recorded(groups: Groups, value: Ints) -> list[int | None]:
    """Return the sum of each group over its rows that are not -1, None if all are."""
    known = value >= 0
    total = np.bincount(groups.of[known], weights=value[known], minlength=len(groups))
    count = np.bincount(groups.of[known], minlength=len(groups))
    return [int(t) if c else None for t, c in zip(total, count, strict=True)]
