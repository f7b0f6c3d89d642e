"""Named nodes in a tree, with what each one and all below it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.views.measure import Bools, Ints, Measures
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
        spread: Per measure, f8[n, 3]: least, median and greatest window of the total.
        types: What ``account_type_regexes`` and ``-select op_types`` see, per node.
        shapes: Input shapes per node, most frequent first, where the view has them.
    """

    names: Sequence[str]
    parent: Ints
    depth: Ints
    own: dict[str, Floats]
    total: dict[str, Floats]
    spread: dict[str, Floats] = field(default_factory=dict)
    types: Sequence[frozenset[str]] = ()
    shapes: dict[int, list[str]] = field(default_factory=dict)

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


def below_added(own: Floats, parent: Ints, depth: Ints) -> Floats:
    """Add to each node what is below it; works on f8[n] and f8[n, windows]."""
    total: Floats = own.copy()
    columns = [total] if total.ndim == 1 else [total[:, index] for index in range(total.shape[1])]
    order = np.argsort(depth, kind="stable")[::-1]
    ends = np.flatnonzero(np.diff(depth[order])) + 1
    for nodes in np.split(order, ends):
        nodes = nodes[parent[nodes] >= 0]
        for column in columns:
            np.add.at(column, parent[nodes], column[nodes])
    return total


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
    rows = np.flatnonzero(counted)
    node, window = node[rows], measures.window[rows]
    depth = depths(parent)
    size, windows = len(parent), measures.windows

    def summed(values: Any) -> Floats:
        return np.bincount(node, weights=values, minlength=size).astype(np.float64)

    own: dict[str, Floats] = {"calls": summed(called[rows])}
    spread: dict[str, Floats] = {}
    total: dict[str, Floats] = {}
    for name, column in (("device_ns", measures.device_ns), ("host_ns", measures.host_ns)):
        values = column[rows]
        own[name] = summed(values)
        if size * windows <= _MOST_CELLS and own[name].any():
            cell = node.astype(np.int64) * windows + window
            cells = np.bincount(cell, weights=values, minlength=size * windows).astype(np.float64)
            spread[name] = _spread(below_added(cells.reshape(size, windows), parent, depth))
    for name, column in (("flops", trace.flops), ("moved_bytes", trace.bytes)):
        values = column[rows]
        if (values > 0).any():
            own[name] = summed(np.maximum(values, 0))
            time = np.where(values >= 0, (measures.device_ns + measures.host_ns)[rows], 0)
            own[f"{name}_ns"] = summed(time)
    for name, sums in own.items():
        total[name] = below_added(sums, parent, depth)
    return Tree(names, parent, depth, own, total, spread)


def _spread(cells: Floats) -> Floats:
    spread: Floats = np.stack([cells.min(axis=1), np.median(cells, axis=1), cells.max(axis=1)], axis=1)
    return spread
