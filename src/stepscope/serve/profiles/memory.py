"""Memory over time, who held it at the peak, and the largest allocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from stepscope.analyze.allocations import NEVER, freed_at, live_allocations
from stepscope.analyze.memory import DeviceMemory, MemorySeries, memory_rows, memory_series
from stepscope.analyze.memory import memory as measured
from stepscope.analyze.memory_category import Category, categories
from stepscope.attribute.spans import Ints
from stepscope.serve.encode import projection
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps
from stepscope.serve.profiles.types import (
    Allocation,
    AllocatorEvent,
    MemoryAnswer,
    MemoryDevice,
    MemoryStep,
)
from stepscope.serve.reply import refusing
from stepscope.serve.routes import get
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction

LARGEST = 200
EVENTS = 300
GIVING = (MemoryAction.ALLOCATE, MemoryAction.FREE, MemoryAction.FREE_REQUESTED, MemoryAction.LEVEL)
"""Actions of the allocator that the curve shows; the others are listed."""


@get("profile/memory")
def memory(
    profile: OpenProfile,
    steps: Steps = "",
    points: Annotated[int, Meta(ge=1, le=4000, description="number of points of the level")] = 800,
) -> MemoryAnswer:
    """Return the memory of every device.

    Args:
        profile: The profile.
        steps: Steps to look for the peak in; empty is all that was recorded.
        points: Stretches of the curve, at most.

    Raises:
        Refusal: No such steps, or no allocations.
    """
    with refusing():
        trace = profile.chosen(steps)
        within = bounds(trace) if steps else None
        return profile.once(
            ("memory", steps, str(points)),
            lambda: MemoryAnswer(
                path=profile.path,
                devices=[device_of(trace, one, within, points) for one in measured(trace, within=within)],
                notes=notes(trace),
            ),
        )


def bounds(trace: Trace) -> tuple[int, int]:
    """Return from when to when the marked steps last."""
    return int(trace.steps.start_ns.min()), int(trace.steps.end_ns.max())


def notes(trace: Trace) -> list[str]:
    """Return notes for the reader."""
    if trace.format in ("step_stats", "tfprof", "timeline"):
        return [
            "TensorFlow records what operations allocate: the level is their sum, not the process's memory"
        ]
    return []


def device_of(
    trace: Trace, memory: DeviceMemory, within: tuple[int, int] | None, points: int
) -> MemoryDevice:
    """Return one device."""
    rows = memory_rows(trace, memory.rank, memory.device)
    series = memory_series(trace, rows)
    peak = memory.peak
    by = {"category": peak.by_category, "scope": peak.by_scope, "operator": peak.by_operator,
          "phase": peak.by_phase, "stack": peak.by_stack}  # fmt: skip
    starts, least, most, reserved = curve(series, points)
    listed = rows[~np.isin(trace.memory.action[rows], GIVING)]
    made = rows[trace.memory.action[rows] == MemoryAction.ALLOCATE]
    if within is not None:
        made = made[(trace.memory.time_ns[made] >= within[0]) & (trace.memory.time_ns[made] < within[1])]
    names = [
        device.name for device in trace.devices if (device.rank, device.index) == (memory.rank, memory.device)
    ]
    return projection(
        MemoryDevice,
        memory,
        name=(names[0] if names else "") or ("Host" if memory.device < 0 else f"Device {memory.device}"),
        peak_ns=peak.time_ns,
        peak_step=peak.step if peak.step >= 0 else None,
        peak_bytes=peak.bytes,
        held_bytes=peak.held_bytes,
        before_bytes=peak.before_bytes,
        reserved_bytes=memory.peak_reserved_bytes or None,
        holders={key: holders for key, holders in by.items() if holders},
        category_missing=peak.category_missing,
        steps=steps_of(trace, memory, made),
        level="recorded" if series.recorded else "summed",
        time_ns=starts,
        least_bytes=least,
        most_bytes=most,
        reserved=reserved,
        largest=largest(trace, rows, made, peak.time_ns),
        allocations=len(made),
        counts=counts(trace, rows),
        allocator=[event_of(trace, row) for row in listed[-EVENTS:].tolist()],
        allocator_total=len(listed),
    )


def curve(
    series: MemorySeries, points: int
) -> tuple[list[float], list[float], list[float], list[float] | None]:
    """Return starts, least and most level of equal stretches of time, and the most reserved.

    If there are no more events than stretches, each is one. The level at a stretch's beginning counts.
    """
    time, level = series.time_ns, series.allocated_bytes
    held = (
        series.reserved_bytes if series.reserved_bytes is not None and series.reserved_bytes.any() else None
    )
    if len(time) <= points:
        reserved = held.astype(float).tolist() if held is not None else None
        return (
            time.astype(float).tolist(),
            level.astype(float).tolist(),
            level.astype(float).tolist(),
            reserved,
        )
    edges = np.linspace(float(time[0]), float(time[-1]) + 1, points + 1)
    last = np.searchsorted(time, edges[1:], side="left")
    # The event before a stretch set the level at its beginning.
    first = np.maximum(np.searchsorted(time, edges[:-1], side="right") - 1, 0)
    last = np.maximum(last, first + 1)
    return (
        edges[:-1].tolist(),
        _extreme(np.minimum, level, first, last),
        _extreme(np.maximum, level, first, last),
        _extreme(np.maximum, held, first, last) if held is not None else None,
    )


def _extreme(fold: np.ufunc, values: npt.NDArray[np.int64], first: Ints, last: Ints) -> list[float]:
    return [float(fold.reduce(values[a:b])) for a, b in zip(first.tolist(), last.tolist(), strict=True)]


def steps_of(trace: Trace, memory: DeviceMemory, made: Ints) -> list[MemoryStep]:
    """Return the steps with the bytes that each allocated."""
    steps = trace.steps
    times = trace.memory.time_ns[made]
    place = {
        int(steps.number[at]): (int(steps.start_ns[at]), int(steps.end_ns[at]))
        for at in np.flatnonzero(steps.rank == memory.rank).tolist()
    }
    rows = []
    for one in memory.steps:
        start, end = place[one.step]
        mine = made[(times >= start) & (times < end)]
        rows.append(
            MemoryStep(
                number=one.step,
                start_ns=start,
                end_ns=end,
                peak_bytes=one.peak_bytes,
                end_bytes=one.end_bytes,
                allocated_bytes=int(trace.memory.bytes[mine].sum()),
                allocations=len(mine),
            )
        )
    return rows


def largest(trace: Trace, rows: Ints, made: Ints, peak_ns: int) -> list[Allocation]:
    """Return the largest allocations, with those held at the peak, each with its place in the code."""
    table = trace.memory
    ordered = made[np.argsort(-table.bytes[made], kind="stable")]
    held = live_allocations(trace, rows, peak_ns)
    live = set(held.tolist())
    first = np.arange(len(ordered)) < LARGEST
    of_peak = np.isin(ordered, held)
    picked = ordered[first | (of_peak & (np.cumsum(of_peak) <= LARGEST))]
    freed, kinds = freed_at(trace, rows), categories(trace, rows)
    operator = operators(trace, table.row[picked])
    blocks = []
    for row, name in zip(picked.tolist(), operator, strict=True):
        event = int(table.row[row])
        stack = (
            int(table.stack[row]) if table.stack[row] >= 0 else int(trace.stack[event]) if event >= 0 else -1
        )
        blocks.append(
            Allocation(
                bytes=int(table.bytes[row]),
                time_ns=int(table.time_ns[row]),
                freed_ns=None if freed[row] == NEVER else int(freed[row]),
                at_peak=row in live,
                step=step_at(trace, int(table.rank[row]), int(table.time_ns[row])),
                operator=name,
                scope=trace.scopes.text(int(trace.scope[event])) if event >= 0 else "",
                category=Category(int(kinds.category[row])).name.lower() if kinds is not None else "",
                stack=trace.stacks.parts(stack) if stack >= 0 else [],
                row=event if event >= 0 else None,
                address=f"0x{int(table.address[row]):x}",
            )
        )
    return blocks


def operators(trace: Trace, events: Ints) -> list[str]:
    """Return the name of the innermost operator of each event, empty if none."""
    if not len(trace):
        return [""] * len(events)
    rows = np.where(events >= 0, trace.operator[np.maximum(events, 0)], -1).tolist()
    return [trace.name_of(row) if row >= 0 else "" for row in rows]


def step_at(trace: Trace, rank: int, time_ns: int) -> int | None:
    """Return the step that a time falls into."""
    steps = trace.steps
    inside = np.flatnonzero((steps.rank == rank) & (steps.start_ns <= time_ns) & (time_ns < steps.end_ns))
    return int(steps.number[inside[0]]) if len(inside) else None


def counts(trace: Trace, rows: Ints) -> dict[str, int]:
    """Return how many events of each action there are."""
    numbers, count = np.unique(trace.memory.action[rows], return_counts=True)
    pairs: Sequence[tuple[Any, Any]] = list(zip(numbers.tolist(), count.tolist(), strict=True))
    return {MemoryAction(number).name.lower(): many for number, many in pairs}


def event_of(trace: Trace, row: int) -> AllocatorEvent:
    """Return one deed of the allocator."""
    table = trace.memory
    reserved, event = int(table.reserved_bytes[row]), int(table.row[row])
    return AllocatorEvent(
        action=MemoryAction(int(table.action[row])).name.lower(),
        time_ns=int(table.time_ns[row]),
        bytes=int(table.bytes[row]),
        reserved_bytes=reserved if reserved >= 0 else None,
        row=event if event >= 0 else None,
    )
