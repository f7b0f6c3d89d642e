"""The scope view: graph nodes by the ``/`` in their names, like a file system."""

from __future__ import annotations

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.stats import ROOT, ViewRow, node_row
from stepscope.analyze.tfprof.tree import shown, start_rows
from stepscope.trace.tfprof import Profile, ProfileNode, in_byte_order

PLACEHOLDER = "_kTFScopeParent"
"""Op type of a scope that is not a graph node itself."""


def scope_view(profile: Profile, options: ViewOptions) -> ViewRow:
    """Return the tree to show.

    A scope that is not accounted stays while something below it is, and its own numbers, if it is a node with
    some, are in the totals above it.
    """
    children = _children(profile)
    nodes = {
        name: profile.nodes.get(name) or ProfileNode(name, op=PLACEHOLDER, types={PLACEHOLDER})
        for name in children
    }
    rows: dict[str, ViewRow] = {}
    # Parents sort before what is below them, so backwards every row finds its children done.
    for name in reversed(in_byte_order(children)):
        row = node_row(nodes[name], options)
        below = [rows[child] for child in children[name] if child in rows]
        if not row.accounted and not below:
            continue
        row.start_total()
        for child in below:
            row.add(child)
        row.children = below
        rows[name] = row
    top = [rows[name] for name in in_byte_order(children) if "/" not in name and name in rows]
    root = root_row(top, options)
    root.types = {PLACEHOLDER}
    return shown(root, options)


def root_row(top: list[ViewRow], options: ViewOptions) -> ViewRow:
    """Return the root over the topmost rows, re-rooted at ``start_name_regexes``."""
    root = ViewRow(ROOT, node=ProfileNode(ROOT))
    for row in top:
        root.add(row)
    root.children = start_rows(top, options)
    return root


def _children(profile: Profile) -> dict[str, list[str]]:
    names = set(profile.nodes)
    for name in profile.nodes:
        while "/" in name and (name := name.rpartition("/")[0]) not in names:
            names.add(name)
    children: dict[str, list[str]] = {name: [] for name in names}
    for name in in_byte_order(names):
        if "/" in name:
            children[name.rpartition("/")[0]].append(name)
    return children
