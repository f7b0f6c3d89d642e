"""Memory over time, and its holders at the peak.

The level is the recorder's own total after each event (``Total Allocated``) if it gives one. Otherwise it
is the sum of the recorded allocations, which starts at 0 although memory was in use before:
``baseline_bytes`` is then None.

The holders at the peak are the allocations up to it without a free up to it
(:mod:`stepscope.analyze.allocations`). Memory allocated before the recording is known only as the
difference to the recorded total: ``before_bytes``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.allocations import CHANGES, has_addresses, live_allocations
from stepscope.analyze.groups import Groups
from stepscope.analyze.memory_category import Category, categories
from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Times
from stepscope.text import counted
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction

HOLDERS = 20
"""Holders that a peak names; the rest is one sum."""


@dataclass(frozen=True, slots=True)
class PeakHolder:
    """Memory held at a peak by the allocations of one place."""

    name: str
    """Module scope, operator, phase or stack; ``""`` if none was recorded."""
    bytes: int
    allocations: int


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The highest level of one device."""

    time_ns: int
    step: int
    """Number of the step it fell into, -1 = none."""
    bytes: int
    held_bytes: int
    """Held by allocations that were recorded."""
    before_bytes: int | None
    """Held by memory allocated before the recording; None if the level is a sum of the recorded data, or
    nothing but the level was."""
    by_scope: tuple[PeakHolder, ...] | None
    """None if no module scopes were recorded."""
    by_operator: tuple[PeakHolder, ...] | None
    by_phase: tuple[PeakHolder, ...] | None
    by_stack: tuple[PeakHolder, ...] | None
    by_category: tuple[PeakHolder, ...] | None
    """Its purpose, as far as it can be derived: :mod:`stepscope.analyze.memory_category`."""
    category_recorded: bool = False
    """Whether the recorder gives the purpose of each; otherwise it is derived."""
    category_missing: tuple[str, ...] = ()
    """Inputs that the profile does not record, for holders whose category is not known."""


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The highest and the last level within one step."""

    step: int
    peak_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of one device of one rank, or of its host (device -1)."""

    rank: int
    device: int
    events: int
    baseline_bytes: int | None
    """In use before the first event; None = not recorded."""
    peak: MemoryPeak
    peak_reserved_bytes: int | None
    """The allocator's own peak, None = not recorded."""
    capacity_bytes: int | None
    """Of the device, None = not recorded."""
    steps: tuple[StepMemory, ...]
    out_of_memory: int
    """Failures to allocate that were recorded."""
    by_address: bool
    """Whether frees were matched by address; else by size, which is less sure."""

    @property
    def capacity_ratio(self) -> float | None:
        """Share of the device's memory that its allocator reserved, or else had in use, at its peak."""
        if not self.capacity_bytes:
            return None
        return (self.peak_reserved_bytes or self.peak.bytes) / self.capacity_bytes


@dataclass(frozen=True, slots=True)
class MemorySeries:
    """Level of one device over time: value ``n`` holds from ``time_ns[n]`` on."""

    time_ns: Times
    allocated_bytes: npt.NDArray[np.int64]
    reserved_bytes: npt.NDArray[np.int64] | None
    recorded: bool
    """Whether the level is the recorder's total, not a sum of the recorded data."""


_Places = tuple[Ints, Ints, Ints, Ints]


def _places(trace: Trace) -> _Places:
    """Return scope, operator's name, purpose and stack of each row of the memory table, -1 = not recorded."""
    row, stack = trace.memory.row, trace.memory.stack
    if not len(trace):
        none = np.full(len(row), -1)
        return none, none, none, stack
    inside = row >= 0
    operator = np.where(inside, trace.operator[row], -1)
    purpose = attribution(trace).purpose.astype(np.int64)[row]
    return (
        np.where(inside, trace.scope[row], -1),
        np.where(operator >= 0, trace.name[operator], -1),
        np.where(inside & (purpose != Purpose.UNKNOWN), purpose, -1),
        np.where((stack < 0) & inside, trace.stack[row], stack),
    )


def memory(trace: Trace, *, within: tuple[int, int] | None = None) -> tuple[DeviceMemory, ...]:
    """Return level and peak of every device, devices before the host.

    Args:
        trace: Any trace.
        within: Look for the peak between these times alone, in ns.

    Raises:
        EmptyTraceError: No allocations were recorded.
    """
    trace.require("memory", "what used memory")
    table = trace.memory
    key = table.rank.astype(np.int64) << 16 | (table.device.astype(np.int64) & 0xFFFF)
    places, measured = _places(trace), []
    for number in distinct(key):
        rows = np.flatnonzero(key == number)
        if len(memory_series(trace, rows).time_ns):
            measured.append(_device(trace, rows, places, within))
    return tuple(sorted(measured, key=lambda device: (device.rank, device.device < 0, device.device)))


def memory_rows(trace: Trace, rank: int, device: int) -> Ints:
    """Return the rows of the memory table that belong to one device."""
    return np.flatnonzero((trace.memory.rank == rank) & (trace.memory.device == device))


def memory_series(trace: Trace, rows: Ints) -> MemorySeries:
    """Return the level over time.

    Args:
        trace: The trace.
        rows: Rows of its memory table, of one device.
    """
    table = trace.memory
    recorded = bool((table.allocated_bytes[rows] >= 0).any())
    if recorded:
        rows = rows[table.allocated_bytes[rows] >= 0]
        level = table.allocated_bytes[rows]
    else:
        rows = rows[np.isin(table.action[rows], CHANGES)]
        level = np.cumsum(table.bytes[rows])
    reserved = table.reserved_bytes[rows]
    known = bool(len(rows)) and bool((reserved >= 0).all())
    return MemorySeries(
        table.time_ns[rows].astype(np.int64),
        level.astype(np.int64),
        reserved.astype(np.int64) if known else None,
        recorded,
    )


def _device(trace: Trace, rows: Ints, places: _Places, within: tuple[int, int] | None) -> DeviceMemory:
    table, series = trace.memory, memory_series(trace, rows)
    rank, device = int(table.rank[rows[0]]), int(table.device[rows[0]])
    reserved = table.reserved_bytes[rows]
    capacity = [d.memory_bytes for d in trace.devices if (d.rank, d.index) == (rank, device)]
    baseline = None
    if series.recorded:
        first = rows[table.allocated_bytes[rows] >= 0][0]
        change = int(table.bytes[first]) if table.action[first] in CHANGES else 0
        baseline = int(table.allocated_bytes[first]) - change
    return DeviceMemory(
        rank=rank,
        device=device,
        events=len(rows),
        baseline_bytes=baseline,
        peak=_peak(trace, rows, series, places, within),
        peak_reserved_bytes=int(reserved.max()) if (reserved >= 0).any() else None,
        capacity_bytes=(capacity[0] or None) if capacity else None,
        steps=_steps(trace, rank, series),
        out_of_memory=int((table.action[rows] == MemoryAction.OUT_OF_MEMORY).sum()),
        by_address=has_addresses(trace, rows) or not np.isin(table.action[rows], CHANGES).any(),
    )


def _steps(trace: Trace, rank: int, series: MemorySeries) -> tuple[StepMemory, ...]:
    steps, measured = trace.steps, []
    mine = np.flatnonzero(steps.rank == rank)
    first = np.searchsorted(series.time_ns, steps.start_ns[mine], side="right")
    last = np.searchsorted(series.time_ns, steps.end_ns[mine], side="right")
    for n, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        # The level at the step's beginning was set by the event before it.
        levels = series.allocated_bytes[max(0, low - 1) : high]
        if len(levels):
            measured.append(StepMemory(int(steps.number[mine[n]]), int(levels.max()), int(levels[-1])))
    return tuple(measured)


def _peak(
    trace: Trace, rows: Ints, series: MemorySeries, places: _Places, within: tuple[int, int] | None
) -> MemoryPeak:
    rank = int(trace.memory.rank[rows[0]])
    at = _highest(series, within)
    time, level = int(series.time_ns[at]), int(series.allocated_bytes[at])
    live = live_allocations(trace, rows, time)
    sizes = trace.memory.bytes[live]
    held, steps = int(sizes.sum()), trace.steps
    inside = np.flatnonzero((steps.rank == rank) & (steps.start_ns <= time) & (time < steps.end_ns))
    scope, operator, phase, stack = (column[live] for column in places)
    category = categories(trace, rows)
    changes = np.isin(trace.memory.action[rows], CHANGES)
    return MemoryPeak(
        time_ns=time,
        step=int(steps.number[inside[0]]) if len(inside) else -1,
        bytes=level,
        held_bytes=held,
        before_bytes=max(0, level - held) if series.recorded and changes.any() else None,
        by_scope=_holders(scope, sizes, trace.scopes.text),
        by_operator=_holders(operator, sizes, lambda number: trace.strings[number]),
        by_phase=_holders(phase, sizes, lambda number: Purpose(number).name.lower()),
        by_stack=_holders(stack, sizes, lambda number: trace.stacks.text(number, "\n")),
        by_category=None
        if category is None
        else _holders(category.category[live], sizes, lambda number: Category(number).name.lower()),
        category_recorded=bool((trace.memory.category[rows] >= 0).any()),
        category_missing=() if category is None else category.why(live),
    )


def _highest(series: MemorySeries, within: tuple[int, int] | None) -> int:
    if within is None:
        return int(np.argmax(series.allocated_bytes))
    # The level at the beginning was set by the event before it.
    first = max(0, int(np.searchsorted(series.time_ns, within[0], side="right")) - 1)
    last = max(first + 1, int(np.searchsorted(series.time_ns, within[1], side="left")))
    return first + int(np.argmax(series.allocated_bytes[first:last]))


def _holders(place: Ints, sizes: Ints, text: Callable[[int], str]) -> tuple[PeakHolder, ...] | None:
    if not (place >= 0).any():
        return None
    groups = Groups.by(place)
    total, count = groups.sum(sizes), groups.count()
    order = np.argsort(-total, kind="stable").tolist()
    named = [
        PeakHolder(text(int(groups.key[g])) if groups.key[g] >= 0 else "", int(total[g]), int(count[g]))
        for g in order[:HOLDERS]
    ]
    rest = order[HOLDERS:]
    if rest:
        named.append(PeakHolder(counted(len(rest), "other"), int(total[rest].sum()), int(count[rest].sum())))
    return tuple(named)
