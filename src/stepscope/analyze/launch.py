"""How device work is launched: the delay from call to start, and how much waits in each stream's queue.

- delay = max(0, start of the work - end of the call that launched it)
- queue of a stream: +1 when a call that launches onto it starts, -1 when that work starts. The driver blocks
  the host at about 1024.

Source: HTA's ``get_cuda_kernel_launch_stats`` (whose limits for outliers are kept) and
``get_queue_length_time_series``. HTA's mean length is over its samples, one per call and start; here lengths
are weighted by how long they lasted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.device import devices, streams
from stepscope.attribute.spans import Ints, Times
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

SLOW_CALL_NS = 50_000
LATE_NS = 100_000
FULL_QUEUE = 1022
"""Launches that CUDA lets wait in a stream before a launch blocks, in practice 1022 to 1024."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Launches of one rank."""

    rank: int
    launches: int
    """Device work whose call was recorded."""
    unlinked: int
    """Device work whose call was not."""
    median_ns: float
    p90_ns: float
    max_ns: int
    call_ns: int
    """Time the host spent in these calls."""
    slow_calls: int
    """Calls over 50 us."""
    late: int
    """Delays over 100 us. If a queue is full of work, they do no harm."""
    short: int
    """Work that ran for less time than its call took."""
    short_ratio: float


@dataclass(frozen=True, slots=True)
class Queue:
    """Launched work that had not started, of one stream."""

    rank: int
    device: int
    stream: int
    max_length: int
    mean_length: float
    """Weighted by time, from the first launch to the last start."""
    empty_ratio: float
    """Share of that time in which nothing waited."""
    full_ns: int
    """Time with at least :data:`FULL_QUEUE` waiting, in which a launch blocks."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Of all ranks."""

    delays: tuple[Delay, ...]
    queues: tuple[Queue, ...]


def launches(trace: Trace) -> Launches:
    """Measure how work reaches each device.

    Raises:
        EmptyTraceError: The profile does not link calls with their work.
    """
    trace.require("launches", "how device work was launched")
    delays, queues = [], []
    work = trace.device_work()
    for rank in distinct(trace.rank[work]).tolist():
        delay = _delay(trace, rank, work[trace.rank[work] == rank])
        delays += [delay] if delay else []
    for device in devices(trace):
        for number, rows in streams(trace, device):
            time, length = queue_series(trace, rows)
            if len(time):
                queues.append(_queue(device.rank, device.device, number, time, length))
    return Launches(tuple(delays), tuple(queues))


def launch_delays(trace: Trace, rows: Ints) -> Times:
    """Return the delay of each piece of device work whose launch was recorded, leaving out others."""
    rows = rows[trace.launch[rows] >= 0]
    call = trace.launch[rows]
    delay: Times = np.maximum(0, trace.start_ns[rows] - trace.start_ns[call] - trace.duration_ns[call])
    return delay


def queue_series(trace: Trace, rows: Ints) -> tuple[Times, npt.NDArray[np.int64]]:
    """Return when the queue of one stream changed, and its length from then on.

    Args:
        trace: The rows' trace.
        rows: Work of one stream. Work without a recorded launch is left out.
    """
    rows = rows[trace.launch[rows] >= 0]
    queued = trace.start_ns[trace.launch[rows]]
    # A start that the clocks put before its launch would make the queue negative.
    started = np.maximum(trace.start_ns[rows], queued)
    time = np.concatenate((queued, started))
    change = np.concatenate((np.ones(len(rows), np.int64), np.full(len(rows), -1, np.int64)))
    order = np.lexsort((-change, time))
    return time[order], np.cumsum(change[order])


def _delay(trace: Trace, rank: int, rows: Ints) -> Delay | None:
    linked = rows[trace.launch[rows] >= 0]
    if not len(linked):
        return None
    delay = launch_delays(trace, linked)
    called, which = np.unique(trace.launch[linked], return_inverse=True)
    call = trace.duration_ns[called]
    # One call may launch a whole graph; its time is shared out.
    short = trace.duration_ns[linked] < call[which] / np.bincount(which)[which]
    return Delay(
        rank=rank,
        launches=len(linked),
        unlinked=len(rows) - len(linked),
        median_ns=float(np.median(delay)),
        p90_ns=float(np.percentile(delay, 90)),
        max_ns=int(delay.max()),
        call_ns=int(call.sum()),
        slow_calls=int((call > SLOW_CALL_NS).sum()),
        late=int((delay > LATE_NS).sum()),
        short=int(short.sum()),
        short_ratio=float(short.mean()),
    )


def _queue(rank: int, device: int, stream: int, time: Times, length: npt.NDArray[np.int64]) -> Queue:
    lasted, level = np.diff(time), length[:-1]
    whole = max(1, int(lasted.sum()))
    return Queue(
        rank=rank,
        device=device,
        stream=stream,
        max_length=int(length.max()),
        mean_length=float((lasted * level).sum() / whole),
        empty_ratio=float(lasted[level == 0].sum() / whole),
        full_ns=int(lasted[level >= FULL_QUEUE].sum()),
    )
