"""Selection of the nodes of a tree that are shown, their order and totals, by tfprof's options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analyze.options import METRICS, ViewOptions, matches
from stepscope.analyze.views.measure import Bools, Ints
from stepscope.analyze.views.tree import Floats, Numbers, Tree, below_added
from stepscope.kernels import tree as forest

Values = Callable[[Tree, str], "Numbers | None"]


@dataclass(frozen=True)
class Terms:
    """How the options apply to a tree; both functions take it and a metric in tfprof's spelling.

    Attributes:
        least: Returns the value that a ``min_`` option is compared with, in its unit; None if the option
            hides nothing.
        order: Returns the value that siblings are sorted by, greatest first; None for their names. Equal ones
            keep the order of their numbers.
        trims_matches: A match of ``trim_name_regexes`` goes with all below it, instead of staying.
    """

    least: Values
    order: Values
    trims_matches: bool = False


@dataclass(frozen=True)
class AnswerLine:
    """One shown node: its name and its depth on the page."""

    name: str
    depth: int
    node: int


@dataclass(frozen=True)
class Chosen:
    """The lines to show, the root first, and the tree, whose totals may count only these lines."""

    tree: Tree
    lines: list[AnswerLine]

    @property
    def nodes(self) -> list[int]:
        """The nodes of the lines."""
        return [line.node for line in self.lines]


def choose(
    tree: Tree, options: ViewOptions, terms: Terms, *, able: Bools | None = None, flat: bool = False
) -> Chosen:
    """Choose the nodes to show.

    Args:
        tree: Everything.
        options: tfprof's.
        terms: How they apply to the tree.
        able: Nodes that can be shown at all, if not all can.
        flat: Cut the list after ``max_depth + 1`` rows, as the op view does, instead of by depth.
    """
    shown = _shown(tree, options, terms, flat=flat)
    if able is not None:
        shown &= able
        shown[0] = True
    parent = _nearest(tree, shown)[np.maximum(tree.parent, 0)]
    if options.account_displayed_op_only:
        tree = _recounted(tree, shown, parent)
    values = None if options.order_by == "name" else terms.order(tree, options.order_by)
    nodes = np.flatnonzero(shown)[1:]
    if values is None:
        nodes = np.array(sorted(nodes.tolist(), key=lambda node: name_key(tree.names[node])), np.int64)
    else:
        nodes = nodes[np.argsort(-values[nodes], kind="stable")]
    children: dict[int, list[int]] = {}
    for node, above in zip(nodes.tolist(), parent[nodes].tolist(), strict=True):
        children.setdefault(above, []).append(node)
    if flat:
        children[0] = cut(tree.names, children.get(0, []), options)
    lines, stack = [], [(0, 0)]
    while stack:
        node, depth = stack.pop()
        lines.append(AnswerLine(tree.names[node], depth, node))
        stack += [(child, depth + 1) for child in reversed(children.get(node, ()))]
    return Chosen(tree, lines)


def name_key(name: str) -> bytes:
    """Return a key that sorts names as C++ compares strings."""
    return name.encode("utf-8", "surrogateescape")


def is_named(name: str, options: ViewOptions) -> bool:
    """Return whether the name is one to show."""
    return matches(name, options.show_name_regexes) and not matches(name, options.hide_name_regexes)


def _shown(tree: Tree, options: ViewOptions, terms: Terms, *, flat: bool) -> Bools:
    shown = np.ones(len(tree), bool)
    if not flat:
        depth = _started(tree, options)
        trimmed = _trimmed(tree, depth, options, matches_too=terms.trims_matches)
        shown &= (depth > 0) & (depth <= options.max_depth) & ~trimmed
    for metric in METRICS:
        values = terms.least(tree, metric)
        if values is not None:
            shown &= values >= getattr(options, f"min_{metric}")
    if options.show_name_regexes != (".*",):
        shown &= _matched(tree.names, options.show_name_regexes)
    if options.hide_name_regexes:
        shown &= ~_matched(tree.names, options.hide_name_regexes)
    shown[0] = True
    return shown


def _started(tree: Tree, options: ViewOptions) -> Ints:
    """Return each node's depth from the first match of ``start_name_regexes`` above it, 0 for none.

    As in tfprof the matches become the children of the root, so they are at depth 2.
    """
    if options.start_name_regexes == (".*",):
        return tree.depth
    first = np.empty(len(tree), np.uint8)
    label = np.where(_matched(tree.names, options.start_name_regexes), 0, -1).astype(np.int32)
    label[0] = -1
    forest.outermost(np.ascontiguousarray(tree.parent, np.int32), label, first)
    start = _nearest(tree, first)
    depth = np.where(start >= 0, tree.depth - tree.depth[start] + 2, 0)
    depth[0] = 1
    return depth


def _trimmed(tree: Tree, depth: Ints, options: ViewOptions, *, matches_too: bool) -> Bools:
    """Mark all that lies below a match of ``trim_name_regexes`` that is itself at or below a start."""
    if not options.trim_name_regexes:
        return np.zeros(len(tree), bool)
    marked = _matched(tree.names, options.trim_name_regexes) & (depth > 0)
    nearest = _nearest(tree, marked)
    return (nearest if matches_too else nearest[np.maximum(tree.parent, 0)]) >= 0


def _nearest(tree: Tree, wanted: Bools | Ints) -> Ints:
    """Return the nearest wanted node among each one and its ancestors, -1 if there is none."""
    nearest = np.empty(len(tree), np.int32)
    forest.nearest(np.ascontiguousarray(tree.parent, np.int32), wanted.astype(np.uint8), nearest)
    return nearest


def _matched(names: Sequence[str], patterns: Sequence[str]) -> Bools:
    known: dict[str, bool] = {}
    for name in names:
        if name not in known:
            known[name] = matches(name, patterns)
    return np.fromiter((known[name] for name in names), bool, len(names))


def _recounted(tree: Tree, shown: Bools, parent: Ints) -> Tree:
    above = parent.copy()
    above[0] = -1
    total = {name: below_added(np.where(shown, values, 0), above) for name, values in tree.own.items()}
    return replace(tree, total=total, spread={})


def cut(names: Sequence[str], nodes: list[int], options: ViewOptions) -> list[int]:
    """Return the part of a list from its start to ``max_depth + 1`` rows later or the first trimmed one."""
    start = 0
    if options.start_name_regexes not in ((), (".*",)):
        start = next(
            (i for i, node in enumerate(nodes) if matches(names[node], options.start_name_regexes)),
            len(nodes),
        )
    nodes = nodes[start : max(start, start + options.max_depth + 1)]
    end = next(
        (i for i, node in enumerate(nodes) if matches(names[node], options.trim_name_regexes)), len(nodes)
    )
    return nodes[:end]


# --- traces -------------------------------------------------------------------------------------------

_COMPARED = {
    "micros": ("device_ns", "host_ns"),
    "accelerator_micros": ("device_ns",),
    "cpu_micros": ("host_ns",),
    "float_ops": ("flops",),
    "occurrence": ("calls",),
    "bytes": ("bytes",),
    "peak_bytes": ("peak_bytes",),
    "residual_bytes": ("residual_bytes",),
}
_SORTED = {**_COMPARED, "micros": ("step_ns",), "bytes": ("bytes", "moved_bytes")}
_LEVELS = ("peak_bytes", "residual_bytes")
"""Levels, not means per step."""


def terms_of_trace(windows: int) -> Terms:
    """Return the terms of the views of a trace, whose sums are divided by the number of windows."""

    def least(tree: Tree, metric: str) -> Floats | None:
        if metric not in _COMPARED:
            return None
        scale = 1.0 if metric in _LEVELS else 1000.0 * windows if "micros" in metric else float(windows)
        return summed(tree, _COMPARED[metric]) / scale

    def order(tree: Tree, metric: str) -> Ints | None:
        if metric not in _SORTED:
            return None
        values = summed(tree, _SORTED[metric])
        # Nodes without time in the step, or without any steps, are distinguished by their time elsewhere.
        spent = summed(tree, _COMPARED["micros"]) if metric == "micros" else values
        by_name = np.argsort(np.argsort(np.array(tree.names, dtype=object), kind="stable"), kind="stable")
        rank = np.argsort(np.lexsort((by_name, -spent, -values)), kind="stable")
        return np.asarray(-rank)

    return Terms(least, order)


def summed(tree: Tree, names: Sequence[str]) -> Floats:
    """Return the sum of some totals of each node; a column that is not there counts as nothing."""
    values = np.zeros(len(tree))
    for name in names:
        values = values + tree.total.get(name, 0.0)
    return values
