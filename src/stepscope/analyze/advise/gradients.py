"""Work on gradients that no optimizer needs, and work whose result is known from before."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyze.advise.cause import Selection
from stepscope.analyze.advise.finding import Abstain, first, top
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.kineto import MODULE
from stepscope.trace.model import Kind, Trace, among

_DENSE = re.compile(r"^aten::embedding_dense_backward$")
_FILLS = re.compile(r"^aten::fill_$")
_ACCUMULATES = re.compile(r"^torch::autograd::AccumulateGrad$")
_ADDS = re.compile(r"^aten::add_$")
_STEPS = re.compile(r"^Optimizer\.step#")
_UNCOUNTED = re.compile(r"_foreach_|_fused_|^torch::autograd::AccumulateGrad$")
"""Operators that are given all parameters at once, and those of a backward pass that an optimizer calls."""
_CLEARS = re.compile(r"^Optimizer\.(?:step|zero_grad)#")
_DRAWS = re.compile(
    r"^aten::(?:rand|normal|uniform|bernoulli|multinomial|exponential|(?:native|_fused)_dropout)"
)
"""Operators that draw random numbers; ``aten::dropout`` alone does not, in an evaluation."""
_CHOOSES = re.compile(r"^aten::rand(?:int|perm)")
"""Draws by which rows of a data set are chosen: what is computed of a row may be known from before."""
_SAME_INPUTS = re.compile(r"^called with the same inputs again$")
"""The recorder's mark in the scope of a model that it saw called like the last time."""
_CALL = re.compile(r"(?:^|/)torch/nn/modules/module\.py\(\d+\): ")
HALF = 0.5
"""Share of the time of a gradient from which on most of it is filling with zeros; share of the steps that
run the same operators, from which on a step is like the others."""


def operators_of(waited: Waited) -> Ints:
    """Return the operators of the training thread in the steps."""
    if not len(waited.operators):
        raise Abstain("no operators of the training thread")
    return waited.operators_in_steps


def linked_of(trace: Trace, mine: Ints) -> Ints:
    """Return the operators of backward passes whose forward operators are known."""
    linked: Ints = mine[trace.forward[mine] >= 0]
    if not len(linked):
        raise Abstain("no links from the backward pass to the forward pass")
    return linked


def dense(waited: Waited) -> Selection | None:
    """Select the work on a gradient that is mostly zeros: filling it takes longer than computing it.

    Whatever else in the step takes at least half as long as filling it passes over the whole table, too.
    """
    trace, mine = waited.trace, operators_of(waited)
    made = mine[named(trace, _DENSE)[trace.name[mine]]]
    fills = mine[named(trace, _FILLS)[trace.name[mine]]]
    is_made = np.zeros(len(trace), bool)
    is_made[made] = True
    owner = trace.nearest(is_made)
    fills = fills[owner[fills] >= 0]
    filled = np.bincount(owner[fills], weights=trace.duration_ns[fills], minlength=len(trace))
    made = made[filled[made] >= HALF * trace.duration_ns[made]]
    if not len(made):
        return None
    least = HALF * np.median(filled[made])
    leaves = np.setdiff1d(mine, trace.parent[trace.parent >= 0])
    purpose = attribution(trace).purpose[leaves]
    passes = leaves[
        (trace.duration_ns[leaves] >= least) & ((purpose == Purpose.OPTIMIZER) | (owner[leaves] >= 0))
    ]
    spans = rows_spans(trace, np.union1d(made, passes))
    return Selection(spans, {"filled_ratio": float(filled[made].sum() / trace.duration_ns[made].sum())}, made)


def unused(waited: Waited) -> Selection | None:
    """Select the end of each backward pass after the last gradient that the optimizer then uses.

    A backward pass accumulates the gradient of a parameter once. An optimizer that calls operators for one
    parameter after the other calls most of them once for each: the number that most names have is the number
    of its parameters, the larger one of two. An optimizer's own gradients were cleared before, so that what
    is added to a gradient that is still there is for another one.
    """
    trace, mine = waited.trace, operators_of(waited)
    steps_of = (trace.lane == waited.lane) & named(trace, _STEPS)[trace.name]
    called = outermost(trace, np.flatnonzero(steps_of))
    adds = mine[named(trace, _ACCUMULATES)[trace.name[mine]]]
    if not len(called) or not len(adds):
        raise Abstain("no calls of an optimizer and of autograd that accumulate gradients")
    forward = np.sort(trace.start_ns[mine[attribution(trace).purpose[mine] == Purpose.FORWARD]])
    passes = _passes(trace, adds, np.sort(np.concatenate((forward, trace.start_ns[called]))))
    onto = np.isin(adds, trace.parent[mine[named(trace, _ADDS)[trace.name[mine]]]])
    spans, counts, edges = [], [], []
    for at, group in enumerate(passes):
        end = trace.end_ns[group[-1]]
        until = trace.start_ns[passes[at + 1][0]] if at + 1 < len(passes) else np.iinfo(np.int64).max
        steps = called[(trace.start_ns[called] >= end) & (trace.start_ns[called] < until)]
        updated = sum(_parameters(trace, mine, int(row)) for row in steps)
        if not len(steps) or not 0 < updated < len(group):
            continue
        fresh = group[~onto[np.searchsorted(adds, group)]]
        used = fresh if len(fresh) == updated else group[:updated] if len(fresh) == len(group) else group
        last = trace.end_ns[used[-1]]
        if last < end:
            spans.append(Spans.window(int(last), int(end)))
            counts.append((len(group), updated))
            edges.append(int(last))
    if not spans:
        return None
    computed, needed = np.median(counts, axis=0)
    return Selection(
        Spans.empty().union(*spans).intersect(waited.spans),
        {"gradients": int(computed), "updated": int(needed)},
        _linked_before(trace, mine, np.array(edges)),
        of_rows=True,
    )


def _passes(trace: Trace, adds: Ints, others: Ints) -> list[Ints]:
    """Return the accumulations of each backward pass: between two passes runs something else."""
    between = np.searchsorted(others, trace.start_ns[adds])
    cuts = [0, *(np.flatnonzero(np.diff(between)) + 1).tolist(), len(adds)]
    return [adds[first:last] for first, last in pairwise(cuts)]


def _parameters(trace: Trace, mine: Ints, call: int) -> int:
    """Return the number of parameters that a call of an optimizer updates, 0 if it is not known."""
    first, last = np.searchsorted(trace.start_ns[mine], (trace.start_ns[call], trace.end_ns[call]))
    within = mine[first:last]
    if named(trace, _UNCOUNTED)[trace.name[within]].any():
        return 0
    called = outermost(trace, within[within != call])
    _, counts = np.unique(trace.name[called], return_counts=True)
    many, names = np.unique(counts, return_counts=True)
    often = many[names == names.max()] if len(names) else many
    return int(often.max(initial=0)) if often.max(initial=0) > 1 else 0


def passed_again(waited: Waited) -> Selection | None:
    """Select what a backward pass computes that one before computed too, if their gradients are added up.

    Both passes go through the same operators of the forward pass, the second one adds to gradients that are
    there, and no optimizer uses or clears them in between: one pass of the sum of the losses gives the same.
    A gradient of a gradient passes them again because it has to.
    """
    trace, mine = waited.trace, operators_of(waited)
    nodes = outermost(trace, linked_of(trace, mine))
    ahead = trace.forward[nodes]
    cleared = named(trace, _CLEARS)[trace.name] & (trace.rank == waited.rank)
    bounds = np.sort(np.concatenate((trace.start_ns[cleared], waited.steps.start_ns)))
    part = np.searchsorted(bounds, trace.start_ns[nodes], side="right")
    is_node = np.zeros(len(trace), bool)
    is_node[nodes] = True
    second_order = np.isin(part, part[trace.nearest(is_node)[ahead] >= 0])
    _, key, counts = np.unique(np.stack((part, ahead)), axis=1, return_inverse=True, return_counts=True)
    key = key.ravel()
    again = np.ones(len(nodes), bool)
    again[np.unique(key, return_index=True)[1]] = False
    adds = mine[named(trace, _ACCUMULATES)[trace.name[mine]]]
    onto = adds[np.isin(adds, trace.parent[mine[named(trace, _ADDS)[trace.name[mine]]]])]
    added = np.searchsorted(bounds, trace.start_ns[onto], side="right")
    again &= ~second_order & np.isin(part, added)
    rows = nodes[again]
    if not len(rows):
        return None
    launch = waited.trace.launch[waited.device_rows]
    spans = rows_spans(trace, rows)
    gone = (launch >= 0) & spans.holds(trace.start_ns[np.maximum(launch, 0)])
    return Selection(
        spans.intersect(waited.spans),
        {"passes": int(np.median(counts[key[again]]))},
        rows,
        device=waited.device_rows[gone],
        line=first(waited.lines(spans)),
    )


def _linked_before(trace: Trace, mine: Ints, times: Ints) -> Ints:
    """Return the calls around the forward operators of the last backward operators before some times."""
    linked = mine[trace.forward[mine] >= 0]
    at = np.searchsorted(trace.start_ns[linked], times) - 1
    rows = trace.forward[linked[at[at >= 0]]].astype(np.int64)
    calls = among(Kind.HOST_OP, Kind.MODULE_SCOPE)
    while True:
        above = trace.parent[rows]
        outer = (above >= 0) & calls[trace.kind[above]]
        if not outer.any():
            return rows
        rows = np.where(outer, above, rows)


def repeated(waited: Waited) -> Selection | None:
    """Select the calls of a model that were given what its last call was given, and their backward passes.

    The recorder compares: a profile shows shapes alone. A call that draws random numbers has another result,
    and so may one after a backward pass or an optimizer: not every way to change weights counts as a change
    of their tensors.
    """
    trace = waited.trace
    if "modules" not in trace.recorded:
        raise Abstain("no scopes of modules, which hold whether a call is the same again")
    marks = np.flatnonzero((trace.lane == waited.lane) & named(trace, _SAME_INPUTS)[trace.name])
    calls = trace.parent[marks[trace.parent[marks] >= 0]].astype(np.int64)
    followed = () if waited.sampled is None else waited.sampled.samples.followed
    if not len(calls) or not all(one.stopped for one in followed):
        return None  # the values of calls tell more than those of models
    draws = trace.start_ns[waited.operators[named(trace, _DRAWS)[trace.name[waited.operators]]]]
    drawn = np.searchsorted(draws, trace.end_ns[calls]) - np.searchsorted(draws, trace.start_ns[calls])
    before = _last_calls(trace, calls)
    updates = np.isin(attribution(trace).purpose, (Purpose.BACKWARD, Purpose.OPTIMIZER))
    began = np.sort(trace.start_ns[updates & (trace.rank == waited.rank)])
    since = np.searchsorted(began, trace.start_ns[calls]) - np.searchsorted(began, trace.start_ns[before])
    calls = calls[(drawn == 0) & (before >= 0) & (since == 0)]
    scopes = rows_spans(trace, calls).intersect(waited.spans)
    if not len(scopes):
        return None
    spans, device = with_backward(waited, scopes)
    sampled = waited.sampled
    lines = [] if sampled is None else sampled.lines(scopes, around=lambda text: bool(_CALL.search(text)))
    names = [trace.name_of(row).removeprefix(MODULE) for row in calls.tolist()]
    return Selection(
        spans,
        {"model": max(set(names), key=names.count), "calls_per_step": len(calls) / waited.count},
        calls,
        device=device,
        line=replace(lines[0], calls="") if lines else None,
    )


def with_backward(waited: Waited, scopes: Spans) -> tuple[Spans, Ints]:
    """Return some time of the forward pass with its backward pass, and the work of devices for both."""
    trace = waited.trace
    linked = np.flatnonzero((trace.forward >= 0) & (trace.rank == waited.rank))
    ahead = trace.forward[linked]
    linked = linked[(trace.lane[ahead] == waited.lane) & scopes.holds(trace.start_ns[ahead])]
    launch = trace.launch[waited.device_rows]
    began = trace.start_ns[np.maximum(launch, 0)]
    gone = scopes.holds(began) | rows_spans(trace, linked).holds(began)
    # Between two operators that go, calling the next one goes, too.
    nodes = outermost(trace, waited.operators)
    at = np.searchsorted(
        trace.start_ns[nodes], trace.start_ns[linked[trace.lane[linked] == waited.lane]], "right"
    )
    goes = np.zeros(len(nodes), bool)
    goes[np.maximum(at - 1, 0)[at > 0]] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([0], goes.astype(np.int8), [0]))))
    backward = Spans.of(trace.start_ns[nodes[edges[::2]]], trace.end_ns[nodes[edges[1::2] - 1]])
    spans = scopes.union(backward).intersect(waited.spans)
    return spans, waited.device_rows[(launch >= 0) & gone]


def _last_calls(trace: Trace, calls: Ints) -> Ints:
    """Return the call of the same model before each call of one, -1 if the profile has none."""
    scopes = np.flatnonzero(trace.kind == Kind.MODULE_SCOPE)
    last = []
    for call in calls.tolist():
        same = scopes[(trace.name[scopes] == trace.name[call]) & (trace.lane[scopes] == trace.lane[call])]
        last.append(max(same[trace.end_ns[same] <= trace.start_ns[call]].tolist(), default=-1))
    return np.array(last, np.int64)


def without(waited: Waited) -> Selection | None:
    """Select operators of the forward pass that no gradient passes, if each step runs the same ones.

    Random numbers are new ones each time, and so is all that follows noise up to an operator that a gradient
    passes. Gradients are new, too: operators between a backward pass and the optimizer may read them. What
    loads data, or evaluates, is none of the forward pass.
    """
    trace, mine = waited.trace, operators_of(waited)
    linked = trace.forward[linked_of(trace, mine)]
    purpose = attribution(trace).purpose
    rows = outermost(trace, mine)
    start = trace.start_ns[rows]

    def holding(some: Ints) -> npt.NDArray[np.bool_]:
        held = np.zeros(len(rows), bool)
        held[np.maximum(np.searchsorted(start, trace.start_ns[some], side="right") - 1, 0)] = True
        return held

    draws, chooses = (named(trace, pattern)[trace.name[mine]] for pattern in (_DRAWS, _CHOOSES))
    busy = waited.activities.spans(waited.lane)
    free = ~holding(linked) & (purpose[rows] == Purpose.FORWARD)
    noise = np.cumsum(holding(mine[draws & ~chooses]))
    free &= noise == np.maximum.accumulate(np.where(free, 0, noise))
    free &= ~holding(mine[draws])
    free &= ~busy.holds(start)
    trains = np.flatnonzero(np.isin(purpose, (Purpose.BACKWARD, Purpose.OPTIMIZER)))
    trains = trains[np.argsort(trace.start_ns[trains], kind="stable")]
    passes = np.concatenate([[False], purpose[trains] == Purpose.BACKWARD, [False]])
    after = np.searchsorted(trace.start_ns[trains], start, side="right")
    free &= ~(passes[after] & ~passes[after + 1])
    rows = rows[free]
    step = np.searchsorted(waited.steps.start_ns, trace.start_ns[rows], side="right")
    names = [tuple(trace.name[rows[step == number]].tolist()) for number in range(1, len(waited.steps) + 1)]
    usual = max(set(names), key=names.count) if names else ()
    if not usual or names.count(usual) < HALF * len(names):
        return None
    first = top(trace, rows, trace.duration_ns[rows], count=1)[0]
    mostly = first[0] if first[1] >= HALF * trace.duration_ns[rows].sum() else ""
    evidence = {"operators_per_step": len(usual), "mostly": mostly}
    return Selection(rows_spans(trace, rows), evidence, rows)
