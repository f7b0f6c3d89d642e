"""The graph view: each node above its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.scope import root_row
from stepscope.analyze.tfprof.stats import ViewRow, node_row
from stepscope.analyze.tfprof.tree import shown
from stepscope.trace.tfprof import Profile, ProfileNode

PLACEHOLDER = "_TFGraphParent"


def graph_view(profile: Profile, options: ViewOptions) -> ViewRow:
    """Return the tree to show.

    The graph becomes a tree by a depth-first walk from the nodes that are nobody's input: each node is
    counted once, below the first consumer that reaches it. A node that is not accounted hands its inputs
    upwards.
    """
    inputs = {name: _inputs(profile, node) for name, node in profile.nodes.items()}
    consumed = {source for node in profile.nodes.values() for source in node.inputs.values()}
    roots = [name for name in profile.nodes if name not in consumed]
    root = root_row(_account(profile, inputs, roots, options), options)
    root.types = {PLACEHOLDER}
    return shown(root, options)


def _inputs(profile: Profile, node: ProfileNode) -> list[str]:
    return [source for _, source in sorted(node.inputs.items()) if source in profile.nodes]


def _account(
    profile: Profile, inputs: dict[str, list[str]], roots: list[str], options: ViewOptions
) -> list[ViewRow]:
    visited: set[str] = set()
    top: list[ViewRow] = []
    frames: list[tuple[str, Iterator[str], list[ViewRow]]] = [("", iter(roots), top)]
    while True:
        name, pending, below = frames[-1]
        child = next((source for source in pending if source not in visited), None)
        if child is not None:
            visited.add(child)
            frames.append((child, iter(inputs[child]), []))
            continue
        frames.pop()
        if not frames:
            return top
        frames[-1][2].extend(_rows(profile.nodes[name], below, options))


def _rows(node: ProfileNode, below: list[ViewRow], options: ViewOptions) -> list[ViewRow]:
    row = node_row(node, options)
    if not row.accounted:
        return below
    row.start_total()
    for child in below:
        row.add(child)
    row.children = below
    return [row]
