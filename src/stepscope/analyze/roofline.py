"""How close operators and steps come to the limits of the device.

For a call with F operations and B bytes of least traffic that took T on a device with peak P (operations per
second in its number format) and memory bandwidth W:

- achieved = F / T, intensity = F / B
- attainable = min(P, intensity * W), the roofline (Williams, Waterman and Patterson 2009); the call is
  ``memory`` bound if the second term is smaller, else ``compute`` bound
- efficiency = achieved / attainable

Model FLOPs utilisation of a step = sum of F / (wall time * P), with the P of the format that has most
operations (PaLM, Chowdhery et al. 2022). Recomputed activations count, so with checkpointing this is
hardware utilisation.

float32 counts against the TF32 peak if one of the call's kernels has a name that uses tensor cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.flops import OperatorWork, operator_work
from stepscope.analyze.groups import Groups
from stepscope.analyze.kernels import TENSOR_CORE
from stepscope.analyze.operators import operator_times
from stepscope.analyze.peaks import PeakRates, common_peak
from stepscope.attribute.named import named
from stepscope.attribute.windows import windows
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.text import counted
from stepscope.trace.model import Trace


@dataclass(frozen=True, slots=True)
class OperatorRoof:
    """All calls of one operator in one number format; None if shapes, device or peak are unknown."""

    name: str
    number_format: str
    """``""`` if it was not recorded."""
    calls: int
    flops: int
    bytes: int | None
    device_ns: int
    achieved_flops_per_second: float | None
    intensity: float | None
    """Operations per byte."""
    attainable_flops_per_second: float | None
    efficiency_ratio: float | None
    bound: str | None
    """``compute`` or ``memory``."""


@dataclass(frozen=True, slots=True)
class StepRoof:
    """One step of one rank."""

    rank: int
    step: int
    wall_ns: int
    flops: int
    utilisation_ratio: float | None
    """Model FLOPs utilisation; None if the device's peak or part of the work is not known."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """Operators with most device time first."""

    operators: tuple[OperatorRoof, ...]
    steps: tuple[StepRoof, ...]
    peak: PeakRates | None
    counted_ratio: float | None
    """Share of all device time that these operators have; the rest has no operations that are counted."""
    notes: tuple[str, ...]


def roofline(trace: Trace) -> Roofline:
    """Compare work with the device's limits.

    Raises:
        EmptyTraceError: Neither shapes nor operations were recorded, or none of an operator that is counted.
    """
    work = require_work(trace, operator_work(trace))
    peak, notes = used_peak(trace)
    if work.unknown:
        calls = ", ".join(
            f"{counted(count, 'call')} of {name}" for name, count in sorted(work.unknown.items())
        )
        notes.append(f"utilisation is not known: what was recorded does not tell the work of {calls}")
    formats = formats_of(trace, work)
    device = device_times(trace)
    total = int(trace.duration_ns[trace.device_work()].sum())
    return Roofline(
        operators=_operators(trace, work, formats, device, peak),
        steps=_steps(trace, work, formats, peak),
        peak=peak,
        counted_ratio=float(device[work.rows].sum() / total) if total else None,
        notes=tuple(notes),
    )


def require_work(trace: Trace, work: OperatorWork) -> OperatorWork:
    """Return the work.

    Raises:
        EmptyTraceError: Neither shapes nor operations were recorded, or none of an operator that is counted.
    """
    if "flops" not in trace.recorded:
        trace.require("shapes", "how many operations there were")
    if not len(work.rows):
        raise EmptyTraceError(
            "cannot tell how many operations there were: no matrix product, convolution or attention",
            hint="record shapes: profile(record_shapes=True) in PyTorch; other operators are not counted",
        )
    return work


def used_peak(trace: Trace) -> tuple[PeakRates | None, list[str]]:
    """Return the peak rates of the devices that worked, None if unknown, and why."""
    used = {(int(trace.rank[row]), int(trace.device[row])) for row in trace.device_work()}
    return common_peak(device for device in trace.devices if (device.rank, device.index) in used)


def device_times(trace: Trace) -> npt.NDArray[np.int64]:
    """Return i8[rows]: device time that operators' calls launched, and of executions of XLA instructions.

    An execution of several kernels stands at its first.
    """
    times = operator_times(trace)
    device = np.zeros(len(trace), np.int64)
    device[times.rows] = times.device_total_ns
    table = trace.instructions
    mine = np.flatnonzero(trace.device[table.row] >= 0)
    if len(mine):
        execution = np.cumsum(table.calls[mine]) - 1
        spent = np.bincount(execution, weights=trace.duration_ns[table.row[mine]]).astype(np.int64)
        begins = mine[table.calls[mine] > 0]
        device[table.row[begins]] = spent
    return device


def call_times(trace: Trace, work: OperatorWork) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the time of each call, and whether it is the device's; without one it is the host's."""
    device = device_times(trace)[work.rows]
    on_device = (device > 0) | (trace.device[work.rows] >= 0)
    return np.where(on_device, device, trace.duration_ns[work.rows]), on_device


def formats_of(trace: Trace, work: OperatorWork) -> list[str]:
    """Return number formats, TF32 if float32 ran on tensor cores."""
    uses = named(trace, TENSOR_CORE)
    device = trace.device_work()
    device = device[(trace.launch[device] >= 0)]
    fast = device[uses[trace.name[device]]]
    on_cores = np.zeros(len(trace), np.int64)
    np.add.at(on_cores, trace.launch[fast], 1)
    tree.accumulate(np.ascontiguousarray(trace.parent, np.int32), on_cores)
    return [
        "tf32" if kind == "float32" and on_cores[row] else kind
        for row, kind in zip(work.rows.tolist(), work.number_format, strict=True)
    ]


def _operators(
    trace: Trace,
    work: OperatorWork,
    formats: list[str],
    device: npt.NDArray[np.int64],
    peak: PeakRates | None,
) -> tuple[OperatorRoof, ...]:
    kinds = sorted(set(formats))
    kind = np.array([kinds.index(one) for one in formats], np.int64)
    groups = Groups.by_pair(trace.name[work.rows], kind)
    flops, time, count = groups.sum(work.flops), groups.sum(device[work.rows]), groups.count()
    moved = groups.sum(np.maximum(work.bytes, 0))
    unknown = np.bincount(groups.of[work.bytes < 0], minlength=len(groups))
    return tuple(
        _roof(
            trace.strings[int(groups.key[g]) >> 32],
            kinds[int(groups.key[g]) & 0xFFFFFFFF],
            int(count[g]),
            int(flops[g]),
            None if unknown[g] else int(moved[g]),
            int(time[g]),
            peak,
        )
        for g in np.lexsort((-flops, -time)).tolist()
    )


def _roof(
    name: str, kind: str, calls: int, flops: int, moved: int | None, time_ns: int, peak: PeakRates | None
) -> OperatorRoof:
    achieved = flops / time_ns * 1e9 if time_ns else None
    intensity = flops / moved if moved else None
    most = peak.flops_per_second.get(kind) if peak else None
    attainable, bound = None, None
    if peak and most and intensity is not None:
        attainable = min(most, intensity * peak.bytes_per_second)
        bound = "compute" if attainable == most else "memory"
    efficiency = achieved / attainable if achieved is not None and attainable else None
    return OperatorRoof(
        name, kind, calls, flops, moved, time_ns, achieved, intensity, attainable, efficiency, bound
    )


def _steps(
    trace: Trace, work: OperatorWork, formats: list[str], peak: PeakRates | None
) -> tuple[StepRoof, ...]:
    roofs, every = [], windows(trace)
    kind = np.array(formats)
    for n in range(len(every)):
        mine = trace.rank[work.rows] == every.rank[n]
        if every.number[n] >= 0:
            mine &= trace.step[work.rows] == every.number[n]
        flops, wall = int(work.flops[mine].sum()), int(every.end_ns[n] - every.start_ns[n])
        most = None
        if peak and flops and not work.unknown:
            by_kind = {one: int(work.flops[mine & (kind == one)].sum()) for one in set(formats)}
            most = peak.flops_per_second.get(max(by_kind, key=lambda one: by_kind[one]))
        ratio = flops / (wall * 1e-9 * most) if most and wall else None
        roofs.append(StepRoof(int(every.rank[n]), int(every.number[n]), wall, flops, ratio))
    return tuple(roofs)
