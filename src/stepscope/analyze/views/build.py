"""The tree of each view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stepscope.analyze.views.dataflow import dataflow
from stepscope.analyze.views.measure import (
    Bools,
    Ints,
    Measures,
    Stretches,
    begins_call,
    names_of,
    owners,
    paths,
)
from stepscope.analyze.views.tree import Tree, below_added, grow
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.trace.distinct import numbered
from stepscope.trace.model import Kind, Trace, among

ROOT = "(all)"

GRAPH_FORMATS = ("timeline", "step_stats", "tfprof")
"""Formats whose events are nodes of a TensorFlow graph."""

Builder = Callable[[Trace, Measures, "Bools | None"], Tree]

_NOT_OPERATORS = (Kind.PYTHON_FRAME, Kind.MODULE_SCOPE, Kind.STEP, Kind.OVERHEAD)


def scope_tree(trace: Trace, measures: Measures, keep: Bools | None) -> Tree:
    """Module scopes, and in each the operators that ran in it; device work counts at its launch.

    If no module was recorded, annotations are the scopes.
    """
    if (trace.scope >= 0).any():
        scope: Ints = trace.scope + 1
        parents: Ints = np.concatenate([[-1], trace.scopes.parent + 1]).astype(np.int32)
        names = [ROOT, *trace.scopes.texts()]
        if trace.format in GRAPH_FORMATS:
            # There the scopes end in the node itself, which is the leaf.
            return grow(trace, measures, scope, parents, names, called=measures.device_ns == 0, keep=keep)
    else:
        named = among(Kind.ANNOTATION, Kind.MODULE_SCOPE)[trace.kind]
        scope, parents, last = paths(trace, measures, named=named)
        names = _path_names(trace, parents, last)
    owner = owners(trace, measures)
    inside = ~among(Kind.ANNOTATION, Kind.MODULE_SCOPE, *_NOT_OPERATORS)[trace.kind]
    node, parent, leaves = _leaves(trace, scope, names_of(trace, owner, label=False), inside, parents)
    first = len(names)
    for above, leaf in zip(parent[first:].tolist(), leaves, strict=True):
        names.append(f"{names[above]}/{leaf}" if above else leaf)
    called = begins_call(trace, owner)
    return grow(trace, measures, node, parent, names, called=called, keep=keep)


def _loaders(trace: Trace) -> Ints:
    """Return for each event the outermost loading at or above it on its thread, -1 for none."""
    loading = (trace.kind == Kind.DATA_LOADING) & (trace.device < 0)
    owner = np.full(len(trace), -1, np.int32)
    if not loading.any():
        return owner
    rows = np.flatnonzero(trace.outermost(np.where(loading, 0, -1)))
    owner[rows] = rows
    tree.inherit(np.ascontiguousarray(trace.parent, np.int32), owner)
    return owner


def _leaves(
    trace: Trace, scope: Ints, name: Ints, inside: Bools, parents: Ints
) -> tuple[Ints, Ints, list[str]]:
    """Hang one leaf per (scope, name) below the scopes; events not ``inside`` stay at their scope."""
    strings = max(len(trace.strings), 1)
    pairs = scope[inside].astype(np.int64) * strings + name[inside]
    keys, inverse = numbered(pairs)
    node = scope.astype(np.int32)
    node[inside] = len(parents) + inverse
    parent = np.concatenate([parents, (keys // strings).astype(np.int32)])
    texts = trace.strings.texts()
    return node, parent, [texts[number] for number in (keys % strings).tolist()]


def _path_names(trace: Trace, parents: Ints, last: Ints) -> list[str]:
    texts, names = trace.strings.texts(), [ROOT]
    for above, number in zip(parents[1:].tolist(), last[1:].tolist(), strict=True):
        names.append(f"{names[above]}/{texts[number]}" if above else texts[number])
    return names


def graph_tree(trace: Trace, measures: Measures, keep: Bools | None) -> Tree:
    """Build the tree of calls: operators, their inner calls, and the device work that they launched.

    If events are nodes of a graph and the arrows between them are known, each node above its inputs.
    """
    if trace.format in GRAPH_FORMATS and len(trace.flows):
        node, parent, nodes = dataflow(trace)
        called = measures.device_ns == 0
        return grow(trace, measures, node, parent, [ROOT, *nodes], called=called, keep=keep)
    named = ~among(Kind.PYTHON_FRAME, Kind.STEP, Kind.OVERHEAD)[trace.kind]
    path, parent, last = paths(trace, measures, named=named)
    texts = trace.strings.texts()
    names = [ROOT, *(texts[number] for number in last[1:].tolist())]
    return grow(trace, measures, path, parent, names, called=named, keep=keep)


def operation_names(trace: Trace, owner: Ints) -> Ints:
    """Return for each event the name of the operation that a step's time in it counts for, -1 for a frame's.

    A step's time in loading is the loader's, whatever operators do the work in it.
    """
    loader = _loaders(trace)
    own = np.where(among(*_NOT_OPERATORS)[trace.kind], -1, names_of(trace, owner))
    return np.where(loader >= 0, trace.name[np.maximum(loader, 0)], own)


def op_tree(trace: Trace, measures: Measures, keep: Bools | None) -> Tree:
    """One row per operator name: its own time, and the device work that it launched itself."""
    owner = owners(trace, measures)
    names = names_of(trace, owner)
    counted = ~among(*_NOT_OPERATORS)[trace.kind]
    # An operator that the dispatcher hands on to itself is one call.
    again = (trace.parent >= 0) & (names[trace.parent] == names) & (trace.kind == Kind.HOST_OP)
    called = begins_call(trace, owner) & ~(again & (trace.kind[trace.parent] == Kind.HOST_OP))
    spent = operation_names(trace, owner)
    return _flat(trace, measures, np.where(counted, names, -1), called=called, keep=keep, spent=spent)


def kernel_tree(trace: Trace, measures: Measures, keep: Bools | None) -> Tree:
    """One row per name of device work.

    Raises:
        EmptyTraceError: No device was recorded.
    """
    trace.require("device", "which kernels ran")
    working = measures.device_ns > 0
    node = np.where(working, trace.name, -1)
    return _flat(trace, replace(measures, stretches=None), node, called=working, keep=keep)


def _flat(
    trace: Trace,
    measures: Measures,
    name: Ints,
    *,
    called: Bools,
    keep: Bools | None,
    spent: Ints | None = None,
) -> Tree:
    used = np.zeros(len(trace.strings) + 1, bool)
    used[name[name >= 0]] = True
    if spent is not None:
        used[spent[spent >= 0]] = True
    numbers = np.flatnonzero(used)
    place = np.cumsum(used).astype(np.int32)  # the first used name is node 1, for 0 is the root
    texts = trace.strings.texts()
    parent = np.concatenate([[-1], np.zeros(len(numbers))]).astype(np.int32)
    node = np.where(name >= 0, place[name], -1)
    step_node = None if spent is None else np.where(spent >= 0, place[spent], -1)
    names = [ROOT, *(texts[i] for i in numbers)]
    return grow(trace, measures, node, parent, names, called=called, keep=keep, step_node=step_node)


def code_tree(trace: Trace, measures: Measures, keep: Bools | None) -> Tree:
    """Python frames, outermost first; device work counts at its launch.

    Raises:
        EmptyTraceError: No Python stack was recorded.
    """
    if not (trace.stack >= 0).any():
        trace.require("stacks", "which line of code the time belongs to")
        raise EmptyTraceError("no event carries a Python stack", hint="profile with with_stack=True")
    launched = np.where(trace.launch >= 0, trace.stack[trace.launch], -1)
    stack = np.where(trace.stack >= 0, trace.stack, launched)
    parent: Ints = np.concatenate([[-1], trace.stacks.parent + 1]).astype(np.int32)
    texts = trace.stacks.strings
    names = [ROOT, *(texts[number] for number in trace.stacks.name.tolist())]
    node: Ints = stack + 1
    if measures.part is not None and measures.stretches is not None:
        node, parent = _within_the_loop(node, parent, measures.stretches)
    return grow(trace, measures, node, parent, names, called=measures.device_ns == 0, keep=keep)


def _within_the_loop(node: Ints, parent: Ints, stretches: Stretches) -> tuple[Ints, Ints]:
    """Return nodes and parents without the frames around all of the steps' time.

    The innermost of these, the loop, keeps its own time; what it calls stands beside it.
    """
    at = node[stretches.row]
    total = below_added(
        np.bincount(at, weights=stretches.length_ns * (at > 0), minlength=len(parent)), parent
    )
    around = np.flatnonzero((total == total[0]) & (total > 0))[1:]
    if not len(around):
        return node, parent
    loop, above = around[-1], parent.copy()
    above[(parent == loop) | (np.arange(len(parent)) == loop)] = 0
    return np.where(np.isin(node, around), loop, node), above


BUILDERS: dict[str, Builder] = {
    "scope": scope_tree,
    "graph": graph_tree,
    "op": op_tree,
    "code": code_tree,
    "kernel": kernel_tree,
}


def opening(trace: Trace) -> str:
    """Return the view of a trace that says most: its code, else its modules, else its operators."""
    if (trace.stack >= 0).any():
        return "code"
    scoped = (trace.scope >= 0).any() or (trace.kind == Kind.ANNOTATION).any()
    return "scope" if scoped else "op"


FLAT = ("op", "kernel")
