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

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.analyze.flops import OperatorWork
from stepscope.analyze.operators import operator_times
from stepscope.analyze.peaks import PeakRates, common_peak
from stepscope.attribute.named import named
from stepscope.attribute.windows import windows
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.trace.model import Trace

TENSOR_CORE = re.compile(
    r"[hsci](?:884|1688|8816|16816|1688)|hmma|imma|gmma|utcmma|tensorop|xmma|nvjet|cutlass\w*sm(?:90|100)"
)
"""Names of NVIDIA kernels that use tensor cores, after the lists of XProf and NVIDIA's pyprof. A name can
lie."""


class Roof(NamedTuple):
    """How close some work comes to the limits of a device; None if shapes or peak are unknown."""

    intensity: float | None
    """Operations per byte."""
    attainable: float | None
    """Operations per second."""
    efficiency: float | None
    bound: str | None
    """``compute`` or ``memory``."""


def roof_of(
    peak: PeakRates | None, number_format: str, *, flops: float, moved: float | None, rate: float | None
) -> Roof:
    """Compare work with the roof of a device.

    Args:
        peak: Rates of the device.
        number_format: Of the work.
        flops: Its operations.
        moved: Bytes that it must move.
        rate: Operations per second that it achieved.
    """
    intensity = flops / moved if flops and moved else None
    most = peak.flops_per_second.get(number_format) if peak else None
    if peak is None or not most or not intensity:
        return Roof(intensity, None, None, None)
    attainable = min(most, intensity * peak.bytes_per_second)
    efficiency = rate / attainable if rate is not None else None
    return Roof(intensity, attainable, efficiency, "compute" if attainable == most else "memory")


@dataclass(frozen=True, slots=True)
class StepRoof:
    """One step of one rank."""

    rank: int
    step: int
    wall_ns: int
    flops: int
    utilisation_ratio: float | None
    """Model FLOPs utilisation; None if the device's peak or part of the work is not known."""


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


def utilisation(
    work: OperatorWork,
    formats: npt.NDArray[np.str_],
    chosen: npt.NDArray[np.bool_],
    wall_ns: int,
    peak: PeakRates | None,
) -> float | None:
    """Return the model FLOPs utilisation of some calls in some time, None if it is not known."""
    flops, kind = work.flops[chosen], formats[chosen]
    if peak is None or work.unknown or not wall_ns or not flops.any():
        return None
    by_kind = {one: int(flops[kind == one].sum()) for one in np.unique(kind).tolist()}
    most = peak.flops_per_second.get(max(by_kind, key=lambda one: by_kind[one]))
    return sum(by_kind.values()) / (wall_ns * 1e-9 * most) if most else None


def step_roofs(
    trace: Trace, work: OperatorWork, formats: npt.NDArray[np.str_], peak: PeakRates | None
) -> tuple[StepRoof, ...]:
    """Return the utilisation of each step."""
    roofs, every = [], windows(trace)
    for n in range(len(every)):
        mine = trace.rank[work.rows] == every.rank[n]
        if every.number[n] >= 0:
            mine &= trace.step[work.rows] == every.number[n]
        wall = int(every.end_ns[n] - every.start_ns[n])
        ratio = utilisation(work, formats, mine, wall, peak)
        roofs.append(
            StepRoof(int(every.rank[n]), int(every.number[n]), wall, int(work.flops[mine].sum()), ratio)
        )
    return tuple(roofs)
