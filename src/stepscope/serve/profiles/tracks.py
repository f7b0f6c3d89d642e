"""Tracks drawn over time beside events: levels of memory, counters, and tensors that were allocated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.memory import memory_rows, memory_series
from stepscope.serve.profiles.types import ProfileTrack
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints, MemoryAction

ROWS = 12
"""Rows that tensors are laid out in."""
LARGEST = 20_000
"""Tensors that are laid out: those with the most bytes times seconds."""
Levels = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One track.

    Attributes:
        facts: The first answer to the page.
        time_ns: Of levels: value ``n`` holds from ``time_ns[n]`` on. Of tensors: when they were allocated.
        value: The levels; of tensors their bytes.
        end_ns: Of tensors: when they were freed, or the end of the recording.
        row: Of tensors: the event in which they were allocated, -1 if none was recorded.
        layer: Of tensors: in which row they are drawn.
    """

    facts: ProfileTrack
    time_ns: Ints
    value: Levels
    end_ns: Ints
    row: Ints
    layer: Ints


NONE = np.zeros(0, np.int64)


def tracks(trace: Trace) -> tuple[Track, ...]:
    """Return the tracks of a trace, rank by rank, devices before the host, then counters."""
    known = [*memory_tracks(trace), *counter_tracks(trace)]
    return tuple(sorted(known, key=lambda track: track.facts.rank))


def memory_tracks(trace: Trace) -> Iterator[Track]:
    """Yield level and tensors of every device whose memory was recorded."""
    table = trace.memory
    pairs = sorted(
        set(zip(table.rank.tolist(), table.device.tolist(), strict=True)),
        key=lambda pair: (pair[0], pair[1] < 0, pair),
    )
    for rank, device in pairs:
        rows = memory_rows(trace, rank, device)
        series = memory_series(trace, rows)
        if not len(series.time_ns):
            continue
        process = process_of(trace, rank, device)
        values = series.allocated_bytes.astype(np.float64)
        note = "" if series.recorded else "since the recording began: what was in use before is not recorded"
        facts = level_facts("memory", rank, process, "Allocator", device, "bytes", values, note)
        yield Track(facts, series.time_ns, values, NONE, NONE, NONE)
        yield from tensor_tracks(trace, rows, rank, device, process)


def counter_tracks(trace: Trace) -> Iterator[Track]:
    """Yield the counters that the file holds."""
    table = trace.counters
    keys = table.name.astype(np.int64) * (len(trace.lanes) + 1) + table.lane + 1
    for key in np.unique(keys):
        mine = np.flatnonzero((keys == key) & np.isfinite(table.value))
        if not len(mine):
            continue
        mine = mine[np.argsort(table.time_ns[mine], kind="stable")]
        lane = trace.lanes[int(table.lane[mine[0]])] if table.lane[mine[0]] >= 0 else None
        name = trace.strings[int(table.name[mine[0]])] or "unnamed"
        of_allocator = lane is not None and lane.process == "Allocators"  # TensorFlow's, in bytes
        unit = "bytes" if of_allocator or "bytes" in name.lower() else "count"
        rank, device = (lane.rank, lane.device) if lane else (trace.ranks[0], -1)
        values = table.value[mine].astype(np.float64)
        facts = level_facts("counter", rank, lane.process if lane else "", name, device, unit, values, "")
        yield Track(facts, table.time_ns[mine].astype(np.int64), values, NONE, NONE, NONE)


def level_facts(
    kind: str, rank: int, process: str, name: str, device: int, unit: str, values: Levels, note: str
) -> ProfileTrack:
    """Return the facts of a level for the page; its scale includes 0."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    return ProfileTrack(kind, rank, process, name, device, unit, low, high, 0, note)  # type: ignore[arg-type]


def process_of(trace: Trace, rank: int, device: int) -> str:
    """Return the process whose lanes a device's memory is drawn below."""
    names = [lane.process for lane in trace.lanes if lane.rank == rank and lane.device == device]
    return names[0] if names else ""


# --- tensors -------------------------------------------------------------------------------------------


def tensor_tracks(trace: Trace, rows: Ints, rank: int, device: int, process: str) -> Iterator[Track]:
    """Yield the tensors of one device, if allocations are recorded with their addresses."""
    table = trace.memory
    begin, end = lifetimes(trace, rows)
    if not len(begin):
        return
    size = table.bytes[begin].astype(np.float64)
    start = table.time_ns[begin].astype(np.int64)
    weight = size * np.maximum(end - start, 1)
    chosen = np.argsort(-weight, kind="stable")[:LARGEST]
    layer = layers(start[chosen], end[chosen])
    shown = layer >= 0
    chosen, layer = chosen[shown], layer[shown]
    part = float(weight[chosen].sum() / weight.sum())
    left = len(begin) - len(chosen)
    note = (
        f"{left:,} of {len(begin):,} do not fit, {100 * (1 - part):.2g} % of bytes times seconds"
        if left
        else ""
    )
    depth = int(layer.max()) + 1
    facts = ProfileTrack(
        "tensors", rank, process, "Tensors", device, "bytes", 0.0, float(size.max()), depth, note
    )
    order = np.lexsort((start[chosen], layer))
    chosen, layer = chosen[order], layer[order]
    yield Track(
        facts, start[chosen], size[chosen], end[chosen], table.row[begin[chosen]].astype(np.int64), layer
    )


def lifetimes(trace: Trace, rows: Ints) -> tuple[Ints, Ints]:
    """Return the rows of allocations and when each was freed, at the recording's end if it was not."""
    table = trace.memory
    rows = rows[
        np.isin(table.action[rows], (MemoryAction.ALLOCATE, MemoryAction.FREE)) & (table.address[rows] != 0)
    ]
    order = np.argsort(table.address[rows], kind="stable")  # times ascend within an address
    rows = rows[order]
    last = int(max(table.time_ns.max(), trace.end_ns.max() if len(trace) else 0)) if len(rows) else 0
    until = np.full(len(rows), last, np.int64)
    same = table.address[rows][1:] == table.address[rows][:-1]
    until[:-1][same] = table.time_ns[rows][1:][same]
    begins = table.action[rows] == MemoryAction.ALLOCATE
    return rows[begins], until[begins]


def layers(start: Ints, end: Ints) -> Ints:
    """Return the row of each interval, so that none overlap, earliest first; -1 if none has room."""
    layer = np.full(len(start), -1, np.int64)
    held: list[list[tuple[int, int]]] = [[] for _ in range(ROWS)]
    for at, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for number, row in enumerate(held):
            place = bisect_left(row, (begin, stop))
            if (place == 0 or row[place - 1][1] <= begin) and (place == len(row) or row[place][0] >= stop):
                row.insert(place, (begin, stop))
                layer[at] = number
                break
    return layer
