"""small-kernels and unfused-optimizer: a great many tiny pieces of work, each with an overhead."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.advise.cause import MADE, Cause
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts, lines_told, most_frequent
from stepscope.analyze.advise.host import SMALL_NS, optimizer_calls, optimizer_rows
from stepscope.analyze.advise.remedy import framework_of, show
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.model import Kind, Trace

ON_HOST = 0.1
"""Least gain on a host alone, as for other calls in place of which there is one: it costs something, too."""
COUNT_RATIO = 0.5
"""Share of tiny pieces by count from which on a step is one of tiny pieces."""
NEAR_NS = 20_000
"""Longest gap between operators that holds only the overhead of calling them. In loops of small ones of two
programs, at a load of 10 on two processors, half of the gaps were below 2 and 4 µs, 95 % below 10 and 24 µs.
"""
LOOKING_NS = 100_000
"""Longest time for which a look at a thread's stack holds it up: 20 to 50 µs were seen on a quiet machine."""
_AROUND = re.compile(r"^autograd::engine::evaluate_function: |^torch::autograd::|^\w+Backward\d*$")
_FUSED = re.compile(r"_fused_|_foreach_|multi_tensor_apply|FusedAdam|FusedSGD|fused_adam")

_ONE_CALL = re.compile(r"^aten::_fused_")
"""Operators that update all parameters of a group of an optimizer in one call."""


def _small(facts: Facts) -> list[Case | None]:
    """Replay the steps without kernels below 10 µs; on a host alone, without small operators."""
    trace, cases = facts.timeline, list[Case | None]()
    known = False
    for waited in facts.waited:
        rows = _pieces(trace, waited)
        known = known or len(rows) > 0
        short = trace.duration_ns[rows] < SMALL_NS
        if short.sum() < 2 * waited.count or short.mean() < COUNT_RATIO:
            continue
        cases.append(_worth_it(_case(trace, waited, rows, short)))
    if not known:
        raise Abstain("no kernels or operators inside the steps")
    return cases


def _worth_it(case: Case) -> Case | None:
    return case if case.waited.has_device or case.ratio >= ON_HOST else None


def _pieces(trace: Trace, waited: Waited) -> Ints:
    """Return kernels, else outermost operators of the main thread."""
    if waited.has_device:
        rows = waited.device_rows[trace.kind[waited.device_rows] == Kind.KERNEL]
    elif waited.lane < 0:
        return np.zeros(0, np.int64)
    else:
        rows = waited.operators
        rows = outermost(trace, rows[~_holds_others(trace, rows)])
        rows = rows[~waited.activities.spans(waited.lane).holds(trace.start_ns[rows])]
    inside: Ints = rows[waited.spans.holds(trace.start_ns[rows])]
    return inside


def _holds_others(trace: Trace, rows: Ints) -> Any:
    """Return bool[rows]: those of the backward pass that enclose an operator that they consist of."""
    holds, above = np.zeros(len(trace), bool), trace.parent[rows]
    holds[above[above >= 0]] = True
    return holds[rows] & named(trace, _AROUND)[trace.name[rows]]


def _case(trace: Trace, waited: Waited, rows: Ints, short: Any) -> Case:
    tiny = rows[short]
    evidence: dict[str, Any] = {
        "small_ratio": float(short.mean()),
        "small_time_ratio": float(trace.duration_ns[tiny].sum() / max(trace.duration_ns[rows].sum(), 1)),
        "per_step": len(rows) / waited.count,
        "median_ns": float(np.median(trace.duration_ns[rows])),
        "most": most_frequent(trace, tiny),
    }
    if waited.has_device:
        lines = waited.launching_lines(tiny)
        worth = waited.but_one(waited.worth(device=tiny), len(tiny))
        return Case(waited, worth, evidence, lines[0] if lines else None, tiny)
    calling, running = _calling(trace, tiny), rows_spans(trace, tiny)
    evidence |= {
        "operators_ns": round(running.measure_ns / waited.count),
        "between_ns": round(calling.minus(running).measure_ns / waited.count),
    }
    repeated = _repeated(trace, waited, rows)
    # A wait for a processor takes longer than any of the small pieces and gaps, so that none lies in them.
    steps = waited.steps
    alone = calling.minus(repeated.spans).within(steps.start_ns, steps.end_ns)
    inside = calling.intersect(repeated.spans).within(steps.start_ns, steps.end_ns)
    # What an optimizer does between its operators, for one tensor after the other, goes with them.
    updating = _updating(trace, waited).minus(calling.union(repeated.spans))
    parts = alone + np.maximum(inside, repeated.parts) + waited.own_parts(updating)
    calling = calling.union(repeated.spans, updating)
    worth = waited.worth(host={waited.lane: calling}, queued=False)
    worth = waited.but_one(worth, len(tiny), parts, calling)
    evidence |= {"repeated": repeated.times} if repeated.times else {}
    looked = None if waited.sampled is None else waited.sampled.samples.end_ns
    lines = waited.origin_lines(
        tiny, lambda some: _calling(trace, some, looked).union(repeated.of(trace, some))
    )
    loops = repeated.of(trace, tiny[attribution(trace).purpose[tiny] != Purpose.BACKWARD])
    if waited.sampled is not None and 2 * loops.measure_ns >= calling.measure_ns:
        # The line that loops is to be changed, not those that it calls.
        around = waited.sampled.around_all(loops)[:1]
        lines = [*around, *(one for one in lines if one.line not in {first.line for first in around})]
    evidence["lines"] = lines_told(lines, calling.measure_ns)
    return Case(waited, worth, evidence, lines[0] if lines else None, tiny, spans=calling)


def _updating(trace: Trace, waited: Waited) -> Spans:
    """Return the calls of an optimizer that updates tensor by tensor, without its large operators."""
    leaves = _leaves(trace, waited)
    if not len(leaves):
        return Spans.empty()
    large = leaves[trace.duration_ns[leaves] >= SMALL_NS]
    return rows_spans(trace, optimizer_calls(trace, waited)).minus(rows_spans(trace, large))


def _leaves(trace: Trace, waited: Waited) -> Ints:
    """Return the operators of an optimizer that call no others; none if one of them is fused, or if few."""
    inner = optimizer_rows(trace, waited)
    names = {trace.name_of(int(row)) for row in inner[np.unique(trace.name[inner], return_index=True)[1]]}
    leaves: Ints = inner[~np.isin(inner, trace.parent[inner])]
    return leaves[:0] if any(map(_FUSED.search, names)) or len(leaves) < 2 * waited.count else leaves


def _groups(trace: Trace, waited: Waited) -> Ints:
    """Return the operators of a fused optimizer, each of which updates a group; none if they are few."""
    inner = optimizer_rows(trace, waited)
    rows = outermost(trace, inner[named(trace, _ONE_CALL)[trace.name[inner]]])
    return rows if len(rows) >= 2 * waited.count else rows[:0]


def _calling(trace: Trace, tiny: Ints, looked: Ints | None = None) -> Spans:
    """Return the time of small operators and of the gaps between two that are near each other.

    Args:
        trace: The trace.
        tiny: The operators, in order of time.
        looked: When the thread's stack was looked at. An operator lets another thread in, and one that looks
            at stacks then keeps the next operator waiting: such gaps count as near as they would have been.
    """
    start, end = trace.start_ns[tiny], trace.end_ns[tiny]
    gap = start[1:] - end[:-1]
    near = gap < NEAR_NS
    if looked is not None:
        within = np.searchsorted(looked, start[1:]) > np.searchsorted(looked, end[:-1])
        near |= within & (gap < NEAR_NS + LOOKING_NS)
    return Spans.of(np.concatenate((start, end[:-1][near])), np.concatenate((end, start[1:][near])))


MIN_REPEATS = 3
"""Two pieces in a row that are alike may be two layers of a model, or chance."""
_GRAMS = (1, 4, 16)
"""Numbers of operators in a row by whose next occurrence the length of a loop's body is sought: a body holds
one operator several times, but hardly ever the same sixteen."""
_PRIME = np.uint64(0x100000001B3)
"""FNV's, by which a sequence of names becomes one number."""
_MOST_PERIODS = 4
"""Lengths of a body that are tried for each of these numbers, those first that explain most operators."""


@dataclass(frozen=True)
class Repeated:
    """The time in which the same operators run again and again.

    Attributes:
        spans: That time.
        parts: How much of each step it is, by the usual time of each operator and of the gap after it.
        times: How often the operators run in a row at most.
    """

    spans: Spans
    parts: Ints
    times: int

    def of(self, trace: Trace, rows: Ints) -> Spans:
        """Return the time of the loops that hold some of these operators, which are in order of time."""
        begun = trace.start_ns[rows]
        first, last = (np.searchsorted(begun, at) for at in (self.spans.start, self.spans.end))
        return Spans.of(self.spans.start[last > first], self.spans.end[last > first])


def _repeated(trace: Trace, waited: Waited, rows: Ints) -> Repeated:
    """Find the loops of the steps, by the names of their operators.

    One call for all elements takes the place of a loop with all that lies in it, unless most of it is
    something else than calling small operators: large ones, or much Python between two of them. An operator
    that calls others is as large as the largest of them: the rest is calling.

    Args:
        trace: The trace.
        waited: The rank.
        rows: The outermost operators in the steps, in order of time.
    """
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    large_ns = _large_ns(trace, waited, rows)
    step = np.searchsorted(waited.steps.start_ns, start, side="right") - 1
    stretches, parts, times = [], np.zeros(waited.count, np.int64), 0
    for number in range(waited.count):
        mine = np.flatnonzero(step == number)
        for first, period, count in _loops(trace.name[rows[mine]]):
            at = mine[first : first + period * count]
            work = _usual(end[at] - start[at], count)
            gaps = _usual(np.append(start[at[1:]], end[at[-1]]) - end[at], count)
            usual = work.sum() + gaps.sum()
            # Of a long gap, so much is what calling the next operator takes anyway.
            other = _usual(large_ns[at], count).sum() + np.maximum(gaps - NEAR_NS, 0).sum()
            if 2 * other <= usual:
                stretches.append((int(start[at[0]]), int(end[at[-1]])))
                parts[number] += round(count * usual)
                times = max(times, count)
    if not stretches:
        return Repeated(Spans.empty(), parts, 0)
    begins, ends = np.array(stretches, np.int64).T
    return Repeated(Spans.of(begins, ends), parts, times)


def _large_ns(trace: Trace, waited: Waited, rows: Ints) -> Ints:
    """Return for how long each operator ran large ones: those that take long without what they call."""
    inner = waited.operators
    large = inner[trace.self_ns[inner] >= SMALL_NS]
    at = np.searchsorted(trace.start_ns[rows], trace.start_ns[large], side="right") - 1
    within = (at >= 0) & (trace.start_ns[large] < trace.end_ns[rows[at]])
    total = np.bincount(at[within], weights=trace.self_ns[large[within]], minlength=len(rows))
    return total.astype(np.int64)


_NOT_HELD_UP = 0.9
"""Share of the repeats, the shorter ones, that tell how long one usually takes: in the others the machine may
have held something up, such as a thread that waited for a processor."""


def _usual(times: Ints, count: int) -> npt.NDArray[np.float64]:
    """Return how long each part of a loop's body usually takes, of so many repeats one after the other."""
    ordered = np.sort(times.reshape(count, -1), axis=0)
    return np.asarray(ordered[: int(_NOT_HELD_UP * count)].mean(axis=0))


def _loops(names: Ints) -> list[tuple[int, int, int]]:
    """Return begin, length of the body and number of repeats of loops that do not overlap, longest first."""
    runs = [
        (last - first + period, first, period)
        for period in _periods(names)
        for first, last in _runs(names[period:] == names[:-period])
        if last - first >= (MIN_REPEATS - 1) * period
    ]
    taken, loops = np.zeros(len(names), bool), []
    for length, first, period in sorted(runs, key=lambda run: (-run[0], run[2])):
        if not taken[first : first + length].any():
            taken[first : first + length] = True
            loops.append((first, period, length // period))
    return loops


def _periods(names: Ints) -> list[int]:
    """Return how far apart most sequences of operators are from the next of their kind."""
    periods: dict[int, None] = {}
    for length in _GRAMS:
        if len(names) <= length:
            break
        kind = np.zeros(len(names) - length + 1, np.uint64)
        for at in range(length):
            kind = kind * _PRIME + names[at : at + len(kind)].astype(np.uint64)
        order = np.argsort(kind, kind="stable")
        apart = np.diff(order)[np.diff(kind[order]) == 0]
        far, count = np.unique(apart, return_counts=True)
        most = far[np.argsort(-count, kind="stable")[:_MOST_PERIODS]]
        periods |= dict.fromkeys(most.tolist())
    return list(periods)


def _runs(same: Any) -> list[tuple[int, int]]:
    """Return begin and end of each stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _say(case: Case) -> str:
    what = "kernels" if case.waited.has_device else "operators"
    count = case.evidence["per_step"]
    unit = "a step" if case.waited.marked else "in all"
    between = "" if case.waited.has_device else " with what lies between them"
    text = (
        f"{count:,.0f} {what} {unit}, {case.evidence['small_ratio']:.0%} of them shorter than 10 µs, take "
        f"{case.cost_text}{between}{case.where}"
    )
    times = case.evidence.get("repeated", 0)
    in_a_row = f"; the same ones run up to {times:,} times in a row" if times else ""
    return f"{text}{in_a_row}"


SMALL = Cause(
    rule="small-kernels",
    width=2,
    cases=_small,
    say=_say,
    remedies={
        "torch": "fuse them: torch.compile, operations on whole tensors instead of loops over elements, "
        "larger batches",
        "jax": "put them under one jax.jit, use jax.vmap or jax.lax.scan instead of Python loops, larger "
        "batches",
        "tensorflow": "fuse them with XLA: tf.function(jit_compile=True), of a session "
        "TF_XLA_FLAGS='--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit' in its environment; larger batches",
        "": "fuse them: one compiled function, operations on whole tensors, larger batches",
    },
    command=lambda facts, case: show(facts, "kernel" if case.waited.has_device else "op", order="occurrence"),
    limits={"small_ratio": COUNT_RATIO},
    withdrawn="fewer than half are shorter than 10 µs, or the steps with one in place of these would not be "
    f"{WORTH:.0%} shorter",
    sure=lambda case: case.waited.has_device,  # else one operator in place of many may save nothing
)


def _optimizer(facts: Facts) -> list[Case | None]:
    """Replay the steps without the optimizer's operators, if it updates parameter by parameter."""
    trace, cases, seen = facts.timeline, list[Case | None](), False
    for waited in facts.waited:
        if waited.lane < 0:
            continue
        rows, leaves = optimizer_calls(trace, waited), _leaves(trace, waited)
        seen, groups = seen or len(rows) > 0, _groups(trace, waited)
        leaves = leaves if len(leaves) else groups
        if not len(leaves):
            continue
        spans = rows_spans(trace, rows)
        launch = trace.launch[waited.device_rows]
        called = (trace.lane[launch] == waited.lane) & (trace.kind[launch] == Kind.RUNTIME_CALL)
        work = waited.device_rows[(launch >= 0) & called & spans.holds(trace.start_ns[launch])]
        # A fused operator still does the work of the large ones: it saves calls.
        large = leaves[trace.duration_ns[leaves] >= SMALL_NS]
        calls = spans if len(work) else spans.minus(rows_spans(trace, large))
        whole = waited.worth(host={waited.lane: calls}, device=work if len(work) else None)
        worth = waited.but_one(whole, len(leaves), waited.own_parts(calls))
        # Its own work on the device is hidden by nothing else that it does: it costs what goes without it.
        worth = replace(worth, cost_ns=max(worth.cost_ns, worth.gain_ns))
        evidence = {
            "operators_per_step": len(leaves) / waited.count,
            "optimizer_ns": round(spans.measure_ns / waited.count),
            "most": most_frequent(trace, leaves),
        }
        if len(groups):
            evidence["groups"] = round(len(groups) / waited.count)
        lines = waited.lines(spans)
        of_line = lines[0] if lines else None
        cases.append(_worth_it(Case(waited, worth, evidence, of_line, leaves, spans=spans)))
    if not seen:
        raise Abstain("nothing in the profile shows the optimizer")
    return cases


def _optimizer_remedies(facts: Facts, case: Case) -> str:
    if "groups" in case.evidence:
        return "put parameters with the same settings into one parameter group"
    return {
        "torch": "torch.optim.…(…, fused=True), or foreach=True; a fused optimizer still takes part of this "
        "time",
        "tensorflow": "update all parameters in one compiled function: tf.function(jit_compile=True) around "
        "apply_gradients",
    }.get(framework_of(facts.timeline), "update all parameters in one compiled function")


OPTIMIZER = Cause(
    rule="unfused-optimizer",
    width=1,
    cases=_optimizer,
    say=lambda case: (
        (
            f"the fused optimizer is called {case.evidence['groups']:,} times a step, once for each "
            f"parameter group, for {case.cost}"
        )
        if "groups" in case.evidence
        else (
            "the optimizer updates parameter by parameter, "
            f"{case.evidence['operators_per_step']:,.0f} operators "
            f"{'a step' if case.waited.marked else 'in all'}, for {case.cost}"
        )
    ),
    made=MADE,
    remedies=_optimizer_remedies,
    command=lambda facts, case: show(facts, "op", order="occurrence"),
    withdrawn="one of its operators is foreach, or fused and called once, or the steps with one operator in "
    f"place of these would not be {WORTH:.0%} shorter",
    # Without a device one operator in place of many may save nothing; groups may need settings of their own.
    sure=lambda case: case.waited.has_device and "groups" not in case.evidence,
)
