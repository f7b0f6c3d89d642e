"""The busy time of each device, as sets of intervals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stepscope.attribute.named import named
from stepscope.attribute.spans import Ints, Spans
from stepscope.errors import EmptyTraceError
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

COMPUTE = (Kind.KERNEL,)
COMMUNICATION = (Kind.COLLECTIVE, Kind.SEND_RECV)
COPY = (Kind.MEMCPY, Kind.MEMSET)
SYNCHRONIZING = r"(?i:(Device|Stream|Event|Context|Ctx)Synchronize|cudaMemcpy$|hipMemcpy$|StreamWaitValue)"
_EXECUTORS = re.compile(r"XLAPjRt|XLAEigen|tf_Compute|XLATfrt|pjrt_cpu", re.IGNORECASE)


def executor_lanes(trace: Trace, rank: int) -> list[int]:
    """Return the threads of a rank that run compiled code of XLA or TensorFlow if the host is the device."""
    return [
        number
        for number, lane in enumerate(trace.lanes)
        if lane.rank == rank and _EXECUTORS.search(lane.thread or "")
    ]


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The work of one device of one rank."""

    rank: int
    device: int
    rows: Ints
    """Rows of the trace, in trace order: stream by stream, each in start order."""


def devices(trace: Trace) -> list[DeviceRows]:
    """Return each device that did any work, by rank and index."""
    rows = trace.device_work()
    key = trace.rank[rows].astype(np.int64) << 16 | trace.device[rows].astype(np.int64)
    return [
        DeviceRows(int(number >> 16), int(number & 0xFFFF), rows[key == number]) for number in distinct(key)
    ]


def no_device_work(trace: Trace, question: str) -> EmptyTraceError:
    """Return the error about a question that only the work of a device answers.

    Args:
        trace: A trace without any.
        question: The open question, as ``why a device was idle``.

    Raises:
        EmptyTraceError: The trace itself says why there is none.
    """
    trace.require("device", question)
    return EmptyTraceError(
        f"cannot tell {question}: no device work in this profile",
        hint="record an accelerator, too: ProfilerActivity.CUDA in PyTorch",
    )


def streams(trace: Trace, device: DeviceRows) -> Iterator[tuple[int, Ints]]:
    """Yield stream number and rows, in start order, for each lane of a device.

    The number is the recorder's, else the lane's place.
    """
    lane = trace.lane[device.rows]
    for number in distinct(lane):
        stream = trace.lanes[number].stream
        yield (stream if stream >= 0 else int(number)), device.rows[lane == number]


def rows_spans(trace: Trace, rows: Ints) -> Spans:
    """Return the union of the time of these rows."""
    start = trace.start_ns[rows]
    return Spans.of(start, start + trace.duration_ns[rows])


def kind_spans(trace: Trace, rows: Ints, *kinds: Kind) -> Spans:
    """Return the union of the time of those rows that are of these kinds."""
    return rows_spans(trace, rows[among(*kinds)[trace.kind[rows]]])


def synchronizing_calls(trace: Trace) -> Ints:
    """Return the rows of runtime calls in which the host waits for a device."""
    waits = named(trace, re.compile(SYNCHRONIZING))
    return np.flatnonzero((trace.kind == Kind.RUNTIME_CALL) & waits[trace.name])
