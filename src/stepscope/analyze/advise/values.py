"""Work that was needless, as the values of two steps after a capture tell.

The recorder numbers the calls of PyTorch in the second of these steps, which no other rule looks at. A step
of the profile runs the same operators, so that those of a call are known in it, with their backward pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.analyze.advise.cause import Cause, Selection, on_each
from stepscope.analyze.advise.finding import WORTH, Abstain, Case
from stepscope.analyze.advise.gradients import with_backward
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.analyze.operators import FOLLOWED_STEP, RECORDERS
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.origin import line_of
from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.model import Kind
from stepscope.trace.sampled import Followed, Needless

_ONE_HOT, _SPARSE = "one number a row", 0.99
_VALUE = "stepscope value "
_CALLS = re.compile(r"^stepscope value \d+$")
_OWN = re.compile(r"^stepscope values$")


def selected(*kinds: str) -> Callable[[Waited], Selection | None]:
    """Return the selection of the calls of which some kind of fact is known."""

    def select(waited: Waited) -> Selection | None:
        sampled = waited.sampled
        every = () if sampled is None else sampled.samples.followed
        if sampled is None or all(one.stopped for one in every):
            why = f": {every[-1].stopped}" if every else ""
            raise Abstain(f"the values of no step were followed{why}")
        best: dict[tuple[str, str], list[tuple[int, Needless, Spans]]] = {}
        spans = []
        for followed in every:
            wanted = [fact for fact in followed.facts if fact.kind in kinds]
            if not wanted:
                continue
            step = _Step(waited, followed)
            for fact in wanted:
                mine = step.calls(fact)
                if len(mine):
                    spans.append(mine)
                    best.setdefault((fact.line, fact.other), []).append((mine.measure_ns, fact, mine))
        if not best:
            return None
        facts = max(best.values(), key=lambda some: sum(time_ns for time_ns, *_ in some))
        fact = max(facts, key=lambda one: one[0])[1]
        whole = Spans.empty().union(*spans)
        scopes, device = with_backward(waited, whole)
        ratio = sum(time_ns * one.ratio for some in best.values() for time_ns, one, _ in some) / max(
            sum(time_ns for some in best.values() for time_ns, *_ in some), 1
        )
        scopes = Spans.of(
            scopes.start, scopes.start + (ratio * (scopes.end - scopes.start)).astype(np.int64)
        ).intersect(waited.spans)
        line, other = (line_of(sampled.shown(text)) for text in (fact.line, fact.other))
        evidence: dict[str, Any] = {
            "calls": sum(len(one.calls) for one in followed_facts(every, kinds)),
            "function": fact.name, "needless_ratio": round(ratio, 3),
        }  # fmt: skip
        if fact.kind == "kept":
            evidence["kept"] = True
        if other is not None and other != line:
            evidence["other"] = str(other)
        share = None if line is None else Share(line, scopes.measure_ns, 0, "")
        return Selection(scopes, evidence, line=share, device=device if ratio >= 1 else device[:0])

    return select


def followed_facts(every: tuple[Followed, ...], kinds: tuple[str, ...]) -> list[Needless]:
    """Return the facts of some kinds of the last capture that has one."""
    for followed in reversed(every):
        facts = [fact for fact in followed.facts if fact.kind in kinds]
        if facts:
            return facts
    return []


class _Step:
    """The step whose values were followed, and those of the profile that run the same operators."""

    def __init__(self, waited: Waited, followed: Followed) -> None:
        self._waited = waited
        trace = waited.trace
        on_lane = trace.lane == waited.lane
        steps = np.flatnonzero(on_lane & named(trace, FOLLOWED_STEP)[trace.name])
        steps = steps[trace.start_ns[steps] >= followed.after_ns][:1]
        self._rows: Ints = np.zeros(0, np.int64)
        self._marks: dict[int, int] = {}
        self._like: list[tuple[Ints, int, int]] = []
        if not len(steps):
            return
        begun, ended = int(trace.start_ns[steps[0]]), int(trace.end_ns[steps[0]])
        marks = named(trace, RECORDERS)[trace.name]
        rows = np.flatnonzero(on_lane & (trace.kind == Kind.HOST_OP) & ~marks)
        mine = rows[(trace.start_ns[rows] >= begun) & (trace.start_ns[rows] < ended)]
        ours = rows_spans(trace, np.flatnonzero(on_lane & named(trace, _OWN)[trace.name]))
        self._rows = outermost(trace, mine[~ours.holds(trace.start_ns[mine])])
        calls = named(trace, _CALLS)[trace.name]
        inside = np.flatnonzero(on_lane & calls & (trace.start_ns > begun) & (trace.start_ns < ended))
        for row in inside.tolist():
            self._marks[int(trace.name_of(row).removeprefix(_VALUE))] = row
        names = trace.name[self._rows]
        for start, end in zip(waited.steps.start_ns.tolist(), waited.steps.end_ns.tolist(), strict=True):
            its = rows[(trace.start_ns[rows] >= start) & (trace.start_ns[rows] < end)]
            its = outermost(trace, its)
            self._like.append((its, *_common(names, trace.name[its])))

    def calls(self, fact: Needless) -> Spans:
        """Return the time of a fact's calls in the steps of the profile."""
        trace = self._waited.trace
        marks = np.array([self._marks[one] for one in fact.calls if one in self._marks], np.int64)
        if not len(marks):
            return Spans.empty()
        spans = rows_spans(trace, np.sort(marks))
        at = np.flatnonzero(spans.holds(trace.start_ns[self._rows]))
        stretches = []
        for rows, first, last in self._like:
            offset = len(rows) - len(self._rows)
            known = np.concatenate((at[at < first], at[at >= len(self._rows) - last] + offset))
            if not len(known):
                continue
            cuts = np.flatnonzero(np.diff(known) > 1)
            begins = known[np.concatenate(([0], cuts + 1))]
            ends = known[np.concatenate((cuts, [len(known) - 1]))]
            stretches.append(Spans.of(trace.start_ns[rows[begins]], trace.end_ns[rows[ends]]))
        return Spans.empty().union(*stretches) if stretches else Spans.empty()


def _common(names: Ints, other: Ints) -> tuple[int, int]:
    """Return how many names two sequences have in common at the beginning and, after that, at the end."""
    least = min(len(names), len(other))
    same = names[:least] == other[:least]
    first = int(np.argmin(same)) if not same.all() else least
    same = names[len(names) - least :][::-1] == other[len(other) - least :][::-1]
    last = int(np.argmin(same)) if not same.all() else least
    return first, min(last, least - first)


def _there(case: Case) -> str:
    other = case.evidence.get("other", "")
    return f", which {other} computes as well" if other else ""


def _row(rule: str, kind: str, say: Callable[[Case], str], remedy: str, withdrawn: str, **more: Any) -> Cause:
    return Cause(
        rule=rule,
        cases=on_each(selected(*kind.split())),
        say=say,
        remedies={"": remedy},
        withdrawn=f"{withdrawn}, or the steps without that would not be {WORTH:.0%} shorter",
        width=-1,
        **more,
    )


VALUES: tuple[Cause, ...] = (
    _row(
        "called-again",
        "again",
        lambda case: (
            f"the same values are computed again in a step ({case.evidence['function']}), for {case.cost}"
            f"{_there(case)}"
        ),
        "compute them once in a step and keep the result; use .detach() of it if no gradient is needed",
        "no call is given the same values as another one in the step",
    ),
    _row(
        "computed-each-step",
        "before",
        lambda case: (
            f"the same values are computed again in each step ({case.evidence['function']}), for {case.cost}"
        ),
        "compute them once before the loop, and keep the result",
        "no call is given the same values as in the step before",
    ),
    _row(
        "unused-results",
        "unused kept",
        lambda case: f"results that nothing uses are computed ({case.evidence['function']}), for {case.cost}",
        "leave this out; compute it only in the steps that use it",
        "everything that is computed is used, kept or logged",
        sure=lambda case: "kept" not in case.evidence,  # steps that were not followed may use it
    ),
    _row(
        "unused-option",
        "asked",
        lambda case: (
            f"a result that nothing uses is asked for ({case.evidence['function']}); the call takes "
            f"{case.cost}"
        ),
        "leave the option out (False): without it a function may choose a faster way, as attention does that "
        "returns no weights",
        "what the option gives is used",
        bound=True,
    ),
    _row(
        "computed-longer",
        "longer",
        lambda case: (
            "the same prefix is computed again each time that a sequence grows "
            f"({case.evidence['function']}), for {case.cost}"
        ),
        "if a result does not depend on what comes later, carry on the state, or keep what was computed (a "
        "cache of keys and values), and compute only what is new",
        "no call is given a longer form of what another one was given before",
        bound=True,
    ),
    _row(
        "product-order",
        "order",
        lambda case: (
            "three matrices are multiplied in the order that takes more: by their shapes the other order "
            f"needs {1 - case.evidence['needless_ratio']:.0%} of the multiplications; it would save "
            f"{case.cost}"
        ),
        "multiply the other two first, as A @ (B @ C) for (A @ B) @ C",
        "the other order would take more than half of the multiplications",
        bound=True,
    ),
    _row(
        "enlarged-first",
        "enlarged",
        lambda case: (
            f"values are repeated or enlarged ({case.evidence['function']}) before a product makes fewer of "
            f"them; the large intermediate and the product on it take {case.cost}"
        ),
        "both are linear, so their order may change: apply the layer to the small values first, before "
        "upsampling or repeating; for joined parts multiply each part by its rows of the weight, and add "
        "the results by broadcasting",
        "no product is applied to what was enlarged just before",
        bound=True,
    ),
    _row(
        "ignored-places",
        "ignored",
        lambda case: (
            f"the loss ignores {case.evidence['needless_ratio']:.0%} of the places (ignore_index), whose "
            f"scores take {case.cost}"
        ),
        "choose the places that count by a mask before the last layer",
        "the loss ignores fewer than half of the places",
        bound=True,
    ),
    _row(
        "scattered-rows",
        "scattered",
        lambda case: (
            "rows are copied from a tensor whose columns lie together in memory, so that each number of a "
            f"row is in a place of its own; that takes {case.cost}"
        ),
        "make its rows contiguous once: .contiguous(), of a NumPy array np.ascontiguousarray (pandas and "
        ".T give one in Fortran order)",
        "the rows that are copied are contiguous",
        bound=True,
    ),
    _row(
        "weights-alone",
        "weights",
        lambda case: (
            "something is computed of the weights alone, and derived, in each step "
            f"({case.evidence['function']}), for {case.cost}"
        ),
        "a penalty of squares is the optimizer's weight_decay; a weight made of others is needed once a "
        "step at most",
        "nothing is computed of weights alone",
        bound=True,
        sure=lambda case: False,
    ),
    _row(
        "padding",
        "padded",
        lambda case: (
            f"{case.evidence['needless_ratio']:.0%} of the length of a batch is one constant at its end, as "
            f"padding is; the operators on it take {case.cost}"
        ),
        "pad a batch to its own longest example, not to a fixed length; sort or bucket examples by length",
        "no batch ends with a constant in all of its examples",
        bound=True,
    ),
    _row(
        "mostly-zeros",
        "zeros",
        lambda case: (
            f"a factor of a product is {case.evidence['needless_ratio']:.1%} zeros "
            f"({case.evidence['function']}); the product takes {case.cost}"
        ),
        "if it has one number in each row, as one-hot vectors have, index instead; else keep it as a sparse "
        "matrix",
        "no factor of a product is mostly zeros",
        bound=True,
        # A sparse product takes several times as long for each of its numbers; an index takes no product.
        sure=lambda case: case.evidence["function"] == _ONE_HOT or case.evidence["needless_ratio"] >= _SPARSE,
    ),
)
"""Causes that only the values of a step tell."""
