"""Causes as rows, and one engine: a row selects time, says when, and has its sentence and remedies.

The engine does the rest for every row: the gain by replay without the selected time, its lines, and the
worst rank. A row never computes a gain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import (
    WORTH,
    Abstain,
    Case,
    Check,
    Facts,
    Finding,
    events_of,
    judged,
    lines_told,
    place_of,
)
from stepscope.analyze.advise.remedy import framework_of, open_line, with_line
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.windows import NO_STEP
from stepscope.kernels import tree
from stepscope.trace.model import Kind


@dataclass(frozen=True)
class Selection:
    """The time of a rank that a cause accounts for.

    Attributes:
        spans: Time of the training thread that the mend would take away.
        evidence: Numbers and names for the sentence, JSON types.
        rows: The events behind it.
    """

    spans: Spans
    evidence: dict[str, Any] = field(default_factory=dict)
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class Cause:
    """One row of the table.

    Attributes:
        rule: Its id.
        select: Returns its time on one rank, None if it is not there. Without the data it raises
            :class:`Abstain`.
        say: The sentence's begin, up to its cost.
        remedies: By framework; "" for any other.
        withdrawn: The condition under which it would no longer be reported.
        limits: Limits that the evidence passed.
        always: It is worth a word even if its time is not in the profile.
    """

    rule: str
    select: Callable[[Waited], Selection | None]
    say: Callable[[Mapping[str, Any]], str]
    remedies: Mapping[str, str] | Callable[[Mapping[str, Any]], str]
    withdrawn: str
    limits: Mapping[str, float] = field(default_factory=dict)
    always: bool = False

    def remedy(self, facts: Facts, evidence: Mapping[str, Any]) -> str:
        """Return what to do, in terms of the program's framework."""
        if callable(self.remedies):
            return self.remedies(evidence)
        return self.remedies.get(framework_of(facts.timeline), self.remedies.get("", ""))


def check_of(cause: Cause) -> Check:
    """Return the check of a row: its selection on every rank, replayed without it."""

    def check(facts: Facts) -> Iterator[Finding]:
        cases, missing = [], []
        for waited in facts.waited:
            try:
                selected = cause.select(waited)
            except Abstain as lacks:
                missing.append(lacks)
                continue
            cases.append(None if selected is None else _case(waited, selected))
        if missing and not cases:
            raise missing[0]
        said = list(judged(
            cause.rule,
            cases,
            of=len(facts.waited),
            say=lambda case: f"{cause.say(case.evidence)} {case.cost_text}{case.where}; {case.free_text}",
            action=lambda case: with_line(facts, case, cause.remedy(facts, case.evidence)),
            command=lambda case: open_line(facts, case),
            least=WORTH,
            withdrawn=cause.withdrawn,
            limits=cause.limits,
        ))  # fmt: skip
        unseen = next((case for case in cases if case is not None and cause.always and not said), None)
        yield from said if unseen is None else (_unmeasured(cause, facts, unseen),)

    check.__doc__ = f"Replay the steps without the time of {cause.rule}."
    return check


def _case(waited: Waited, selected: Selection) -> Case:
    worth = waited.worth(host={waited.lane: selected.spans})
    lines = waited.origin_lines(selected.rows, lambda rows: rows_spans(waited.trace, rows))
    lines = lines or waited.lines(selected.spans)
    evidence = {**selected.evidence, "lines": lines_told(lines, selected.spans.measure_ns)}
    return Case(waited, worth, evidence, lines[0] if lines else None, selected.rows)


def _unmeasured(cause: Cause, facts: Facts, case: Case) -> Finding:
    return Finding(
        cause.rule,
        "info",
        f"{cause.say(case.evidence).removesuffix(', for')}; its cost is not in the profile",
        {**case.evidence, "rank": case.waited.rank},
        {},
        cause.remedy(facts, case.evidence),
        place=place_of(case.waited, None),
        events=events_of(case.waited.trace, case.waited.step_rows),
        command=open_line(facts, case),
        withdrawn=cause.withdrawn,
    )


# --- what was left on ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOn:
    """A setting for debugging, and its time in a profile.

    Attributes:
        setting: Its name in ``capture.settings``.
        say: What it is.
        off: How it is switched off.
        frames: Frames of its own, searched for in sampled stacks.
        operators: Operators that it adds.
    """

    setting: str
    say: str
    off: str
    frames: re.Pattern[str] | None = None
    operators: re.Pattern[str] | None = None


LEFT_ON = (
    LeftOn(
        "torch.detect_anomaly",
        "anomaly detection is on",
        "switch it off: torch.autograd.set_detect_anomaly(False); it is for finding where a nan comes from",
        re.compile(r"(?:^|/)traceback\.py\(\d+\): (?:format|extract)_stack$"),
        re.compile(r"^aten::(?:isnan|_is_any_true|is_nonzero|any)$"),
    ),
    LeftOn(
        "jax_disable_jit",
        "jax.jit is switched off",
        "switch it on: jax.config.update('jax_disable_jit', False)",
        re.compile(r"(?:^|/)jax/_src/(?:core|dispatch|api|pjit|interpreters/\w+)\.py\(\d+\): "),
    ),
    LeftOn(
        "jax_debug_nans",
        "the search for nan is on",
        "switch it off: jax.config.update('jax_debug_nans', False)",
        re.compile(r"(?:^|/)jax/_src/\S+\.py\(\d+\): _?check_\w*special$"),
    ),
    LeftOn(
        "tensorflow.run_functions_eagerly",
        "tf.function is switched off",
        "switch it on: tf.config.run_functions_eagerly(False)",
        re.compile(r"(?:^|/)tensorflow/python/(?:eager|framework|ops)/\S+\.py\(\d+\): "),
    ),
    LeftOn(
        "python.tracemalloc",
        "tracemalloc is on",
        "switch it off: tracemalloc.stop(), or unset PYTHONTRACEMALLOC",
    ),
)  # fmt: skip


def left_on(one: LeftOn) -> Callable[[Waited], Selection | None]:
    """Return the selection of a setting: its frames in sampled stacks, and the operators that it adds."""

    def select(waited: Waited) -> Selection | None:
        sampled, trace = waited.sampled, waited.trace
        if sampled is None or not sampled.samples.settings:
            raise Abstain("the program's settings were not recorded")
        if not sampled.samples.settings.get(one.setting):
            return None
        spans = Spans.empty()
        rows: Ints = np.zeros(0, np.int64)
        if one.frames is not None:
            mine = one.frames
            spans = sampled.where_stack(sampled.of_frames(lambda text: 0 if mine.search(text) else -1) == 0)
        if one.operators is not None:
            added = (trace.lane == waited.lane) & (trace.kind == Kind.HOST_OP)
            rows = outermost(trace, np.flatnonzero(added & named(trace, one.operators)[trace.name]))
            spans = spans.union(rows_spans(trace, rows))
        return Selection(spans.intersect(waited.spans), {"setting": one.setting})

    return select


# --- precision -----------------------------------------------------------------------------------------


def double_precision(waited: Waited) -> Selection | None:
    """Select half of the time of operators if the program computes in 64 bit by a setting of its own."""
    sampled, trace = waited.sampled, waited.trace
    if sampled is None or not sampled.samples.settings:
        raise Abstain("the program's settings were not recorded")
    settings = sampled.samples.settings
    setting = next(
        (name for name, value in (("jax_enable_x64", True), ("torch.default_dtype", "float64"))
         if settings.get(name) == value), "",
    )  # fmt: skip
    if not setting:
        return None
    if len(waited.executing):
        ran = waited.executing.intersect(waited.spans)
    else:
        mine = np.flatnonzero((trace.lane == waited.lane) & (trace.kind == Kind.HOST_OP))
        ran = rows_spans(trace, outermost(trace, mine)).intersect(waited.spans)
    # Numbers of half the size take half the memory and half the vector instructions.
    half = Spans.of(ran.start, ran.start + (ran.end - ran.start) // 2)
    return Selection(half, {"setting": setting})


# --- gradients -----------------------------------------------------------------------------------------

_DENSE = re.compile(r"^aten::embedding_dense_backward$")
_FILLS = re.compile(r"^aten::fill_$")


def dense_gradient(waited: Waited) -> Selection | None:
    """Select the work on a gradient that is mostly zeros: filling it takes longer than computing it.

    Whatever else in the step takes at least half as long as filling it passes over the whole table, too.
    """
    trace = waited.trace
    mine = (trace.lane == waited.lane) & (trace.kind == Kind.HOST_OP)
    if not mine.any():
        raise Abstain("no operators of the training thread")
    inside = waited.spans.within(trace.start_ns, trace.start_ns + 1) > 0
    made = np.flatnonzero(mine & inside & named(trace, _DENSE)[trace.name])
    fills = np.flatnonzero(mine & inside & named(trace, _FILLS)[trace.name])
    owner = np.empty(len(trace), np.int32)
    is_made = np.zeros(len(trace), np.uint8)
    is_made[made] = 1
    tree.nearest(np.ascontiguousarray(trace.parent, np.int32), is_made, owner)
    fills = fills[owner[fills] >= 0]
    filled = np.bincount(owner[fills], weights=trace.duration_ns[fills], minlength=len(trace))
    made = made[filled[made] >= HALF * trace.duration_ns[made]]
    if not len(made):
        return None
    least = HALF * np.median(filled[made])
    leaves = np.setdiff1d(np.flatnonzero(mine & inside), trace.parent[trace.parent >= 0])
    purpose = attribution(trace).purpose[leaves]
    passes = leaves[
        (trace.duration_ns[leaves] >= least) & ((purpose == Purpose.OPTIMIZER) | (owner[leaves] >= 0))
    ]
    spans = rows_spans(trace, np.union1d(made, passes))
    return Selection(
        spans,
        {"filled_ratio": float(filled[made].sum() / trace.duration_ns[made].sum())},
        made,
    )


HALF = 0.5
"""Share of the time of a gradient from which on most of it is filling with zeros."""


# --- growth --------------------------------------------------------------------------------------------


def growing(waited: Waited) -> Selection | None:
    """Select the time of the operators that each later capture has more than the first one."""
    trace, steps = waited.trace, waited.every_step
    if waited.lane < 0 or (steps.number == NO_STEP).any():
        raise Abstain("no marked steps")
    first = np.flatnonzero(np.concatenate(([True], np.diff(steps.number) > 1)))
    if len(first) < 3:
        raise Abstain("fewer than three captures of one run")
    rows = np.flatnonzero((trace.lane == waited.lane) & (trace.kind == Kind.HOST_OP))
    at = np.searchsorted(steps.start_ns, trace.start_ns[rows], side="right") - 1
    inside = (at >= 0) & (trace.start_ns[rows] < steps.end_ns[np.maximum(at, 0)])
    rows, at = rows[inside], at[inside]
    count = np.bincount(at, minlength=len(steps))
    low, high = np.minimum.reduceat(count, first), np.maximum.reduceat(count, first)
    # Every step of a capture has more than every step of the one before: not a mix of two kinds of steps.
    if not (low[1:] > high[:-1]).all() or not low[0]:
        return None
    spans = []
    for begin, end in zip(steps.start_ns, steps.end_ns, strict=True):
        mine = rows[(trace.start_ns[rows] >= begin) & (trace.start_ns[rows] < end)]
        spans.append(rows_spans(trace, mine[high[0] :]))
    return Selection(
        Spans.empty().union(*spans).intersect(waited.spans),
        {
            "captures": [
                {"name": f"step {int(number)}", "operators": int(many)}
                for number, many in zip(steps.number[first], count[first], strict=True)
            ]
        },
    )


def _grown(evidence: Mapping[str, Any]) -> str:
    captures = evidence["captures"]
    numbers = ", ".join(f"{one['operators']:,} at {one['name']}" for one in captures)
    return f"each capture has more operators a step than the one before ({numbers}); the added ones take"


# --- the table -----------------------------------------------------------------------------------------

CAUSES: tuple[Cause, ...] = (
    *(
        Cause(
            "debug-setting",
            left_on(one),
            lambda evidence, one=one: f"{one.say} ({one.setting}), for",  # type: ignore[misc]
            {"": one.off},
            "it is switched off",
            always=True,
        )
        for one in LEFT_ON
    ),
    Cause(
        "double-precision",
        double_precision,
        lambda evidence: (
            f"the program computes in float64 ({evidence['setting']}); at half the work it saves"
        ),
        {
            "jax": "leave jax_enable_x64 off, or give arrays dtype=jnp.float32 where 64 bit are not needed",
            "torch": "leave torch.set_default_dtype at float32, or convert model and data with .float()",
            "": "compute in float32",
        },
        f"it computes in 32 bit, or the steps at half the work would not be {WORTH:.0%} shorter",
    ),
    Cause(
        "dense-gradient",
        dense_gradient,
        lambda evidence: (
            "the gradient of an embedding is dense and mostly zeros; filling and applying it takes"
        ),
        {
            "torch": "ask for sparse gradients: nn.Embedding(…, sparse=True) with SGD, SparseAdam or Adagrad",
            "": "use sparse gradients",
        },
        f"most of the gradient is computed, not filled with zeros, or the steps without it would not be "
        f"{WORTH:.0%} shorter",
        {"filled_ratio": HALF},
    ),
    Cause(
        "growing-steps",
        growing,
        _grown,
        {
            "torch": "look for a graph, list or hook that each step adds to: .detach() losses and states "
            "that are kept, clear lists, remove hooks",
            "": "look for a list, hook or graph that each step adds to",
        },
        "a later capture has no more operators a step than an earlier one",
    ),
)
"""Every cause that is a row, by its id."""


def check_rows(rule: str) -> Check:
    """Return the check of all rows of one rule."""
    checks = [check_of(cause) for cause in CAUSES if cause.rule == rule]

    def check(facts: Facts) -> Iterator[Finding]:
        for one in checks:
            yield from one(facts)

    return check


__all__ = ["CAUSES", "Cause", "Selection", "check_rows"]
