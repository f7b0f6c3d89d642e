"""The profiles of all ranks as one trace on one clock, with an arrow from each wait to its cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.clocks import Clocks, align_clocks
from stepscope.analyze.ranks.joint import joint_collectives
from stepscope.analyze.ranks.waits import Waits, measure_waits
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Trace
from stepscope.trace.names import Strings
from stepscope.trace.tables import Flows

WAITS_FOR = "waits for"
"""Name of the arrows."""
ALIGNED, AS_RECORDED, ONE_HOST = (
    "clocks are aligned",
    "the ranks' clocks are as recorded",
    "all ranks are on one host",
)
CLOCK_NOTES = (ALIGNED, AS_RECORDED, ONE_HOST)
"""The first words of the note that says how the ranks' times were put on one clock, or why not."""


def together(trace: Trace) -> Trace:
    """Return a trace of several ranks with their clocks aligned, and its waits as flows.

    A flow leads from the collective of a rank that waits, longer than the clocks may be off, to that of the
    rank that came last. If the clocks cannot be aligned, times are as recorded, no flow is added, and a
    note says why; a trace of one rank is returned as it is.
    """
    if len(trace.ranks) < 2:
        return trace
    try:
        joint = joint_collectives(trace)
    except EmptyTraceError as error:
        return _noted(trace, f"{AS_RECORDED}: {error.message}")
    clocks = align_clocks(trace, joint)
    if clocks.refused is not None:
        return _noted(trace, *joint.notes, f"{AS_RECORDED}: {clocks.refused}")
    waits = measure_waits(trace, joint, clocks)
    moved = _moved(_linked(trace, waits, clocks.error_ns), clocks)
    note = (
        f"{ONE_HOST} and share its clock"
        if clocks.one_host
        else f"{ALIGNED} to rank {clocks.reference}'s within {clocks.error_ns / 1e3:.1f} µs"
    )
    lower = (
        [] if joint.whole.all() else ["not all members of the groups were recorded: waits are lower bounds"]
    )
    return _noted(moved, *joint.notes, note, *lower)


def _noted(trace: Trace, *notes: str) -> Trace:
    return replace(trace, notes=tuple(dict.fromkeys((*trace.notes, *notes))))


def _linked(trace: Trace, waits: Waits, error_ns: float) -> Trace:
    """Add the flows of waits to those of the trace."""
    rows = waits.joint.row
    which, rank = np.nonzero((rows >= 0) & (waits.wait_ns > error_ns))
    source, target = rows[which, rank], rows[which, waits.last[which]]
    texts = trace.strings.texts()
    flows = trace.flows
    added = np.full(len(source), len(texts), flows.name.dtype)
    source = np.concatenate((flows.source, source.astype(flows.source.dtype)))
    target = np.concatenate((flows.target, target.astype(flows.target.dtype)))
    name = np.concatenate((flows.name, added))
    order = np.argsort(source, kind="stable")
    return replace(
        trace,
        strings=Strings.of([*texts, WAITS_FOR]),
        flows=Flows(source=source[order], target=target[order], name=name[order]),
    )


def _moved(trace: Trace, clocks: Clocks) -> Trace:
    """Put all times of a trace on the reference's clock; the first is still not below 0."""
    lanes = np.array([lane.rank for lane in trace.lanes], np.int64)
    start = clocks.aligned(trace.start_ns, trace.rank)
    end = clocks.aligned(trace.end_ns, trace.rank)
    moved: dict[str, dict[str, npt.NDArray[Any]]] = {
        "steps": {
            name: clocks.aligned(getattr(trace.steps, name), trace.steps.rank)
            for name in ("start_ns", "end_ns")
        },
        "memory": {"time_ns": clocks.aligned(trace.memory.time_ns, trace.memory.rank)},
    }
    for name in ("counters", "marks"):
        table = getattr(trace, name)
        known = table.lane >= 0
        time = table.time_ns.copy()
        time[known] = clocks.aligned(time[known], lanes[table.lane[known]])
        moved[name] = {"time_ns": time}
    times = [start, *(column for table in moved.values() for column in table.values())]
    first = min((int(column.min()) for column in times if len(column)), default=0)
    tables = {
        name: replace(getattr(trace, name), **{key: column - first for key, column in columns.items()})
        for name, columns in moved.items()
    }
    return replace(
        trace, start_ns=start - first, duration_ns=end - start, origin_ns=trace.origin_ns + first, **tables
    )
