"""The trees of a tfprof source: graph nodes by name, input, type or Python line, with tfprof's numbers.

The nodes of a tree are chosen by :mod:`stepscope.analyze.views.choose`, as for any other profile.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analyze.options import ViewOptions, matches
from stepscope.analyze.views.choose import AnswerLine, Chosen, Terms, choose, cut, is_named
from stepscope.analyze.views.dataflow import walk
from stepscope.analyze.views.measure import Bools, Ints
from stepscope.analyze.views.tree import Numbers, Tree, below_added, depths
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.kernels import tree as forest
from stepscope.trace.tfprof import Execution, Frame, Profile, ProfileNode, in_byte_order

MEASURED = (
    "occurrence", "micros", "accelerator_micros", "cpu_micros",
    "bytes", "peak_bytes", "residual_bytes", "output_bytes",
)  # fmt: skip
"""The values of a node in each step; ``occurrence`` counts runs."""
METRICS = (*MEASURED, "params", "float_ops")
DEFINED = "defined"
"""The column that counts graph nodes."""

ROOT = "_TFProfRoot"
GRADIENT = " (gradient)"
_SCOPE, _GRAPH = "_kTFScopeParent", "_TFGraphParent"
"""Types of a scope that is no graph node, and of the root of the graph view."""
_LONGEST_FUNCTION = 20


@dataclass(frozen=True)
class Grown:
    """A tree of graph nodes.

    Attributes:
        tree: Its names and sums; node 0 is the root.
        nodes: Per node of the tree the graph nodes that it counts, in the order of their names.
        accounted: Which nodes count themselves, rather than only pass on all that is below.
    """

    tree: Tree
    nodes: list[list[ProfileNode]]
    accounted: Bools


# --- numbers ------------------------------------------------------------------------------------------


def numbers(profile: Profile, step: int) -> Ints:
    """Return i8[nodes, metrics] at a step; below 0, the averages over the steps in which each node ran."""
    if step not in profile.numbers:
        try:
            profile.numbers[step] = _numbers(profile, step)
        except OverflowError:
            raise TraceError(
                "a damaged tfprof profile: its numbers do not fit into 64 bits",
                hint="write the profile again: Profiler.serialize_to_string()",
            ) from None
    return profile.numbers[step]


def _numbers(profile: Profile, step: int) -> Ints:
    nodes = profile.nodes.values()
    runs = [
        (place, *_measured(execution))
        for place, node in enumerate(nodes)
        for number, execution in node.executions.items()
        if step < 0 or number == step
    ]
    table = np.array(runs, np.int64).reshape(len(runs), 1 + len(MEASURED))
    sums = np.zeros((len(profile.nodes), len(MEASURED)), np.int64)
    np.add.at(sums, table[:, 0], table[:, 1:])
    ran = np.array([len(node.executions) for node in nodes], np.int64)
    if step < 0:
        # Rounded towards 0, as C++ divides.
        sums = np.sign(sums) * (np.abs(sums) // np.maximum(ran, 1)[:, None])
    flops = np.array([node.float_ops for node in nodes], np.int64)
    flops = np.where(ran > 0, flops * sums[:, 0], flops)
    params = np.array([node.parameters for node in nodes], np.int64)
    return np.column_stack([sums, params, flops])


def _measured(execution: Execution) -> Iterator[int]:
    accelerator, cpu = execution.accelerator_micros, execution.cpu_micros
    yield from (execution.run_count, accelerator + cpu, accelerator, cpu)
    for kind in ("requested", "peak", "residual", "output"):
        yield sum(getattr(memory, kind) for memory in execution.memory)


def _counts(profile: Profile, options: ViewOptions) -> Ints:
    """Return how often each node counts: once for each expression that matches a type of it, as in tfprof."""
    return np.array([_count(node, options) for node in profile.nodes.values()], np.int64)


def _count(node: ProfileNode, options: ViewOptions) -> int:
    if options.account_type_regexes == (".*",):
        return 1
    return sum(any(matches(kind, (regex,)) for kind in node.types) for regex in options.account_type_regexes)


def _grown(
    names: Sequence[str], parent: Sequence[int], nodes: list[list[ProfileNode]], own: Ints, accounted: Bools,
    keep: Bools, *, defined: bool = True,
) -> Grown:  # fmt: skip
    """Make a tree of the kept nodes; all that lies below others hangs at the nearest kept node above."""
    above = np.array(parent, np.int32)
    nearest = np.empty(len(above), np.int32)
    forest.nearest(above, keep.astype(np.uint8), nearest)
    rows = np.flatnonzero(keep)
    place = np.cumsum(keep, dtype=np.int32) - 1
    up = np.where(above[rows] >= 0, place[nearest[np.maximum(above[rows], 0)]], -1).astype(np.int32)
    sums = dict(zip(METRICS, own[rows].T, strict=True))
    sums[DEFINED] = np.full(len(rows), defined, np.int64)
    sums[DEFINED][0] = 0
    tree = Tree(
        [names[row] for row in rows.tolist()], up, depths(up), sums,
        {name: below_added(values, up) for name, values in sums.items()},
        part=np.full(len(rows), -1),
    )  # fmt: skip
    return Grown(tree, [nodes[row] for row in rows.tolist()], accounted[rows])


# --- the views ----------------------------------------------------------------------------------------


def scope_tree(profile: Profile, options: ViewOptions) -> Grown:
    """Build the tree of names, like a file system.

    A scope that is not accounted stays while something below it is, and its own numbers, if it is a node with
    some, are in the totals above it.
    """
    names = set(profile.nodes)
    for name in profile.nodes:
        while "/" in name and (name := name.rpartition("/")[0]) not in names:
            names.add(name)
    ordered = sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape").split(b"/"))
    place = {name: number for number, name in enumerate(ordered, 1)}
    parent = [-1, *(place[name.rpartition("/")[0]] if "/" in name else 0 for name in ordered)]
    nodes = [ProfileNode(ROOT, types={_SCOPE})]
    nodes += [profile.nodes.get(name) or ProfileNode(name, op=_SCOPE, types={_SCOPE}) for name in ordered]
    own = np.zeros((len(parent), len(METRICS)), np.int64)
    own[[place[name] for name in profile.nodes]] = numbers(profile, options.step)
    accounted = np.array([False, *(_count(node, options) > 0 for node in nodes[1:])])
    live = below_added(accounted.astype(np.int64), np.array(parent, np.int32)) > 0
    live[0] = True
    return _grown([ROOT, *ordered], parent, [[node] for node in nodes], own, accounted, live)


def graph_tree(profile: Profile, options: ViewOptions) -> Grown:
    """Build the tree of inputs: each node once, below the first consumer that a walk from the ends reaches.

    A node that is not accounted hands its inputs upwards.
    """
    every = list(profile.nodes.values())
    place = {node.name: number for number, node in enumerate(every)}
    inputs = [[place[name] for _, name in sorted(node.inputs.items()) if name in place] for node in every]
    consumed = {number for numbers_ in inputs for number in numbers_}
    order, parent = walk(inputs, [number for number in range(len(every)) if number not in consumed])
    nodes = [ProfileNode(ROOT, types={_GRAPH}), *(every[number] for number in order)]
    own = np.concatenate([np.zeros((1, len(METRICS)), np.int64), numbers(profile, options.step)[order]])
    accounted = np.append(False, _counts(profile, options)[order] > 0)
    keep = accounted.copy()
    keep[0] = True
    return _grown([node.name for node in nodes], parent, [[node] for node in nodes], own, accounted, keep)


def code_tree(profile: Profile, options: ViewOptions) -> Grown:
    """Build the tree of Python lines that created nodes; gradients are at their forward node's lines, marked.

    Raises:
        EmptyTraceError: The profile holds no Python stack.
    """
    if not profile.has_stacks:
        raise EmptyTraceError(
            "no code trace information: the profile was written without Python stacks",
            hint="pass an op log (tfprof_log), or use tf.profiler.Profiler, which records stacks",
        )
    names, parent, held = [ROOT], [-1], [list[int]()]
    stack = list(_call_tree(profile).callees.values())[::-1]
    above = [0] * len(stack)
    while stack:
        line, up = stack.pop(), above.pop()
        stack += list(line.callees.values())[::-1]
        above += [len(names)] * len(line.callees)
        names.append(line.name)
        parent.append(up)
        held.append(sorted(line.nodes))
    nodes, own, counted = _summed(profile, held, options)
    accounted = counted | (options.account_type_regexes == (".*",))
    accounted[0] = False
    live = below_added(accounted.astype(np.int64), np.array(parent, np.int32)) > 0
    live[0] = True
    return _grown(names, parent, nodes, own, accounted, live, defined=False)


def _summed(
    profile: Profile, held: Sequence[Sequence[int]], options: ViewOptions
) -> tuple[list[list[ProfileNode]], Ints, Bools]:
    """Return for rows that hold several nodes those that count, their sums, and whether any counts."""
    every, counts, measured = (
        list(profile.nodes.values()), _counts(profile, options), numbers(profile, options.step),
    )  # fmt: skip
    row = np.repeat(np.arange(len(held)), [len(one) for one in held])
    number = np.array([number for one in held for number in one], np.int64)
    own = np.zeros((len(held), len(METRICS)), np.int64)
    np.add.at(own, row, measured[number] * counts[number][:, None])
    nodes = [[every[number] for number in one if counts[number]] for one in held]
    return nodes, own, np.array([bool(one) for one in nodes], bool)


@dataclass(slots=True)
class _Line:
    """A Python frame below its caller, and the nodes that exactly this stack created."""

    name: str
    nodes: list[int]
    callees: dict[str, _Line]


def _call_tree(profile: Profile) -> _Line:
    root = _Line(ROOT, [], {})
    forward: dict[str, ProfileNode] = {}
    gradients: dict[str, list[int]] = {}
    for number, node in enumerate(profile.nodes.values()):
        if not node.stack:
            continue
        differentiated = forward_name(node.name)
        if differentiated is not None:
            gradients.setdefault(differentiated, []).append(number)
        else:
            forward[node.name] = node
            _leaf(root, node.stack, "").nodes.append(number)
    for name in in_byte_order(gradients):
        if name in forward:
            _leaf(root, forward[name].stack, GRADIENT).nodes.extend(gradients[name])
    return root


def _leaf(line: _Line, stack: list[Frame], suffix: str) -> _Line:
    for frame in stack:
        name = frame_name(frame) + suffix
        line = line.callees.setdefault(name, _Line(name, [], {}))
    return line


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


# --- what is shown ------------------------------------------------------------------------------------

_BUILDERS = {"scope": scope_tree, "graph": graph_tree, "code": code_tree}
_STATIC = ("params", "float_ops")


def shown(view: str, profile: Profile, options: ViewOptions) -> tuple[Grown, Chosen]:
    """Build the tree of a view and choose its lines."""
    if view == "op":
        return _operations(profile, options)
    grown = _BUILDERS[view](profile, options)
    code = view == "code"
    if code:
        options = replace(options, account_displayed_op_only=False)  # there it does nothing
    nodes = np.array([len(one) for one in grown.nodes])

    def least(tree: Tree, metric: str) -> Numbers | None:
        if metric == "occurrence" and code:
            return None
        own = metric == "occurrence" or (metric in _STATIC and not code)
        return (tree.own if own else tree.total)[metric]

    def order(tree: Tree, metric: str) -> Numbers | None:
        if metric == "occurrence":
            return nodes if code else None
        return tree.total.get(metric)

    chosen = choose(grown.tree, options, Terms(least, order, trims_matches=code))
    if options.account_displayed_op_only:
        chosen.tree.total[DEFINED][0] += 1  # tfprof counts its root then
    return replace(grown, tree=chosen.tree), chosen


def _operations(profile: Profile, options: ViewOptions) -> tuple[Grown, Chosen]:
    """List the types of operations in their order; the total of each is that of itself and all later rows.

    The root has the first row's.
    """
    held: dict[str, list[int]] = {}
    for number, node in enumerate(profile.nodes.values()):
        held.setdefault(node.op, []).append(number)
    names = in_byte_order(held)
    nodes, own, accounted = _summed(profile, [held[name] for name in names], options)
    metric = options.order_by
    values: Numbers = np.zeros(len(names), np.int64)
    if metric != "name":
        values = (
            np.array([len(one) for one in nodes]) if metric == "occurrence" else own[:, METRICS.index(metric)]
        )
    rows = np.argsort(-values, kind="stable")
    rows = rows[accounted[rows]]
    names, nodes = [ROOT, *(names[row] for row in rows)], [[], *(nodes[row] for row in rows)]
    own = np.concatenate([np.zeros((1, len(METRICS)), np.int64), own[rows]])
    parent = np.append(-1, np.zeros(len(rows), np.int32)).astype(np.int32)
    sums: dict[str, Numbers] = {
        **dict(zip(METRICS, own.T, strict=True)),
        DEFINED: np.append(0, np.ones(len(rows), np.int64)),
    }
    every = list(range(1, len(names)))
    tree = Tree(names, parent, depths(parent), sums, _running(sums, every), part=np.full(len(names), -1))
    counts = np.array([len(one) for one in nodes])
    shown = [
        row
        for row in cut(names, every, options)
        if all(tree.total[name][row] >= getattr(options, f"min_{name}") for name in METRICS[1:])
        and counts[row] >= options.min_occurrence
        and is_named(names[row], options)
    ]
    if options.account_displayed_op_only:
        tree = replace(tree, total=_running(sums, shown))
    lines = [AnswerLine(names[row], 0, row) for row in shown]
    return Grown(tree, nodes, np.ones(len(names), bool)), Chosen(tree, lines)


def _running(own: dict[str, Numbers], rows: list[int]) -> dict[str, Numbers]:
    totals = {}
    for name, values in own.items():
        totals[name] = values.copy()
        totals[name][rows] = np.cumsum(values[rows][::-1])[::-1]
        totals[name][0] = totals[name][rows[0]] if rows else 0
    return totals
