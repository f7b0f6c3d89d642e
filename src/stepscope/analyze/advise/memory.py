"""memory-near-limit: the device's memory is nearly full."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.advise.finding import Abstain, Facts, Finding
from stepscope.trace.tables import MemoryAction

RULE = "memory-near-limit"
LIMIT, FULL = 0.9, 0.97


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the most memory that the allocator held with the device's."""
    trace = facts.require("memory")
    sizes = {
        (device.rank, device.index): device.memory_bytes for device in trace.devices if device.memory_bytes
    }
    table, known = trace.memory, False
    for rank, device in sorted(set(zip(table.rank.tolist(), table.device.tolist(), strict=True))):
        if device < 0:
            continue
        mine = (table.rank == rank) & (table.device == device)
        failed = int((table.action[mine] == MemoryAction.OUT_OF_MEMORY).sum())
        held = int(max(table.reserved_bytes[mine].max(), table.allocated_bytes[mine].max()))
        size = sizes.get((rank, device), 0)
        known = known or bool(failed) or (size > 0 and held >= 0)
        ratio = held / size if size else 0.0
        if failed or ratio >= LIMIT:
            yield Finding(
                RULE,
                "high" if failed or ratio >= FULL else "medium",
                f"rank {rank} device {device} ran out of memory"
                if failed
                else f"rank {rank} device {device} holds {ratio:.0%} of its memory at the peak",
                {
                    "rank": rank,
                    "device": device,
                    "held_bytes": held if held >= 0 else None,
                    "memory_bytes": size or None,
                    "held_ratio": ratio if size else None,
                    "out_of_memory": failed,
                },
                {"held_ratio": LIMIT},
                "smaller batch with gradient accumulation, activation checkpointing, sharded optimizer "
                "state; "
                "stepscope profile memory PATH says who holds it",
            )
    if not known:
        raise Abstain(
            "the size of the device's memory" if (table.device >= 0).any() else "allocations on a device"
        )
