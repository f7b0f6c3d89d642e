"""Why a device did nothing: HTA's idle classes per stream, and the gaps of a whole device with their causes.

Between one piece of work on a stream and the next, with gap = start of the next - end of all before:

- ``host_wait``: the next was launched only after the stream had run dry
- ``kernel_wait``: launched in time, and the gap is below 30 us: the usual cost of one kernel after another
- ``other``: launched in time, yet the gap is longer: it waited for another stream, an event or memory
- ``unknown``: its launch was not recorded

Source: HTA's ``get_idle_time_breakdown``, which knows no ``unknown``, and whose gaps are negative if work on
    one stream overlaps; here that does not count as a gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.attribute.device import DeviceRows, devices, no_device_work, rows_spans, streams
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.step_tree import loading_rows
from stepscope.trace.model import Trace

REASONS = ("host_wait", "kernel_wait", "other", "unknown")
"""Names of the classes."""

KERNEL_WAIT_NS = 30_000
"""Longest gap between two kernels that counts as the usual cost of launching; HTA's default."""

_HOST_WAIT, _KERNEL_WAIT, _OTHER, _UNKNOWN = range(4)


@dataclass(frozen=True, slots=True)
class StreamIdle:
    """Gaps between pieces of work on one stream."""

    rank: int
    device: int
    stream: int
    idle_ns: int
    by_reason_ns: dict[str, int]
    gaps_by_reason: dict[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which no stream of a device worked."""

    rank: int
    device: int
    step: int
    """Step that the work after the gap belongs to, -1 = none."""
    start_ns: int
    duration_ns: int
    reason: str
    before: str
    """Name of the work that ended last before the gap."""
    after: str
    """Name of the work that ended the gap."""
    host: str
    """Operator that launched the work after the gap, ``""`` if it is not recorded."""
    loading_ns: int | None
    """How much of the gap the host spent loading data; None if no loading was recorded."""


@dataclass(frozen=True, slots=True)
class DeviceIdle:
    """All gaps of one device between its first and its last work."""

    rank: int
    device: int
    window_ns: int
    idle_ns: int
    by_reason_ns: dict[str, int]
    gaps: tuple[Gap, ...]
    """The longest ones, longest first."""
    gap_count: int
    """Of all gaps."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Idleness of all devices."""

    streams: tuple[StreamIdle, ...]
    devices: tuple[DeviceIdle, ...]


def idle(trace: Trace, *, longest: int = 20) -> Idle:
    """Find when and why devices did nothing.

    Args:
        trace: Of any number of ranks.
        longest: How many gaps of each device are described.

    Raises:
        EmptyTraceError: No work of a device was recorded.
    """
    recorded = devices(trace)
    if not recorded:
        raise no_device_work(trace, "why a device was idle")
    per_stream = [
        _stream(trace, device, number, rows) for device in recorded for number, rows in streams(trace, device)
    ]
    return Idle(tuple(per_stream), tuple(_device(trace, device, longest) for device in recorded))


def _gaps(trace: Trace, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return position of the work after each gap, length of the gap and its class, of rows in start order."""
    start = trace.start_ns[rows]
    reached = np.maximum.accumulate(start + trace.duration_ns[rows])
    gap = start[1:] - reached[:-1]
    at = np.flatnonzero(gap > 0) + 1
    launch = trace.launch[rows[at]]
    late = (launch >= 0) & (trace.start_ns[launch] > reached[at - 1])
    short = gap[at - 1] < KERNEL_WAIT_NS
    reason = np.where(late, _HOST_WAIT, np.where(short, _KERNEL_WAIT, _OTHER))
    return at, gap[at - 1], np.where(launch < 0, _UNKNOWN, reason)


def _totals(gap: Ints, reason: Ints) -> tuple[dict[str, int], dict[str, int]]:
    time = np.bincount(reason, weights=gap, minlength=len(REASONS)).astype(np.int64)
    count = np.bincount(reason, minlength=len(REASONS))
    return dict(zip(REASONS, time.tolist(), strict=True)), dict(zip(REASONS, count.tolist(), strict=True))


def _stream(trace: Trace, device: DeviceRows, number: int, rows: Ints) -> StreamIdle:
    _, gap, reason = _gaps(trace, rows)
    time, count = _totals(gap, reason)
    return StreamIdle(device.rank, device.device, number, int(gap.sum()), time, count)


def _device(trace: Trace, device: DeviceRows, longest: int) -> DeviceIdle:
    rows = device.rows[np.argsort(trace.start_ns[device.rows], kind="stable")]
    at, gap, reason = _gaps(trace, rows)
    time, _ = _totals(gap, reason)
    ends = trace.start_ns[rows] + trace.duration_ns[rows]
    top = np.argsort(-gap, kind="stable")[:longest]
    loading = rows_spans(trace, loading_rows(trace, np.flatnonzero(trace.rank == device.rank)))
    operator = launching_operators(trace, rows[at[top]])
    gaps = tuple(
        _describe(trace, rows, int(at[g]), int(gap[g]), REASONS[reason[g]], int(operator[n]), loading)
        for n, g in enumerate(top)
    )
    window = int(ends.max() - trace.start_ns[rows[0]])
    return DeviceIdle(device.rank, device.device, window, int(gap.sum()), time, gaps, len(gap))


def _describe(
    trace: Trace, rows: Ints, at: int, gap_ns: int, reason: str, operator: int, loading: Spans
) -> Gap:
    row = int(rows[at])
    end = int(trace.start_ns[row])
    before = rows[:at][np.argmax(trace.start_ns[rows[:at]] + trace.duration_ns[rows[:at]])]
    loaded = int(loading.within(np.array([end - gap_ns]), np.array([end]))[0]) if len(loading) else None
    return Gap(
        rank=int(trace.rank[row]),
        device=int(trace.device[row]),
        step=int(trace.step[row]),
        start_ns=end - gap_ns,
        duration_ns=gap_ns,
        reason=reason,
        before=trace.name_of(int(before)),
        after=trace.name_of(row),
        host=trace.name_of(operator) if operator >= 0 else "",
        loading_ns=loaded,
    )


def launching_operators(trace: Trace, rows: Ints) -> Ints:
    """Return for device work the row of the innermost operator around its launch, -1 if there is none."""
    launch = trace.launch[rows]
    return np.where(launch >= 0, trace.operator[launch], -1)
