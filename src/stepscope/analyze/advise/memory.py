"""memory-near-limit: the device's memory is nearly full."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.advise.finding import Abstain, Facts, Finding
from stepscope.analyze.memory import DeviceMemory, memory

RULE = "memory-near-limit"
LIMIT, FULL = 0.9, 0.97


def check(facts: Facts) -> Iterator[Finding]:
    """Compare what the allocator reserved, or else had in use, at its peak with the device's memory."""
    trace = facts.require("memory")
    devices = [device for device in memory(trace) if device.device >= 0]
    known = [device for device in devices if device.capacity_ratio is not None or device.out_of_memory]
    for device in known:
        ratio = device.capacity_ratio
        if device.out_of_memory or (ratio is not None and ratio >= LIMIT):
            yield _finding(device, ratio)
    if not known:
        raise Abstain("the size of the device's memory" if devices else "allocations on a device")


def _finding(device: DeviceMemory, ratio: float | None) -> Finding:
    place = f"rank {device.rank} device {device.device}"
    held = device.peak_reserved_bytes or device.peak.bytes
    said = "ran out of memory" if device.out_of_memory else f"holds {ratio:.0%} of its memory at the peak"
    return Finding(
        RULE,
        "high" if device.out_of_memory or (ratio or 0) >= FULL else "medium",
        f"{place} {said}",
        {
            "rank": device.rank,
            "device": device.device,
            "held_bytes": held,
            "memory_bytes": device.capacity_bytes,
            "held_ratio": ratio,
            "out_of_memory": device.out_of_memory,
            "at_peak": [
                {"name": holder.name, "held_bytes": holder.bytes}
                for holder in (device.peak.by_scope or ())[:3]
            ],
        },
        {"held_ratio": LIMIT},
        "smaller batch with gradient accumulation, activation checkpointing, sharded optimizer state; "
        "stepscope profile memory PATH says who holds it",
    )
