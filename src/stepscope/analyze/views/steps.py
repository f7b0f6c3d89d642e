"""The profiled steps and how long each took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope import text
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Trace
from stepscope.trace.tfprof import Profile


@dataclass(frozen=True)
class StepRow:
    """One step of one rank; times in nanoseconds, None if not recorded."""

    rank: int
    step: int
    start_ns: int
    duration_ns: int
    device_ns: int | None
    host_ns: int | None


@dataclass(frozen=True)
class StepTable:
    """All steps."""

    rows: list[StepRow]

    @property
    def text(self) -> str:
        """A table with the spread in its last line."""
        lines = [f"{'rank':>5}  {'step':>8}  {'duration':>9}  {'device':>9}  {'host':>9}"]
        for row in self.rows:
            device, host = (text.time(ns) if ns is not None else "-" for ns in (row.device_ns, row.host_ns))
            lines.append(
                f"{row.rank:>5}  {row.step:>8}  {text.time(row.duration_ns):>9}  {device:>9}  {host:>9}"
            )
        durations = np.array([row.duration_ns for row in self.rows], float)
        if len(durations) > 1:
            least, middle, most = durations.min(), np.median(durations), durations.max()
            spread = f"min {text.time(least)}, median {text.time(middle)}, max {text.time(most)}"
            count, ranks = len({row.step for row in self.rows}), len({row.rank for row in self.rows})
            of = f" on {ranks} ranks" if ranks > 1 else ""
            lines.append(f"{count} step{'s' * (count != 1)}{of}: {spread}")
        return "\n".join(lines) + "\n"

    def as_dicts(self) -> list[dict[str, Any]]:
        """The rows as JSON types."""
        return [{name: getattr(row, name) for name in StepRow.__dataclass_fields__} for row in self.rows]


def steps_of(profile: Profile | None, trace: Callable[[], Trace]) -> StepTable:
    """Return the steps of tfprof's data, if the profile is that, or else those of the trace."""
    return trace_steps(trace()) if profile is None else profile_steps(profile)


def trace_steps(trace: Trace) -> StepTable:
    """Return the marked steps of a trace, with device work counted to the step that launched it.

    Raises:
        EmptyTraceError: No step was marked.
    """
    if not len(trace.steps):
        trace.require("steps", "how long the steps took")
        raise EmptyTraceError("no step was marked", hint="call profiler.step() after each step")
    from stepscope.analyze.views.measure import measure

    measures = measure(trace)
    device = "device" in trace.recorded
    rows = []
    steps = trace.steps
    for index in range(len(steps)):
        rank, number = int(steps.rank[index]), int(steps.number[index])
        inside = (trace.rank == rank) & (trace.step == number)
        start, on_device = int(steps.start_ns[index]), int(measures.device_ns[inside].sum())
        duration, on_host = int(steps.end_ns[index]) - start, int(measures.host_ns[inside].sum())
        rows.append(StepRow(rank, number, start, duration, on_device if device else None, on_host))
    return StepTable(rows)


def profile_steps(profile: Profile) -> StepTable:
    """Return the steps of a tfprof source, from the first start to the last end of any node.

    Raises:
        EmptyTraceError: Nothing was run.
    """
    if not profile.steps:
        raise EmptyTraceError("no step was profiled", hint="pass RunMetadata files along with the graph")
    rows = []
    for step in profile.steps:
        ran = [node.executions[step] for node in profile.nodes.values() if step in node.executions]
        start = min((one.start_micros for one in ran if one.start_micros), default=0)
        end = max((one.end_micros for one in ran), default=0)
        device = sum(one.accelerator_micros for one in ran) if any(one.accelerator for one in ran) else None
        host = sum(one.cpu_micros for one in ran)
        on_device = device * 1000 if device is not None else None
        rows.append(StepRow(0, step, start * 1000, (end - start) * 1000, on_device, host * 1000))
    return StepTable(rows)
