"""The code view: graph nodes by the Python lines that created them."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.scope import root_row
from stepscope.analyze.tfprof.stats import ViewRow, nodes_row
from stepscope.analyze.tfprof.tree import shown
from stepscope.errors import EmptyTraceError
from stepscope.trace.tfprof import Frame, Profile, ProfileNode, in_byte_order

GRADIENT = " (gradient)"
_LONGEST_FUNCTION = 20


@dataclass(slots=True, eq=False)
class CodeLine:
    """A Python frame below its caller; ``nodes`` were created by exactly this stack."""

    name: str
    frame: Frame | None = None
    suffix: str = ""
    nodes: dict[str, ProfileNode] = field(default_factory=dict)
    callees: dict[str, CodeLine] = field(default_factory=dict)


def code_view(profile: Profile, options: ViewOptions) -> ViewRow:
    """Return the tree to show.

    Raises:
        EmptyTraceError: The profile holds no Python stack.
    """
    if not profile.has_stacks:
        raise EmptyTraceError(
            "no code trace information: the profile was written without Python stacks",
            hint="pass an op log (tfprof_log), or use tf.profiler.Profiler, which records stacks",
        )
    root = root_row(_account(call_tree(profile), options), options)
    return shown(root, options, code=True)


def call_tree(profile: Profile) -> CodeLine:
    """Return the root of all stacks; gradients are attached to their forward node's stack, marked."""
    root = CodeLine("")
    forward: dict[str, ProfileNode] = {}
    gradients: dict[str, list[ProfileNode]] = {}
    for node in profile.nodes.values():
        if not node.stack:
            continue
        differentiated = forward_name(node.name)
        if differentiated is not None:
            gradients.setdefault(differentiated, []).append(node)
        else:
            forward[node.name] = node
            _leaf(root, node.stack, "").nodes[node.name] = node
    for name in in_byte_order(gradients):
        if name in forward:
            _leaf(root, forward[name].stack, GRADIENT).nodes.update(
                {node.name: node for node in gradients[name]}
            )
    return root


def forward_name(name: str) -> str | None:
    """Return X of a node named ``…gradients/X_grad/…``."""
    prefix, suffix = name.find("gradients/"), name.find("_grad/")
    if prefix < 0 or suffix < 0:
        return None
    start = prefix + len("gradients/")
    if suffix == start:
        return None
    return name[start:suffix] if suffix > start else name[start:]


def frame_name(frame: Frame) -> str:
    """Return ``file:line:function``, a long function shortened."""
    function = frame.function.encode("utf-8", "surrogateescape")
    shown = function if len(function) < _LONGEST_FUNCTION else function[:17] + b"..."
    return f"{posixpath.basename(frame.file)}:{frame.line}:{shown.decode('utf-8', 'surrogateescape')}"


def _leaf(root: CodeLine, stack: list[Frame], suffix: str) -> CodeLine:
    line = root
    for frame in stack:
        name = frame_name(frame) + suffix
        if name not in line.callees:
            line.callees[name] = CodeLine(name, frame, suffix)
        line = line.callees[name]
    return line


def _account(root: CodeLine, options: ViewOptions) -> list[ViewRow]:
    rows: dict[int, ViewRow] = {}
    # Callers come before their callees, so backwards every line finds its callees' rows done.
    for line in reversed(_callers_first(root)):
        below = [rows[id(callee)] for callee in line.callees.values() if id(callee) in rows]
        row = nodes_row(line.name, [line.nodes[name] for name in in_byte_order(line.nodes)], options)
        if row.accounted or below:
            row.total = row.own
            for child in below:
                row.add(child)
            row.children = below
            rows[id(line)] = row
    return rows[id(root)].children if id(root) in rows else []


def _callers_first(root: CodeLine) -> list[CodeLine]:
    lines, stack = [], [root]
    while stack:
        lines.append(stack.pop())
        stack.extend(lines[-1].callees.values())
    return lines
