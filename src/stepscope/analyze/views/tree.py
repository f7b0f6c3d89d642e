"""Named nodes in a tree, with what each one and all below it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.views.measure import Bools, Ints, Measures
from stepscope.kernels import tree
from stepscope.trace.model import Trace

Floats = npt.NDArray[np.floating[Any]]

_MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class Tree:
    """A forest below node 0, the root; parents have smaller numbers than their children.

    Attributes:
        names: Per node.
        parent: i4[n]; the root's is -1.
        depth: i4[n]; the root's is 1.
        own: Per measure, f8[n]: the sum over all windows of what belongs to the node itself.
        total: The same with all below it.
        spread: f8[n, 3]: least, median and greatest window of the total device time, else host time.
        node: i4[events], the node of each event, -1 for none.
    """

    names: Sequence[str]
    parent: Ints
    depth: Ints
    own: dict[str, Floats]
    total: dict[str, Floats]
    spread: dict[str, Floats] = field(default_factory=dict)
    node: Ints = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.parent)


def depths(parent: Ints) -> Ints:
    """Return each node's depth, the root's being 1."""
    depth = np.ones(len(parent), np.int32)
    nodes = np.flatnonzero(parent == 0)
    level = 2
    while len(nodes):
        depth[nodes] = level
        inside = np.zeros(len(parent), bool)
        inside[nodes] = True
        nodes = np.flatnonzero((parent > 0) & inside[np.maximum(parent, 0)])
        level += 1
    return depth


def below_added(own: Floats, parent: Ints) -> Floats:
    """Add to each node what is below it.

    Args:
        own: f8[n] or f8[n, windows], whole numbers.
        parent: i4[n], each smaller than its own place.
    """
    above = np.ascontiguousarray(parent, np.int32)
    if own.ndim == 1:
        total = own.astype(np.int64)
        tree.accumulate(above, total)
        return total.astype(np.float64)
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
) -> Tree:
    """Sum the events into their nodes.

    Args:
        trace: Any trace.
        measures: Its measures.
        node: i4[events], the node of each event, -1 for none.
        parent: i4[nodes], 0 is the root.
        names: Per node.
        called: Which events are calls of their node, rather than part of one.
        keep: Events that count, where not all do.
    """
    counted = measures.counted & (node >= 0)
    if keep is not None:
        counted &= keep
    size, windows = len(parent), measures.windows
    # What does not count goes to one more place, which is cheaper than leaving it out of every column.
    place = np.where(counted, node, size)

    def summed(values: Any) -> Floats:
        return np.bincount(place, weights=values, minlength=size + 1)[:size].astype(np.float64, copy=False)

    own: dict[str, Floats] = {"calls": summed(called)}
    spread: dict[str, Floats] = {}
    for name, column in (("device_ns", measures.device_ns), ("host_ns", measures.host_ns)):
        own[name] = summed(column) if column.any() else np.zeros(size)
        if own[name].any() and not spread and windows > 1 and size * windows <= _MOST_CELLS:
            cell = np.where(counted, place * windows + measures.window, size * windows)
            cells = np.bincount(cell, weights=column, minlength=size * windows + 1)[:-1].astype(np.float64)
            spread[name] = _spread(below_added(cells.reshape(size, windows), parent))
    for name, column in (("flops", trace.flops), ("moved_bytes", trace.bytes)):
        if (column > 0).any():
            own[name] = summed(np.maximum(column, 0))
            own[f"{name}_ns"] = summed(np.where(column >= 0, measures.device_ns + measures.host_ns, 0))
    total = {name: below_added(sums, parent) for name, sums in own.items()}
    return Tree(names, parent, depths(parent), own, total, spread, node)


def _spread(cells: Floats) -> Floats:
    spread: Floats = np.stack([cells.min(axis=1), np.median(cells, axis=1), cells.max(axis=1)], axis=1)
    return spread
