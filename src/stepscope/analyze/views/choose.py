"""Selection of the nodes of a tree that are shown, their order and totals: tfprof's, vectorised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepscope.analyze.options import ViewOptions, matches
from stepscope.analyze.views.measure import Bools, Ints
from stepscope.analyze.views.tree import Floats, Tree, below_added

_LEAST = {
    "min_micros": ("device_ns", "host_ns"),
    "min_accelerator_micros": ("device_ns",),
    "min_cpu_micros": ("host_ns",),
    "min_float_ops": ("flops",),
    "min_occurrence": ("calls",),
    "min_bytes": ("bytes",),
    "min_peak_bytes": ("peak_bytes",),
    "min_residual_bytes": ("residual_bytes",),
}
_LEVELS = ("min_peak_bytes", "min_residual_bytes")
"""Compared with a level, not with a mean per step."""

_ORDER = {
    "micros": ("step_ns",),
    "accelerator_micros": ("device_ns",),
    "cpu_micros": ("host_ns",),
    "float_ops": ("flops",),
    "occurrence": ("calls",),
    "bytes": ("bytes", "moved_bytes"),
    "peak_bytes": ("peak_bytes",),
    "residual_bytes": ("residual_bytes",),
}


def choose(
    tree: Tree, options: ViewOptions, *, windows: int, flat: bool
) -> tuple[Tree, list[int], list[int]]:
    """Choose what to show.

    Args:
        tree: Everything.
        options: tfprof's.
        windows: What the sums of the tree are divided by to compare them with the ``min_`` options.
        flat: Cut the list after ``max_depth + 1`` rows, as the op view does, instead of by depth.

    Returns:
        The tree, its totals recounted where ``account_displayed_op_only`` asks for it; the shown nodes in the
        order of the lines, the root first; and their depths on the page, the root's being 0.
    """
    shown = _shown(tree, options, windows, flat=flat)
    parent = _shown_parents(tree, shown)
    if options.account_displayed_op_only:
        tree = _recounted(tree, shown, parent)
    rank = _rank(tree, options)
    children: dict[int, list[int]] = {}
    nodes = np.flatnonzero(shown)[1:]
    nodes = nodes[np.argsort(rank[nodes], kind="stable")]
    for node, above in zip(nodes.tolist(), parent[nodes].tolist(), strict=True):
        children.setdefault(above, []).append(node)
    if flat:
        children[0] = _cut(tree, children.get(0, []), options)
    order, indents, stack = [], [], [(0, 0)]
    while stack:
        node, indent = stack.pop()
        order.append(node)
        indents.append(indent)
        stack += [(child, indent + 1) for child in reversed(children.get(node, ()))]
    return tree, order, indents


def _shown(tree: Tree, options: ViewOptions, windows: int, *, flat: bool) -> Bools:
    shown = np.ones(len(tree), bool)
    if not flat:
        depth = _started(tree, options)
        shown &= (depth > 0) & (depth <= options.max_depth) & ~_trimmed(tree, depth, options)
    for name, measures in _LEAST.items():
        least = getattr(options, name)
        if least > 0:
            scale = 1000.0 * windows if name.endswith("micros") else float(windows)
            if name in _LEVELS:
                scale = 1.0
            shown &= _sum(tree.total, measures, len(tree)) >= least * scale
    # A node in which nothing was recorded is not an answer to anything.
    shown &= _sum(tree.total, ("calls", "device_ns", "host_ns", "step_ns"), len(tree)) > 0
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
    first = np.where(_matched(tree.names, options.start_name_regexes), 2, 0)
    depth = np.zeros(len(tree), np.int32)
    for nodes in _levels(tree):
        above = depth[tree.parent[nodes]]
        depth[nodes] = np.where(above > 0, above + 1, first[nodes])
    depth[0] = 1
    return depth


def _trimmed(tree: Tree, depth: Ints, options: ViewOptions) -> Bools:
    """Mark what lies below a match of ``trim_name_regexes`` that is itself at or below a start."""
    trimmed = np.zeros(len(tree), bool)
    if options.trim_name_regexes:
        marked = _matched(tree.names, options.trim_name_regexes) & (depth > 0)
        for nodes in _levels(tree):
            trimmed[nodes] = (trimmed | marked)[tree.parent[nodes]]
    return trimmed


def _levels(tree: Tree) -> list[Ints]:
    """Return the nodes of each depth below the root, uppermost first."""
    deepest = int(tree.depth.max(initial=1))
    return [np.flatnonzero(tree.depth == depth) for depth in range(2, deepest + 1)]


def _matched(names: Sequence[str], patterns: Sequence[str]) -> Bools:
    known: dict[str, bool] = {}
    for name in names:
        if name not in known:
            known[name] = matches(name, patterns)
    return np.fromiter((known[name] for name in names), bool, len(names))


def _shown_parents(tree: Tree, shown: Bools) -> Ints:
    """Return each node's nearest shown ancestor."""
    parent = np.maximum(tree.parent, 0)
    for nodes in _levels(tree):
        hidden = nodes[~shown[parent[nodes]]]
        parent[hidden] = parent[parent[hidden]]
    return parent


def _recounted(tree: Tree, shown: Bools, parent: Ints) -> Tree:
    above = parent.copy()
    above[0] = -1
    total = {name: below_added(np.where(shown, values, 0.0), above) for name, values in tree.own.items()}
    return replace(tree, total=total, spread={})


def _rank(tree: Tree, options: ViewOptions) -> Ints:
    by_name = np.argsort(np.argsort(np.array(tree.names, dtype=object), kind="stable"), kind="stable")
    if options.order_by not in _ORDER:
        return by_name
    values = _sum(tree.total, _ORDER[options.order_by], len(tree))
    # Nodes without time in the step, or without any steps, are distinguished by their time elsewhere.
    spent = _sum(tree.total, ("device_ns", "host_ns"), len(tree)) if options.order_by == "micros" else values
    return np.argsort(np.lexsort((by_name, -spent, -values)), kind="stable")


def _sum(columns: dict[str, Floats], names: Sequence[str], size: int) -> Floats:
    values = np.zeros(size)
    for name in names:
        values = values + columns.get(name, 0.0)
    return values


def _cut(tree: Tree, nodes: list[int], options: ViewOptions) -> list[int]:
    start = 0
    if options.start_name_regexes not in ((), (".*",)):
        start = next(
            (i for i, node in enumerate(nodes) if matches(tree.names[node], options.start_name_regexes)),
            len(nodes),
        )
    nodes = nodes[start : start + options.max_depth + 1]
    end = next(
        (i for i, node in enumerate(nodes) if matches(tree.names[node], options.trim_name_regexes)),
        len(nodes),
    )
    return nodes[:end]
