"""Memory in the views: allocated, held at the peak, left at the end; and the shell's memory report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stepscope import text
from stepscope.analyze.allocations import live_allocations
from stepscope.analyze.memory import DeviceMemory, PeakHolder, memory, memory_rows
from stepscope.analyze.views.measure import Ints, Measures
from stepscope.analyze.views.tree import Tree, below_added
from stepscope.text import often
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction

MEASURES = ("bytes", "peak_bytes", "residual_bytes")
"""Allocated per step; held at the peak; held at the end. The last two are not means: they make up a level."""


def with_memory(tree: Tree, trace: Trace, measures: Measures) -> Tree:
    """Add the memory measures to a tree; a trace without allocations leaves it as it is.

    Each device counts at its own peak. Memory held before the recording began belongs to the root.
    """
    if "memory" not in trace.recorded or not len(trace.memory):
        return tree
    own = dict(tree.own)
    allocated = np.flatnonzero(trace.memory.action == MemoryAction.ALLOCATE)
    rows = trace.memory.row[allocated]
    inside = allocated[(rows >= 0) & (measures.window[np.maximum(rows, 0)] >= 0)]
    own["bytes"] = _placed(tree, trace, inside)
    own["peak_bytes"] = np.zeros(len(tree))
    own["residual_bytes"] = np.zeros(len(tree))
    for device in _devices(trace):
        mine = memory_rows(trace, device.rank, device.device)
        last = int(trace.memory.time_ns[mine].max())
        for name, time in (("peak_bytes", device.peak.time_ns), ("residual_bytes", last)):
            own[name] += _placed(tree, trace, live_allocations(trace, mine, time))
        own["peak_bytes"][0] += device.peak.before_bytes or 0
    total = {**tree.total, **{name: below_added(own[name], tree.parent) for name in MEASURES}}
    return replace(tree, own=own, total=total)


def _devices(trace: Trace) -> list[DeviceMemory]:
    every = memory(trace)
    return [device for device in every if device.device >= 0] or list(every)


def _placed(tree: Tree, trace: Trace, allocations: Ints) -> Any:
    rows = trace.memory.row[allocations]
    node = np.where(rows >= 0, np.maximum(tree.node[np.maximum(rows, 0)], 0), 0)
    sums = np.bincount(node, weights=trace.memory.bytes[allocations], minlength=len(tree))
    return sums.astype(np.float64)


@dataclass(frozen=True)
class MemoryReport:
    """The answer of ``memory``."""

    devices: tuple[DeviceMemory, ...]

    @property
    def text(self) -> str:
        """The report for people."""
        return "\n".join(line for device in self.devices for line in _lines(device)) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return {"devices": [asdict(device) for device in self.devices]}


def memory_report(trace: Trace) -> MemoryReport:
    """Report level and peak of every device.

    Raises:
        EmptyTraceError: No allocations were recorded.
    """
    return MemoryReport(memory(trace))


def _lines(device: DeviceMemory) -> Iterator[str]:
    place = f"device {device.device}" if device.device >= 0 else "host"
    peak = device.peak
    yield f"rank {device.rank} {place}: peak {text.size(peak.bytes)}" + (
        f" in step {peak.step}" if peak.step >= 0 else ""
    )
    for name, value in (
        ("reserved at most", device.peak_reserved_bytes),
        ("device memory", device.capacity_bytes),
        ("in use before the recording", device.baseline_bytes),
        ("of the peak, allocated before the recording", peak.before_bytes),
    ):
        yield f"  {name}: {text.size(value) if value is not None else 'not recorded'}"
    if not device.by_address:
        yield "  addresses were not recorded: frees are matched by size"
    if device.out_of_memory:
        yield f"  out of memory: {often(device.out_of_memory)}"
    for name, holders in (
        ("scope", peak.by_scope),
        ("operator", peak.by_operator),
        ("phase", peak.by_phase),
        (f"category, as {'recorded' if peak.category_recorded else 'derived'}", peak.by_category),
    ):
        if holders:
            yield f"  held at the peak, by {name}:"
            yield from (f"    {_holder(holder)}" for holder in holders)
            if holders is peak.by_category and peak.category_missing:
                yield f"    not known: {'; '.join(peak.category_missing)}"
    if device.steps:
        yield "  step        peak         end"
        for step in device.steps:
            yield f"  {step.step:>4}  {text.size(step.peak_bytes):>10}  {text.size(step.end_bytes):>10}"


_NAMES = {"": "(nowhere)", "unknown": "not known", "optimizer_state": "optimizer state"}


def _holder(holder: PeakHolder) -> str:
    count = f"{holder.allocations:,} allocation{'s' * (holder.allocations != 1)}"
    return f"{text.size(holder.bytes):>10}  {_NAMES.get(holder.name, holder.name)} ({count})"
