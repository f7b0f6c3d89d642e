"""Computation, communication, copies and idleness of a device, and how much of them hides behind each other.

With U(S) the length of the union of a set's intervals, C kernels that compute, N communication, M copies and
memsets, all of one device in one window:

- busy = U(C + N + M), idle = window - busy
- exposed communication = U(N without C)
- exposed copy = U(M without C and N)
- so that compute + exposed communication + exposed copy + idle = window, exactly.

Source: TraceLens' GPU time line; with the default window, compute and idle are those of HTA's
``get_temporal_breakdown``, and the overlap ratio that of ``get_comm_comp_overlap``.

Exposed is not blocking: it says that the device computed nothing meanwhile, not that something waited for
it. Blocking is the part of it that lies on the critical path of the step, if the next work had nothing else
to wait for (:func:`blocking`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analyze.critical_path import critical_paths
from stepscope.analyze.dependencies import Bound
from stepscope.attribute.device import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    DeviceRows,
    devices,
    kind_spans,
    no_device_work,
)
from stepscope.attribute.spans import Spans
from stepscope.attribute.windows import NO_STEP, windows
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How one device spent a window; times in ns."""

    rank: int
    device: int
    step: int
    """Number of the step, -1 for the window from the device's first to its last work."""
    start_ns: int
    end_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    blocking_communication_ns: int | None = None
    """The part of exposed communication that something waited for; None if that is not known."""

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.start_ns

    @property
    def busy_ns(self) -> int:
        """Time in which the device did anything."""
        return self.compute_ns + self.exposed_communication_ns + self.exposed_copy_ns

    @property
    def idle_ns(self) -> int:
        """Time in which the device did nothing."""
        return self.window_ns - self.busy_ns

    @property
    def overlapped_communication_ns(self) -> int:
        """Communication that ran while the device computed."""
        return self.communication_ns - self.exposed_communication_ns

    @property
    def overlap_ratio(self) -> float | None:
        """Share of communication that is overlapped; None if there is none."""
        return self.overlapped_communication_ns / self.communication_ns if self.communication_ns else None


def overlap(trace: Trace) -> tuple[Overlap, ...]:
    """Return the breakdown of each device from its first to its last work.

    Raises:
        EmptyTraceError: No work of a device was recorded.
    """
    measured = []
    for device in _devices(trace):
        start = int(trace.start_ns[device.rows].min())
        end = int((trace.start_ns[device.rows] + trace.duration_ns[device.rows]).max())
        measured += _measure(trace, device, [(NO_STEP, start, end)])
    return tuple(measured)


def overlap_by_step(trace: Trace) -> tuple[Overlap, ...]:
    """Return the breakdown of each device in each step's window on the host.

    Work launched in one step and run in the next counts in the step in which it ran. A rank without steps has
    one window over all that it recorded.

    Raises:
        EmptyTraceError: No work of a device was recorded.
    """
    every = windows(trace)
    measured = []
    for device in _devices(trace):
        mine = every.of_rank(device.rank)
        steps = zip(mine.number.tolist(), mine.start_ns.tolist(), mine.end_ns.tolist(), strict=True)
        measured += _measure(trace, device, list(steps))
    return tuple(measured)


def blocking(trace: Trace, overlaps: Iterable[Overlap]) -> tuple[Overlap, ...]:
    """Add to breakdowns how much of the exposed communication something waited for.

    A collective whose result is needed only later, or during which the step waits for the host or another
    stream, is exposed and blocks nothing. Without operators of the host there is no path, and it stays None.

    Args:
        trace: The trace that was broken down.
        overlaps: The breakdowns.
    """
    overlaps = tuple(overlaps)
    try:
        paths = critical_paths(trace, top=0)
    except EmptyTraceError:
        return overlaps
    waited: dict[int, Spans] = {}
    for rank in {path.rank for path in paths}:
        pieces = [path.pieces for path in paths if path.rank == rank]
        start, length, bound, row = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("start_ns", "duration_ns", "bound", "row")
        )
        on_device = (row >= 0) & (trace.device[row] >= 0) if len(trace) else row >= 0
        mine = (bound == Bound.COMMUNICATION) & on_device
        waited[rank] = Spans.of(start[mine], start[mine] + length[mine])
    exposed = {
        (device.rank, device.device): kind_spans(trace, device.rows, *COMMUNICATION).minus(
            kind_spans(trace, device.rows, *COMPUTE)
        )
        for device in devices(trace)
    }
    return tuple(
        replace(
            one,
            blocking_communication_ns=exposed[one.rank, one.device]
            .intersect(waited[one.rank])
            .clip(one.start_ns, one.end_ns)
            .measure_ns,
        )
        if one.rank in waited
        else one
        for one in overlaps
    )


def _devices(trace: Trace) -> list[DeviceRows]:
    recorded = devices(trace)
    if not recorded:
        raise no_device_work(trace, "how a device spent its time")
    return recorded


def _measure(trace: Trace, device: DeviceRows, steps: list[tuple[int, int, int]]) -> list[Overlap]:
    compute, communication, copy = (
        kind_spans(trace, device.rows, *kinds) for kinds in (COMPUTE, COMMUNICATION, COPY)
    )
    parts = {
        "compute_ns": compute, "communication_ns": communication, "copy_ns": copy,
        "exposed_communication_ns": communication.minus(compute),
        "exposed_copy_ns": copy.minus(compute.union(communication)),
    }  # fmt: skip
    _, starts, ends = np.array(steps, np.int64).reshape(-1, 3).T  # there may be none
    spent = {name: spans.within(starts, ends).tolist() for name, spans in parts.items()}
    return [
        Overlap(
            rank=device.rank, device=device.device, step=number, start_ns=start, end_ns=end,
            **{name: times[n] for name, times in spent.items()},
        )
        for n, (number, start, end) in enumerate(steps)
    ]  # fmt: skip
