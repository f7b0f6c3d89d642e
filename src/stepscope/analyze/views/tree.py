"""Named nodes in a tree, with the cost of each one and all below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.views.measure import UNCOUNTED, Bools, Ints, Measures, Stretches
from stepscope.attribute.step_tree import PARTS, innermost
from stepscope.kernels import tree
from stepscope.trace.distinct import numbered
from stepscope.trace.model import Kind, Trace, among

Floats = npt.NDArray[np.floating[Any]]
Numbers = npt.NDArray[Any]

_FRAMES = (Kind.PYTHON_FRAME, Kind.MODULE_SCOPE, Kind.ANNOTATION, Kind.OTHER)
_MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class Tree:
    """A forest below node 0, the root; parents have smaller numbers than their children.

    Attributes:
        names: Per node.
        parent: i4[n]; the root's is -1.
        depth: i4[n]; the root's is 1.
        own: Per measure, f8[n]: the sum over all windows of all that belongs to the node itself.
        total: The same with all below it.
        spread: f8[n, 3]: least, median and greatest window of the total device time, else host time.
        node: i4[events], the node of each event, -1 for none.
        part: i8[n], the place in :data:`~stepscope.attribute.step_tree.PARTS` of the part of the step that
            took most of the node's time, with all below it; -1 if it has none but idle time.
    """

    names: Sequence[str]
    parent: Ints
    depth: Ints
    own: dict[str, Numbers]
    total: dict[str, Numbers]
    spread: dict[str, Floats] = field(default_factory=dict)
    node: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    part: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.parent)


def depths(parent: Ints) -> Ints:
    """Return each node's depth, the root's being 1."""
    depth = np.empty(len(parent), np.int32)
    tree.depths(np.ascontiguousarray(parent, np.int32), depth)
    return depth + 1


def below_added(own: Numbers, parent: Ints) -> Numbers:
    """Add to each node all that is below it.

    Args:
        own: Of each node, or [n, windows] of each window too; whole numbers.
        parent: i4[n], each smaller than its own place.
    """
    above = np.ascontiguousarray(parent, np.int32)
    if own.ndim == 1:
        total = own.astype(np.int64)
        tree.accumulate(above, total)
        return total.astype(own.dtype, copy=False)
    return np.stack([below_added(own[:, column], above) for column in range(own.shape[1])], axis=1)


def grow(
    trace: Trace,
    measures: Measures,
    node: Ints,
    parent: Ints,
    names: Sequence[str],
    *,
    called: Bools,
    keep: Bools | None = None,
    step_node: Ints | None = None,
) -> Tree:
    """Sum the events into their nodes.

    Args:
        trace: Any trace.
        measures: Its measures.
        node: i4[events], the node of each event, -1 for none.
        parent: i4[nodes], 0 is the root.
        names: Per node.
        called: Which events are calls of their node, rather than part of one.
        keep: Events that count, if not all do.
        step_node: i4[events], the node to which a step's time goes, if that is another one.
    """
    stretches = measures.stretches
    counted = measures.counted & (node >= 0)
    if keep is not None:
        counted &= keep
    windows, part = measures.windows, None
    at: Ints = np.zeros(0, np.int64)
    if stretches is not None:
        parent, names = _with_rest(parent, names)
        stretches = stretches if keep is None else _kept(stretches, keep)
        at = _step_nodes(trace, stretches, node if step_node is None else step_node, len(parent))
        if measures.part is not None:
            node, at, parent, names, part = _by_part(measures, stretches, counted, node, at, parent, names)
    size = len(parent)
    # What does not count goes to one more place, which is cheaper than leaving it out of every column.
    place = np.where(counted, node, size)

    def summed(values: Any) -> Floats:
        return np.bincount(place, weights=values, minlength=size + 1)[:size].astype(np.float64, copy=False)

    own: dict[str, Floats] = {"calls": summed(called)}
    spread: dict[str, Floats] = {}
    for name, column in (("device_ns", measures.device_ns), ("host_ns", measures.host_ns)):
        own[name] = summed(column) if column.any() else np.zeros(size)
        wanted = stretches is None and not spread and own[name].any()
        if wanted and windows > 1 and size * windows <= _MOST_CELLS:
            cell = np.where(counted, place * windows + measures.window, size * windows)
            cells = np.bincount(cell, weights=column, minlength=size * windows + 1)[:-1].astype(np.float64)
            spread[name] = _spread(below_added(cells.reshape(size, windows), parent))
    if stretches is not None:
        length = np.concatenate([stretches.length_ns, stretches.nothing_ns])
        own["step_ns"] = np.bincount(at, weights=length, minlength=size).astype(np.float64)
        if part is None:
            part = _parts(stretches, at, parent)
        if windows > 1 and size * windows <= _MOST_CELLS:
            cell = at * windows + np.concatenate([stretches.window, np.arange(windows)])
            spent = np.bincount(cell, weights=length, minlength=size * windows).astype(np.float64)
            spread["step_ns"] = _spread(below_added(spent.reshape(size, windows), parent))
    flops = trace.flops if measures.flops is None else measures.flops
    for name, column in (("flops", flops), ("moved_bytes", trace.bytes)):
        if (column > 0).any():
            own[name] = summed(np.maximum(column, 0))
            own[f"{name}_ns"] = summed(np.where(column >= 0, measures.device_ns + measures.host_ns, 0))
    total = {name: below_added(sums, parent) for name, sums in own.items()}
    if stretches is not None and measures.overlaps and measures.part is None:
        rows = np.flatnonzero(counted & (trace.device < 0) & ~among(*UNCOUNTED)[trace.kind])
        places = np.where(node[rows] > 0, node[rows], size - len(REST) + 1)
        own["step_ns"], total["step_ns"] = _open_times(trace, rows, places, parent)
        own["step_ns"][size - 1] = total["step_ns"][size - 1] = stretches.nothing_ns.sum()
        total["step_ns"][0] = stretches.length_ns.sum() + stretches.nothing_ns.sum()
    if part is None:
        part = np.full(size, -1, np.int64)
    return Tree(names, parent, depths(parent), own, total, spread, node, part)


def _by_part(
    measures: Measures, stretches: Stretches, counted: Bools, node: Ints, at: Ints, parent: Ints,
    names: Sequence[str],
) -> tuple[Ints, Ints, Ints, list[str], Ints]:  # fmt: skip
    """Split nodes by the part of the step, so that the root's children are the parts.

    Args:
        measures: With the part of each event.
        stretches: The step's time.
        counted: Which events count.
        node: Of each event.
        at: Of each stretch, and of each window's time that was not recorded.
        parent: Of each node.
        names: Likewise.

    Returns:
        The new nodes of events and stretches, and parent, name and part of each new node.
    """
    assert measures.part is not None
    size = len(parent)
    of_stretch = np.concatenate([stretches.part, stretches.nothing_part]) * size + at
    of_event = np.where(counted, measures.part * size + node, -1)
    length = np.concatenate([stretches.length_ns, stretches.nothing_ns])
    wanted: Ints = numbered(np.concatenate([of_event[counted], of_stretch[length > 0]]))[0]
    keys: Ints = wanted
    while len(wanted := wanted[wanted % size > 0]):
        wanted = numbered(wanted // size * size + parent[wanted % size])[0]
        keys, before = np.union1d(keys, wanted), len(keys)
        if len(keys) == before:
            break
    inner = keys % size
    above = np.where(inner > 0, 1 + np.searchsorted(keys, keys - inner + parent[inner]), 0)
    labels = [PARTS[key // size] if key % size == 0 else names[key % size] for key in keys.tolist()]
    return (
        np.where(counted, 1 + np.searchsorted(keys, of_event), -1),
        1 + np.minimum(np.searchsorted(keys, of_stretch), len(keys) - 1),
        np.concatenate([[-1], above]).astype(np.int32),
        ["step" if measures.marked else names[0], *labels],
        np.concatenate([[-1], keys // size]),
    )


def _open_times(trace: Trace, rows: Ints, place: Ints, parent: Ints) -> tuple[Floats, Floats]:
    """Return how long at least one slice of each node was open: by itself, and with all below it.

    Args:
        trace: Any trace.
        rows: The slices, ascending.
        place: Their nodes.
        parent: Of each node; the root gets nothing.
    """
    start, end, piece = innermost(trace, rows, trace.lane[rows])
    own = _union(start, end, trace.rank[rows[piece]], place[piece], len(parent))
    begin, last = trace.start_ns[rows], trace.end_ns[rows]
    below, at = [np.arange(len(rows))], [place.astype(np.int64)]
    while (inner := parent[at[-1]] > 0).any():
        below.append(below[-1][inner])
        at.append(parent[at[-1][inner]].astype(np.int64))
    every, nodes = np.concatenate(below), np.concatenate(at)
    return own, _union(begin[every], last[every], trace.rank[rows[every]], nodes, len(parent))


def _union(start: Ints, end: Ints, rank: Ints, node: Ints, size: int) -> Floats:
    """Return f8[size]: the time that the intervals of each node cover, added up over ranks."""
    order = np.lexsort((start, rank, node))
    start, end, rank, node = start[order], end[order], rank[order], node[order]
    if not len(order):
        return np.zeros(size)
    new = np.append(True, (node[1:] != node[:-1]) | (rank[1:] != rank[:-1]))
    group = np.cumsum(new) - 1
    # The latest end so far within each group: places of ends in order, shifted by group, cannot overflow.
    ends, place = np.unique(end, return_inverse=True)
    latest = np.maximum.accumulate(group * len(ends) + place.ravel()) - group * len(ends)
    before = np.where(new, start, ends[np.append(0, latest[:-1]) % len(ends)])
    covered = np.maximum(0, end - np.maximum(start, before))
    return np.bincount(node, weights=covered, minlength=size).astype(np.float64)


REST = ("(Python)", "(not in this view)", "(nothing recorded)")
"""Nodes for time of a step that has no place in a view, so that its nodes add up to the step."""


def _with_rest(parent: Ints, names: Sequence[str]) -> tuple[Ints, Sequence[str]]:
    return np.concatenate([parent, np.zeros(len(REST), np.int32)]).astype(np.int32), [*names, *REST]


def _kept(stretches: Stretches, keep: Bools) -> Stretches:
    length = np.where(keep[stretches.row], stretches.length_ns, 0)
    return replace(stretches, length_ns=length, nothing_ns=np.zeros_like(stretches.nothing_ns))


def _parts(stretches: Stretches, node: Ints, parent: Ints) -> Ints:
    """Return the part of the step that took most of each node and all below it, -1 for none.

    That a device idles meanwhile says nothing of a node: only unrecorded time is idle.
    """
    size, parts, idle = len(parent), len(PARTS), PARTS.index("idle")
    length = np.concatenate([np.where(stretches.part == idle, 0, stretches.length_ns), stretches.nothing_ns])
    cell = node * parts + np.concatenate([stretches.part, stretches.nothing_part])
    spent = np.bincount(cell, weights=length, minlength=size * parts).astype(np.float64)
    total = below_added(spent.reshape(size, parts), parent)
    # All of the root may be idle; what is named is one of the others.
    total[0, idle] = 0.0
    return np.where(total.any(axis=1), total.argmax(axis=1), -1)


def _step_nodes(trace: Trace, stretches: Stretches, places: Ints, size: int) -> Ints:
    """Return the node of each stretch, then of each window's time that was not recorded."""
    python, elsewhere, nothing = range(size - len(REST), size)
    node = places[stretches.row].astype(np.int64)
    lost = np.flatnonzero(node <= 0)
    framed = among(*_FRAMES)[trace.kind[stretches.row[lost]]]
    node[lost] = np.where(framed, python, elsewhere)
    return np.concatenate([node, np.full(len(stretches.nothing_ns), nothing)])


def _spread(cells: Floats) -> Floats:
    spread: Floats = np.stack([cells.min(axis=1), np.median(cells, axis=1), cells.max(axis=1)], axis=1)
    return spread
