"""Several traces as one: ranks beside each other, and several recordings of one rank after each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.model import COLUMNS, FEATURES, Lane, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.structure import timeline_order
from stepscope.trace.tables import TABLES

Array = npt.NDArray[Any]
MOST_NAMED = 3
"""Number of files with the same note that are named."""
_ROW_COLUMNS = ("parent", "launch", "forward")
_ROW_FIELDS = ("row", "source", "target")


def with_rank(trace: Trace, rank: int) -> Trace:
    """Return a trace of one rank as that of another."""
    if trace.ranks == (rank,):
        return trace
    tables = {}
    for name in ("steps", "memory"):
        table = getattr(trace, name)
        tables[name] = replace(table, rank=np.full(len(table), rank, np.int32))
    return replace(
        trace,
        rank=np.full(len(trace), rank, np.int32),
        sources=tuple(replace(source, rank=rank) for source in trace.sources),
        lanes=tuple(replace(lane, rank=rank) for lane in trace.lanes),
        devices=tuple(replace(device, rank=rank) for device in trace.devices),
        process_groups=tuple(replace(group, rank=rank) for group in trace.process_groups),
        **tables,
    )


def merge(traces: Sequence[Trace]) -> Trace:
    """Put traces together.

    Times are shifted to the earliest origin if every clock is Unix time; else each file starts at zero,
    the clock is "relative" and only differences within a rank mean something. Lanes of one rank that have the
    same names are one, unless they overlap in time: no thread runs twice at once.
    """
    if len(traces) == 1:
        return traces[0]
    traces = sorted(traces, key=lambda trace: (trace.ranks, trace.origin_ns))
    unix = all(trace.clock == "unix" for trace in traces)
    origin = min(trace.origin_ns for trace in traces) if unix else 0
    shifts = [trace.origin_ns - origin if unix else 0 for trace in traces]
    strings, string_maps = _merge_strings([trace.strings for trace in traces])
    scopes, scope_maps = _merge_paths([trace.scopes for trace in traces])
    stacks, stack_maps = _merge_paths([trace.stacks for trace in traces])
    repeated = len({rank for trace in traces for rank in trace.ranks}) < sum(
        len(trace.ranks) for trace in traces
    )
    lanes, lane_maps = _merge_lanes(traces, shifts if repeated else None)
    maps = {"name": string_maps, "scope": scope_maps, "stack": stack_maps, "lane": lane_maps}
    offsets = np.cumsum([0, *(len(trace) for trace in traces)])
    columns: dict[str, Any] = {name: _column(traces, name, maps, shifts, offsets) for name in COLUMNS}
    order = timeline_order(columns["lane"], columns["start_ns"], columns["duration_ns"]) if repeated else None
    place = None
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        for name in _ROW_COLUMNS:
            columns[name] = _moved(columns[name], place)
    tables: dict[str, Any] = {
        name: _table(traces, name, string_maps, stack_maps, lane_maps, shifts, offsets, place)
        for name in TABLES
    }
    recorded = frozenset().union(*(trace.recorded for trace in traces))
    formats = {trace.format for trace in traces}
    devices = {(device.rank, device.index): device for trace in traces for device in trace.devices}
    return Trace(
        **columns,
        **tables,
        strings=strings,
        scopes=scopes,
        stacks=stacks,
        lanes=tuple(lanes),
        format=formats.pop() if len(formats) == 1 else "mixed",
        sources=tuple(source for trace in traces for source in trace.sources),
        devices=tuple(devices.values()),
        process_groups=tuple(group for trace in traces for group in trace.process_groups),
        origin_ns=origin,
        clock="unix" if unix else "relative",
        resolution_ns=max(trace.resolution_ns for trace in traces),
        recorded=recorded,
        not_recorded={
            key: reason
            for trace in reversed(traces)
            for key, reason in trace.not_recorded.items()
            if key in FEATURES and key not in recorded
        },
        dropped=_sums(trace.dropped for trace in traces),
        notes=_notes(traces),
    )


def _column(
    traces: Sequence[Trace], name: str, maps: dict[str, list[Array]], shifts: list[int], offsets: Array
) -> Array:
    parts = []
    for number, trace in enumerate(traces):
        part = getattr(trace, name)
        if name in maps:
            part = _moved(part, maps[name][number])
        elif name in _ROW_COLUMNS:
            part = _shifted(part, int(offsets[number]))
        elif name == "start_ns" and shifts[number]:
            part = part + shifts[number]
        parts.append(part)
    return np.concatenate(parts).astype(COLUMNS[name], copy=False)


def _moved(numbers: Array, target: Array) -> Array:
    """Replace numbers by their new ones; -1 stays."""
    if not len(target):
        return numbers
    return np.where(numbers >= 0, target[np.maximum(numbers, 0)], -1).astype(numbers.dtype, copy=False)


def _shifted(rows: Array, offset: int) -> Array:
    return np.where(rows >= 0, rows + offset, -1).astype(rows.dtype, copy=False) if offset else rows


def _table(
    traces: Sequence[Trace], name: str, string_maps: list[Array], stack_maps: list[Array], lane_maps:
        list[Array],
    shifts: list[int], offsets: Array, place: Array | None,
) -> Any:  # fmt: skip
    parts: dict[str, list[Array]] = {}
    for number, trace in enumerate(traces):
        table = getattr(trace, name)
        for field, values in table.columns().items():
            if field in table.names:
                values = _moved(values, string_maps[number])
            elif field in _ROW_FIELDS:
                values = _shifted(values, int(offsets[number]))
                values = values if place is None else _moved(values, place)
            elif field == "lane":
                values = _moved(values, lane_maps[number])
            elif field == "stack":
                values = _moved(values, stack_maps[number])
            elif field in ("start_ns", "end_ns", "time_ns", "created_ns") and shifts[number]:
                values = (
                    np.where(values != -1, values + shifts[number], -1)
                    if field == "created_ns"
                    else values + shifts[number]
                )
            parts.setdefault(field, []).append(values)
    table = TABLES[name](**{field: np.concatenate(values) for field, values in parts.items()})
    if place is None:
        return table
    order = np.lexsort([table.columns()[key] for key in _ORDERS.get(name, ("row",))])
    return type(table)(**{field: values[order] for field, values in table.columns().items()})


_ORDERS = {
    "steps": ("start_ns", "rank"), "memory": ("time_ns", "device", "rank"), "counters": ("time_ns", "lane"),
    "marks": ("time_ns", "lane"), "flows": ("source",),
}  # fmt: skip


def _notes(traces: Sequence[Trace]) -> tuple[str, ...]:
    """Return the notes on the files, with names if a note does not apply to all of them."""
    files = [trace.sources[0].path for trace in traces]
    notes: dict[str, dict[str, None]] = {}
    for file, trace in zip(files, traces, strict=True):
        for note in trace.notes:
            notes.setdefault(note, {})[file] = None
    return tuple(
        note if by_file.keys() == set(files) else f"{_listed(list(by_file), files)}: {note}"
        for note, by_file in notes.items()
    )


def _listed(paths: Sequence[str], of: Sequence[str]) -> str:
    """Return names of files, from the folder in which all lie."""
    folder = os.path.commonpath([os.path.dirname(path) for path in of])  # noqa: PTH120  paths are texts here
    names = [os.path.relpath(path, folder) for path in paths]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _merge_strings(tables: Sequence[Strings]) -> tuple[Strings, list[Array]]:
    known: dict[str, int] = {}
    maps = [
        np.array([known.setdefault(text, len(known)) for text in table.texts()], np.int32) for table in tables
    ]
    return Strings.of(known), maps


def _merge_paths(tables: Sequence[Paths]) -> tuple[Paths, list[Array]]:
    if not any(len(table) for table in tables):
        nothing = np.zeros(0, np.int32)
        return Paths(nothing, nothing, Strings.of([])), [nothing for _ in tables]
    names, name_maps = _merge_strings([table.strings for table in tables])
    known: dict[tuple[int, int], int] = {}
    maps = []
    for table, name_map in zip(tables, name_maps, strict=True):
        numbers: list[int] = []
        for parent, name in zip(table.parent.tolist(), name_map[table.name].tolist(), strict=True):
            key = (numbers[parent] if parent >= 0 else -1, name)
            numbers.append(known.setdefault(key, len(known)))
        maps.append(np.array(numbers, np.int32))
    columns = np.array(list(known), np.int32).reshape(-1, 2)
    return Paths(np.ascontiguousarray(columns[:, 0]), np.ascontiguousarray(columns[:, 1]), names), maps


def _merge_lanes(traces: Sequence[Trace], shifts: list[int] | None) -> tuple[list[Lane], list[Array]]:
    """Number the lanes rank by rank, each rank's in its own display order.

    Of several threads with one name, the one that runs the steps gets it in each trace: it stays one lane.

    Args:
        traces: They.
        shifts: Of each trace's times, if one rank may have several traces; else None.
    """
    known: dict[Lane, list[tuple[Array, Array]]] = {}
    entries: list[tuple[int, int, Lane]] = []
    named = []
    for number, trace in enumerate(traces):
        own = list(trace.lanes)
        stepping = {int(trace.lane[row]) for row in trace.steps.row if row >= 0}
        for position in sorted(range(len(own)), key=lambda position: position not in stepping):
            lane = trace.lanes[position]
            times = _NO_TIMES if shifts is None else _outermost(trace, position, shifts[number])
            chosen = _free(lane, times, known)
            if chosen not in known:
                known[chosen] = []
                entries.append((lane.rank, position, chosen))
            known[chosen].append(times)
            own[position] = chosen
        named.append(own)
    order = sorted(range(len(entries)), key=lambda number: entries[number][:2])
    place = {entries[number][2]: position for position, number in enumerate(order)}
    maps = [np.array([place[lane] for lane in own], np.int32) for own in named]
    return [entries[number][2] for number in order], maps


_NO_TIMES = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _outermost(trace: Trace, lane: int, shift: int) -> tuple[Array, Array]:
    """Return begin and end of the outermost events of a lane, each in order of time."""
    rows = np.flatnonzero((trace.lane == lane) & (trace.parent < 0))
    start = trace.start_ns[rows] + shift
    return np.sort(start), np.sort(start + trace.duration_ns[rows])


def _free(lane: Lane, times: tuple[Array, Array], known: dict[Lane, list[tuple[Array, Array]]]) -> Lane:
    """Return the lane, or a namesake of it if events of another recording overlap its own."""
    number, chosen = 1, lane
    while any(_overlap(times, others) for others in known.get(chosen, ())):
        number += 1
        chosen = replace(lane, thread=f"{lane.thread} ({number})")
    return chosen


def _overlap(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    """Return whether any event of one begins before and ends after an instant within one of the other."""
    (start, end), (begin, finish) = one, other
    # Begun before this one ends, less what had ended before it began: what overlaps it.
    return bool((np.searchsorted(begin, end, "left") - np.searchsorted(finish, start, "right") > 0).any())


def _sums(counts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for key, number in one.items():
            total[key] = total.get(key, 0) + number
    return total
