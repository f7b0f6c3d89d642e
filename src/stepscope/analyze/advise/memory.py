"""memory-near-limit: the device's memory is nearly full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import (
    Abstain,
    Facts,
    Finding,
    Places,
    events_of,
    gathered,
    place_of_rank,
)
from stepscope.analyze.advise.remedy import quoted
from stepscope.analyze.memory import DeviceMemory
from stepscope.attribute.spans import Ints
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

RULE = "memory-near-limit"
LIMIT, FULL = 0.9, 0.97


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the allocator's reserved bytes, or else those in use, at its peak with the device's memory."""
    facts.require("memory")
    devices = [device for device in facts.memory if device.device >= 0]
    known = [device for device in devices if device.capacity_ratio is not None or device.out_of_memory]
    if not known:
        raise Abstain("no size of the device's memory" if devices else "no allocations on a device")
    near = [_evidence(one) for one in known if one.out_of_memory or (one.capacity_ratio or 0) >= LIMIT]
    if near:
        yield _finding(facts, gathered(near, "pressure", of=len(known)))


def _evidence(device: DeviceMemory) -> dict[str, Any]:
    ratio = device.capacity_ratio
    return {
        "rank": device.rank,
        "device": device.device,
        "held_bytes": device.peak_reserved_bytes or device.peak.bytes,
        "memory_bytes": device.capacity_bytes,
        "held_ratio": ratio,
        "out_of_memory": device.out_of_memory,
        "pressure": float(device.out_of_memory) + (ratio or 0.0),
        "at_peak": [
            {"name": holder.name, "held_bytes": holder.bytes} for holder in (device.peak.by_scope or ())[:3]
        ],
    }


def _finding(facts: Facts, places: Places) -> Finding:
    worst = places.worst
    failed, ratio = worst["out_of_memory"], worst["held_ratio"]
    state = "ran out of memory" if failed else f"holds {ratio:.0%} of its memory at the peak"
    return Finding(
        RULE,
        "high" if failed or ratio >= FULL else "medium",
        f"{places.label}the device {state}",
        {name: value for name, value in {**worst, **places.others}.items() if name != "pressure"},
        {"held_ratio": LIMIT},
        "smaller batch with gradient accumulation, activation checkpointing, sharded optimizer state",
        place=place_of_rank(facts.timeline, worst["rank"], worst["device"]),
        events=events_of(facts.timeline, _allocating(facts.timeline, worst["rank"], worst["device"])),
        command=f"stepscope profile memory {quoted(facts)}",
        withdrawn=f"the peak is below {LIMIT:.0%} of the device's memory and nothing ran out of it",
    )


def _allocating(trace: Trace, rank: int, device: int) -> Ints:
    """Return the events in which a device's allocations were made, as far as known."""
    table = trace.memory
    mine = (table.rank == rank) & (table.device == device) & (table.row >= 0) & (table.bytes > 0)
    rows: Ints = distinct(table.row[mine]).astype(np.int64)
    return rows
