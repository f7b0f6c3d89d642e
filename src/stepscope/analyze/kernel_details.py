"""Device work by name, with its launch, its rate and how close that is to the device's limits.

If no device was recorded, the operators of the host are the work, by their own time.

Operations are counted per operator call (see :mod:`stepscope.analyze.flops`) and credited to the kernel in
which the call spent most device time; the rate is over all device time of those calls, so that a kernel that
splits its work into helpers is not flattered. A kernel's least traffic is credited likewise; copies
and collectives move the recorded bytes. Attainable and efficiency are those of
:mod:`stepscope.analyze.roofline`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.flops import OperatorWork, calls_of, operator_work
from stepscope.analyze.groups import Floats, Groups, step_matrix
from stepscope.analyze.idle import launching_operators
from stepscope.analyze.launch import launch_delays
from stepscope.analyze.operators import operator_times
from stepscope.analyze.peaks import PeakRates, common_peak
from stepscope.analyze.roofline import TENSOR_CORE, roof_of
from stepscope.attribute.spans import Ints
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Kind, Trace

NVIDIA = re.compile(r"(?i)nvidia|tesla|geforce|quadro|\b[AHBVPTL]\d{2,3}\b")
"""Names of devices whose kernels' names tell whether they use tensor cores."""

MOST_CELLS = 400_000
"""Largest rows times steps for which every step's time is given."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How the kernels of one name were launched; None if not recorded."""

    grid_least: int | None
    """Blocks in all."""
    grid_most: int | None
    block_least: int | None
    """Threads per block."""
    block_most: int | None
    registers: int | None
    shared_bytes: int | None
    occupancy_ratio: float | None
    """Weighted by duration."""
    blocks_per_multiprocessor: float | None
    delay_median_ns: float | None
    """From the end of the launching call to the start of the work."""
    delay_max_ns: int | None


@dataclass(frozen=True, slots=True)
class Rate:
    """The achieved rate; None if neither the shapes nor the recorder give it."""

    flops: int | None
    flops_per_second: float | None
    bytes: int | None
    bytes_recorded: bool
    """Whether bytes were recorded; else they are the least that the operation must move."""
    bytes_per_second: float | None
    intensity: float | None
    """Operations per byte."""
    number_format: str
    attainable_flops_per_second: float | None
    efficiency_ratio: float | None
    bound: str | None
    """``compute`` or ``memory``."""
    counted_calls: int
    """Calls whose operations or bytes are known."""


@dataclass(frozen=True, slots=True)
class KernelDetail:
    """All work of one name and kind."""

    name: str
    kind: str
    calls: int
    total_ns: int
    share_ratio: float
    step_mean_ns: float
    """Per step, over all steps; one without it counts as 0."""
    step_min_ns: float
    step_median_ns: float
    step_max_ns: float
    call_mean_ns: float
    call_min_ns: int
    call_max_ns: int
    longest_row: int
    """Row of the longest call."""
    operators: tuple[str, ...]
    """The operators that launched most of its time, at most three; empty if launches were not recorded."""
    tensor_core: bool | None
    """None if names do not say: no computation, or not a device of NVIDIA's."""
    launch: Launch
    rate: Rate
    by_step_ns: tuple[float, ...] | None
    """In the order of ``KernelDetails.steps``; None if that would be too much."""


@dataclass(frozen=True, slots=True)
class KernelDetails:
    """The longest first."""

    rows: tuple[KernelDetail, ...]
    on_device: bool
    """Whether these are the work of a device; else own time of the host's operators."""
    windows: int
    """Steps times ranks that the values are means of; 1 if no steps were marked."""
    steps: tuple[tuple[int, int], ...]
    """Rank and number of each step; empty if none were marked."""
    left_out: int
    """Work outside the steps."""
    total_ns: int
    peak: PeakRates | None
    notes: tuple[str, ...]


def kernel_details(trace: Trace) -> KernelDetails:
    """Describe the work of a trace by name.

    Args:
        trace: Any trace; if steps are marked, all that lies outside of them is left out.

    Raises:
        EmptyTraceError: Neither work of a device nor operators of the host were recorded.
    """
    rows, time, on_device = _work(trace)
    marked = len(trace.steps) > 0
    inside = trace.step[rows] >= 0 if marked else np.ones(len(rows), bool)
    left_out = int((~inside).sum())
    rows, time = rows[inside], time[inside]
    if not len(rows):
        raise EmptyTraceError(
            "cannot tell which kernels ran: no work in these steps",
            hint="choose other steps, or record an accelerator, too",
        )
    groups = Groups.by(trace.name[rows].astype(np.int64) << 4 | trace.kind[rows])
    credit = _Credit.of(trace, rows, time, groups, on_device=on_device)
    named = [device for device in trace.devices if device.name]
    peak, notes = common_peak(named) if named else (None, [])
    per_step, _, _ = step_matrix(trace, rows, groups, time)
    return KernelDetails(
        rows=tuple(_rows(trace, rows, time, groups, per_step, credit, peak, on_device=on_device)),
        on_device=on_device,
        windows=per_step.shape[1],
        steps=_step_names(trace) if marked else (),
        left_out=left_out,
        total_ns=int(time.sum()),
        peak=peak,
        notes=(*notes, *credit.notes),
    )


def _work(trace: Trace) -> tuple[Ints, npt.NDArray[np.int64], bool]:
    rows = trace.device_work()
    if len(rows):
        return rows, trace.duration_ns[rows].astype(np.int64), True
    times = operator_times(trace)
    if not len(times.rows):
        raise EmptyTraceError(
            "cannot tell which kernels ran: neither work of a device nor operators of the host in this "
            f"{trace.format} profile",
            hint="torch.profiler records them with ProfilerActivity.CPU and ProfilerActivity.CUDA",
        )
    return times.rows, times.host_self_ns, False


def _step_names(trace: Trace) -> tuple[tuple[int, int], ...]:
    pairs = set(zip(trace.steps.rank.tolist(), trace.steps.number.tolist(), strict=True))
    return tuple(sorted(pairs))


# --- operations and bytes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Credit:
    """Sums by group: operations, bytes, the time they took, and the calls that are known."""

    flops: Floats
    flops_ns: Floats
    bytes: Floats
    bytes_ns: Floats
    recorded: npt.NDArray[np.bool_]
    calls: Ints
    formats: list[str]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, trace: Trace, rows: Ints, time: npt.NDArray[np.int64], groups: Groups, *, on_device: bool
    ) -> _Credit:
        size = len(groups)
        moved = trace.bytes[rows] >= 0
        count = np.bincount(groups.of[moved], minlength=size)
        sums = _floats(np.bincount(groups.of[moved], weights=trace.bytes[rows[moved]], minlength=size))
        spent = _floats(np.bincount(groups.of[moved], weights=time[moved], minlength=size))
        work = operator_work(trace)
        if not len(work.rows):
            none = np.zeros(size)
            return cls(none, none, sums, spent, count > 0, count, [""] * size, _unknown(work))
        calls_ns, main = _calls(trace, rows, time, work, on_device=on_device)
        known = main >= 0
        group = np.zeros(len(work.rows), np.int64)
        group[known] = groups.of[main[known]]

        def summed(values: Ints, mask: npt.NDArray[np.bool_]) -> Floats:
            return _floats(np.bincount(group[mask], weights=values[mask], minlength=size))

        sized = known & (work.bytes >= 0)
        return cls(
            flops=summed(work.flops, known),
            flops_ns=summed(calls_ns, known),
            bytes=np.where(count > 0, sums, summed(work.bytes, sized)),
            bytes_ns=np.where(count > 0, spent, summed(calls_ns, sized)),
            recorded=count > 0,
            calls=np.where(count > 0, count, np.bincount(group[known], minlength=size)),
            formats=_formats(work, group, known, size),
            notes=_unknown(work),
        )


def _floats(values: npt.NDArray[Any]) -> Floats:
    return values.astype(np.float64)


def _unknown(work: OperatorWork) -> tuple[str, ...]:
    if not work.unknown:
        return ()
    return (f"what was recorded does not tell the operations of {calls_of(work.unknown)}",)


def _calls(
    trace: Trace, rows: Ints, time: npt.NDArray[np.int64], work: OperatorWork, *, on_device: bool
) -> tuple[npt.NDArray[np.int64], Ints]:
    """Return for each call of ``work`` its time, and its main row as a place in ``rows``, -1 = none."""
    number = np.full(len(trace), -1, np.int64)
    number[work.rows] = np.arange(len(work.rows))
    if not on_device:
        of = number[rows]
        main = np.full(len(work.rows), -1, np.int64)
        main[of[of >= 0]] = np.flatnonzero(of >= 0)
        return trace.duration_ns[work.rows].astype(np.int64), main
    owner = trace.nearest(number >= 0)[np.where(trace.launch[rows] >= 0, trace.launch[rows], rows)]
    of = np.where(owner >= 0, number[np.maximum(owner, 0)], -1)
    mine = np.flatnonzero(of >= 0)
    spent = np.bincount(of[mine], weights=time[mine], minlength=len(work.rows)).astype(np.int64)
    main = np.full(len(work.rows), -1, np.int64)
    ordered = mine[np.argsort(time[mine], kind="stable")]
    main[of[ordered]] = ordered  # the last written is the longest
    return spent, main


def _formats(work: OperatorWork, group: Ints, known: npt.NDArray[np.bool_], size: int) -> list[str]:
    """Return the number format that has most operations in each group."""
    best: list[tuple[float, str]] = [(-1.0, "")] * size
    sums: dict[tuple[int, str], float] = {}
    for place in np.flatnonzero(known).tolist():
        key = (int(group[place]), work.number_format[place])
        sums[key] = sums.get(key, 0.0) + float(work.flops[place])
    for (number, name), total in sums.items():
        best[number] = max(best[number], (total, name))
    return [name for _, name in best]


# --- rows -------------------------------------------------------------------------------------------------


def _rows(
    trace: Trace,
    rows: Ints,
    time: npt.NDArray[np.int64],
    groups: Groups,
    per_step: Floats,
    credit: _Credit,
    peak: PeakRates | None,
    *,
    on_device: bool,
) -> list[KernelDetail]:
    total, count = groups.sum(time), groups.count()
    least, most, longest = groups.least(time), groups.most(time), _longest(time, groups)
    operators = _operators_of(trace, rows, groups, time) if on_device else [()] * len(groups)
    launch = _launches(trace, rows, groups, on_device=on_device)
    names_tell = any(NVIDIA.search(device.name) for device in trace.devices)
    whole, windows = max(1, int(total.sum())), per_step.shape[1]
    every_step = windows > 1 and per_step.size <= MOST_CELLS
    middle = np.median(per_step, axis=1)
    details = []
    for g in np.argsort(-total, kind="stable").tolist():
        key = int(groups.key[g])
        name, kind = trace.strings[key >> 4], Kind(key & 15)
        on_cores = bool(TENSOR_CORE.search(name)) if kind == Kind.KERNEL else False
        details.append(
            KernelDetail(
                name=name,
                kind=kind.name.lower(),
                calls=int(count[g]),
                total_ns=int(total[g]),
                share_ratio=float(total[g] / whole),
                step_mean_ns=float(total[g] / windows),
                step_min_ns=float(per_step[g].min()),
                step_median_ns=float(middle[g]),
                step_max_ns=float(per_step[g].max()),
                call_mean_ns=float(total[g] / count[g]),
                call_min_ns=int(least[g]),
                call_max_ns=int(most[g]),
                longest_row=int(rows[longest[g]]),
                operators=operators[g],
                tensor_core=(on_cores or (False if names_tell else None)) if kind == Kind.KERNEL else None,
                launch=launch[g],
                rate=_rate(credit, g, peak, on_cores=on_cores),
                by_step_ns=tuple(per_step[g].tolist()) if every_step else None,
            )
        )
    return details


def _longest(time: npt.NDArray[np.int64], groups: Groups) -> Ints:
    order = np.argsort(time, kind="stable")
    place = np.zeros(len(groups), np.int64)
    place[groups.of[order]] = order
    return place


def _rate(credit: _Credit, g: int, peak: PeakRates | None, *, on_cores: bool) -> Rate:
    flops = float(credit.flops[g])
    moved = float(credit.bytes[g]) if credit.bytes_ns[g] > 0 or credit.bytes[g] > 0 else 0.0
    speed = flops / credit.flops_ns[g] * 1e9 if flops and credit.flops_ns[g] else None
    kind = "tf32" if credit.formats[g] == "float32" and on_cores else credit.formats[g]
    least = None if credit.recorded[g] else moved
    roof = roof_of(peak, kind, flops=flops, moved=least, rate=None if speed is None else float(speed))
    return Rate(
        flops=int(flops) if flops else None,
        flops_per_second=float(speed) if speed is not None else None,
        bytes=int(moved) if moved else None,
        bytes_recorded=bool(credit.recorded[g]),
        bytes_per_second=float(moved / credit.bytes_ns[g] * 1e9) if moved and credit.bytes_ns[g] else None,
        intensity=roof.intensity,
        number_format=kind if flops else "",
        attainable_flops_per_second=roof.attainable,
        efficiency_ratio=roof.efficiency,
        bound=roof.bound,
        counted_calls=int(credit.calls[g]),
    )


def _launches(trace: Trace, rows: Ints, groups: Groups, *, on_device: bool) -> list[Launch]:
    size = len(groups)
    place = np.full(len(trace), -1, np.int64)
    place[rows] = groups.of
    table = trace.kernels
    of = place[table.row] if len(table) else np.zeros(0, np.int64)
    weight = trace.duration_ns[table.row].astype(np.float64) if len(table) else np.zeros(0)
    grid, block = (_bounds(of, column, size) for column in (table.grid, table.block))
    registers, shared = (_bounds(of, column, size)[1] for column in (table.registers, table.shared_bytes))
    occupancy, blocks = (
        _weighted(of, _floats(column), weight, size) for column in (table.occupancy, table.blocks_per_sm)
    )
    middle, most = _delays(trace, rows, groups) if on_device else (np.full(size, np.nan),) * 2
    return [
        Launch(
            grid_least=_whole(grid[0][g]),
            grid_most=_whole(grid[1][g]),
            block_least=_whole(block[0][g]),
            block_most=_whole(block[1][g]),
            registers=_whole(registers[g]),
            shared_bytes=_whole(shared[g]),
            # Recorders write 0 where they do not know; so few blocks that it rounds to 0 is the other case.
            occupancy_ratio=_known(occupancy[g]) if occupancy[g] > 0 or blocks[g] < 1 else None,
            blocks_per_multiprocessor=_known(blocks[g]),
            delay_median_ns=_known(middle[g]),
            delay_max_ns=_whole(most[g]),
        )
        for g in range(size)
    ]


def _bounds(of: Ints, column: Ints, size: int) -> tuple[Floats, Floats]:
    """Return the least and greatest value of each group, NaN if none was recorded."""
    known = (of >= 0) & (column >= 0)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(least, of[known], column[known])
    np.maximum.at(most, of[known], column[known])
    return np.where(np.isfinite(least), least, np.nan), np.where(np.isfinite(most), most, np.nan)


def _weighted(of: Ints, column: Floats, weight: Floats, size: int) -> Floats:
    known = (of >= 0) & ~np.isnan(column)
    whole = np.bincount(of[known], weights=weight[known], minlength=size)
    value = np.bincount(of[known], weights=column[known] * weight[known], minlength=size)
    return _floats(np.divide(value, whole, out=np.full(size, np.nan), where=whole > 0))


def _delays(trace: Trace, rows: Ints, groups: Groups) -> tuple[Floats, Floats]:
    """Return median and maximum of the delay from call to start, NaN if no launch was recorded."""
    linked = np.flatnonzero(trace.launch[rows] >= 0)
    delay = launch_delays(trace, rows[linked])
    order = np.lexsort((delay, groups.of[linked]))
    middle, most = np.full(len(groups), np.nan), np.full(len(groups), np.nan)
    ordered = groups.of[linked][order]
    used, first, count = np.unique(ordered, return_index=True, return_counts=True)
    sorted_delay = delay[order].astype(np.float64)
    low, high = sorted_delay[first + (count - 1) // 2], sorted_delay[first + count // 2]
    middle[used], most[used] = (low + high) / 2, sorted_delay[first + count - 1]
    return middle, most


def _known(value: float) -> float | None:
    """Return a number, None for NaN."""
    return None if np.isnan(value) else float(value)


def _operators_of(trace: Trace, rows: Ints, groups: Groups, time: Ints) -> list[tuple[str, ...]]:
    """Return for each group the names of the operators that launched most of its time."""
    operator = launching_operators(trace, rows)
    known = operator >= 0
    names: list[tuple[str, ...]] = [()] * len(groups)
    if not known.any():
        return names
    pairs = Groups.by_pair(groups.of[known], trace.name[operator[known]])
    order = np.lexsort((-pairs.sum(time[known]), pairs.key >> 32))
    which, name = (pairs.key[order] >> 32).tolist(), (pairs.key[order] & 0xFFFFFFFF).tolist()
    for group, number in zip(which, name, strict=True):
        if len(names[group]) < 3:
            names[group] = (*names[group], trace.strings[number])
    return names


def _whole(value: float) -> int | None:
    return None if np.isnan(value) else int(value)
