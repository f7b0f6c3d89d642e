"""CUDA memory snapshots of PyTorch: allocations with their Python stacks, no timeline.

Totals are counted back from the segments at the end, because the history is a ring that may have lost its
beginning. A device without history gives one SNAPSHOT row for every block alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.draft import Draft, InstantEvents, empty_events
from stepscope.trace.model import Device
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import MemoryAction

_ACTIONS = {
    "alloc": MemoryAction.ALLOCATE, "free": MemoryAction.FREE, "free_completed": MemoryAction.FREE,
    "free_requested": MemoryAction.FREE_REQUESTED, "segment_alloc": MemoryAction.SEGMENT_ALLOCATE,
    "segment_map": MemoryAction.SEGMENT_ALLOCATE, "segment_free": MemoryAction.SEGMENT_FREE,
    "segment_unmap": MemoryAction.SEGMENT_FREE, "oom": MemoryAction.OUT_OF_MEMORY,
    "snapshot": MemoryAction.SNAPSHOT,
}  # fmt: skip
_SIGN = {
    MemoryAction.ALLOCATE: 1,
    MemoryAction.FREE: -1,
    MemoryAction.SEGMENT_ALLOCATE: 1,
    MemoryAction.SEGMENT_FREE: -1,
}
_SEGMENTS = (MemoryAction.SEGMENT_ALLOCATE, MemoryAction.SEGMENT_FREE)
_NO_TIMELINE = (
    "a memory snapshot holds allocations and no timeline; record one with torch.profiler, and open both",
    "timeline steps device launches backward modules shapes flops bytes collectives syncs occupancy counters",
)


def draft_memory_snapshot(content: dict[str, Any], path: str) -> Draft:
    """Make a draft of a snapshot's content.

    Raises:
        EmptyTraceError: Neither history nor segments.
        TraceError: Content of another shape.
    """
    traces, segments = content.get("device_traces") or [], content.get("segments") or []
    try:
        levels = _levels(segments)
        stacks = _Stacks()
        parts = [
            _history(events, device, levels.get(device, (0, 0)), stacks)
            for device, events in enumerate(traces)
        ]
        silent = {device for device in levels if device >= len(traces) or not traces[device]}
        parts.append(_alive(segments, silent, stacks))
    except (AttributeError, KeyError, TypeError, IndexError) as error:
        raise TraceError(
            f"not a memory snapshot as PyTorch writes it: {error!r}",
            path=path,
            hint="pass the file from torch.cuda.memory._dump_snapshot()",
        ) from error
    rows = (
        np.concatenate([part for part in parts if len(part)])
        if any(map(len, parts))
        else np.zeros((0, 8), np.int64)
    )
    if not len(rows):
        raise EmptyTraceError(
            "the memory snapshot is empty: no history and no segments",
            hint="call torch.cuda.memory._record_memory_history() before the part to look at", path=path,
        )  # fmt: skip
    paths, numbers = Paths.of(stacks.chains)
    timed = rows[:, 0] >= 0
    origin = int(rows[timed, 0].min()) if timed.any() else 0
    rows[~timed, 0] = int(rows[timed, 0].max()) if timed.any() else 0
    draft = Draft(
        format="memory_snapshot",
        path=path,
        strings=Strings.of([]),
        lanes=[],
        **empty_events(),
        origin_ns=origin,
        clock="unix" if origin > 10**17 else "relative",
        resolution_ns=1000,
        stacks=paths,
        not_recorded=dict.fromkeys(_NO_TIMELINE[1].split(), _NO_TIMELINE[0]),
        facts={key: content[key] for key in ("allocator_settings",) if key in content},
    )
    draft.memory = InstantEvents(
        np.full(len(rows), -1),
        rows[:, 0] - origin,
        {
            "device": rows[:, 1],
            "action": rows[:, 2],
            "address": rows[:, 3].astype(np.uint64),
            "bytes": rows[:, 4],
            "allocated_bytes": rows[:, 5],
            "reserved_bytes": rows[:, 6],
            "stack": numbers[rows[:, 7]],
        },
    )
    draft.stack = np.zeros(0, np.int32)
    draft.devices = [Device(rank=0, index=index, name="") for index in sorted(set(rows[:, 1].tolist()))]
    if len(paths):
        draft.recorded.add("stacks")
    return draft


class _Stacks:
    """Distinct stacks; a pickle shares equal frames, so they are told apart by identity first."""

    def __init__(self) -> None:
        self.chains: list[list[str]] = [[]]
        self._known: dict[tuple[int, ...], int] = {(): 0}

    def number(self, frames: list[dict[str, Any]] | None) -> int:
        key = tuple(map(id, frames or ()))
        frame_names = self._known.get(key)
        if frame_names is None:
            frame_names = self._known[key] = len(self.chains)
            names = [f"{frame['filename']}({frame['line']}): {frame['name']}" for frame in frames or ()]
            self.chains.append(names[::-1])
        return frame_names


def _levels(segments: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """Return allocated and reserved bytes of each device when the snapshot was taken."""
    levels: dict[int, tuple[int, int]] = {}
    for segment in segments:
        device = int(segment.get("device", 0))
        used, reserved = levels.get(device, (0, 0))
        levels[device] = (
            used + int(segment.get("allocated_size", 0)),
            reserved + int(segment.get("total_size", 0)),
        )
    return levels


def _history(events: list[dict[str, Any]], device: int, end: tuple[int, int], stacks: _Stacks) -> Any:
    rows = np.zeros((len(events), 8), np.int64)
    for row, event in zip(rows, events, strict=True):
        action = _ACTIONS.get(event["action"], MemoryAction.LEVEL)
        size = int(event.get("size", 0)) * _SIGN.get(action, 0)
        row[:5] = (
            int(event.get("time_us", 0)) * 1000,
            device,
            action,
            int(event.get("addr", 0)) & (1 << 63) - 1,
            size,
        )
        row[7] = stacks.number(event.get("frames"))
    if len(rows):
        segment = np.isin(rows[:, 2], _SEGMENTS)
        for column, mine, level in ((5, ~segment, end[0]), (6, segment, end[1])):
            total = np.cumsum(np.where(mine, rows[:, 4], 0))
            rows[:, column] = total + (level - int(total[-1]))
    return rows


def _alive(segments: list[dict[str, Any]], devices: set[int], stacks: _Stacks) -> Any:
    rows = []
    for segment in segments:
        device = int(segment.get("device", 0))
        address = int(segment.get("address", 0))
        for block in segment.get("blocks", ()) if device in devices else ():
            size = int(block["size"])
            if block.get("state") == "active_allocated":
                frames = block.get("frames") or (block.get("history") or [{}])[0].get("frames")
                where = int(block.get("address", address))
                rows.append((-1, device, MemoryAction.SNAPSHOT, where, size, -1, -1, stacks.number(frames)))
            address += size
    return np.array(rows, np.int64).reshape(-1, 8)
