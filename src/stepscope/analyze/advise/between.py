"""between-steps: time between one step and the next, in callbacks, evaluation, checkpoints.

If most of it belongs to one activity, the finding is that of the activity's rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from stepscope.analyze.advise.activities import WHOLE, ActivityRule, spans_of
from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.finding import ONE_RUN_EACH, WORTH, Abstain, Case, Facts, Finding, lines_told
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.source_lines import leading
from stepscope.attribute.spans import Spans
from stepscope.attribute.windows import NO_STEP

UNUSUAL = 4
"""Multiple of the usual gap from which on a gap is the end of an epoch, or a pause, and not a cost of each
step.
"""
OF_THE_LOOP = 0.2
"""Least share if no code of the user's is known to run in the gaps: the cost of a framework's own loop."""
MAIN_SHARE = 0.6
"""Share of the time between steps from which on one activity determines the rule of the finding."""


def check(facts: Facts) -> Iterator[Finding]:
    """Replay from the beginning of each step to that of the next, without the time in between."""
    if facts.require("steps").format in ONE_RUN_EACH:
        raise Abstain(
            "each step was recorded separately, so the time between steps also holds the recorder's own work"
        )
    periods = [period for waited in facts.waited if (period := _period(waited)) is not None]
    if not periods:
        raise Abstain("fewer than two gaps between steps that follow each other")
    cases: dict[str, list[Case]] = {}
    for waited, gaps in periods:
        case, rule = _case(waited, gaps)
        if min(case.ratio, case.cost_ratio) >= (WORTH if rule or _has_own(case) else OF_THE_LOOP):
            cases.setdefault(rule.rule if rule else BETWEEN.rule, []).append(case)
    for name, several in cases.items():
        rule = next((one for one in WHOLE if one.rule == name), None)
        yield from (_of(rule) if rule else BETWEEN).judged(facts, several, of=len(periods))


def _of(rule: ActivityRule) -> Cause:
    """Return the row of an activity that goes on between the steps."""
    what = rule.say.replace("the step", "the program")
    return replace(
        BETWEEN,
        rule=rule.rule,
        say=lambda case: f"{what} between the steps for {case.cost}",
        remedies=rule.remedies,
    )


def _has_own(case: Case) -> bool:
    """Return whether the program's own code runs there, as far as known, besides the code around the steps.

    Otherwise the time is that of the framework's loop, or of the profiler: PyTorch's ``step`` ends the mark
    of one step and begins that of the next.
    """
    waited = case.waited
    if waited.sampled is not None:
        return case.line is not None and not waited.sampled.is_around(case.line)
    return case.line is not None or bool(len(case.rows))


def _period(waited: Waited) -> tuple[Waited, Spans] | None:
    """Return the rank from each step's beginning to the next one's, and the gaps; None if too few."""
    steps = waited.steps
    if waited.lane < 0 or len(steps) < 3 or (steps.number == NO_STEP).any():
        return None
    follow = np.flatnonzero(np.diff(steps.number) == 1)
    gap = steps.start_ns[follow + 1] - steps.end_ns[follow]
    if len(follow) < 2:
        return None
    usual = int(np.sort(gap)[(len(gap) - 1) // 2])
    usual_gaps = follow[(gap > 0) & (gap <= UNUSUAL * max(usual, 1))]
    if len(usual_gaps) < 2:
        return None
    widened = replace(steps.where(usual_gaps), end_ns=steps.start_ns[usual_gaps + 1])
    gaps = Spans.of(steps.end_ns[usual_gaps], steps.start_ns[usual_gaps + 1])
    return Waited(waited.trace, waited.rank, widened, waited.graph, waited.activities, waited.sampled), gaps


def _case(waited: Waited, gaps: Spans) -> tuple[Case, ActivityRule | None]:
    # What the loop waits for there, as for a loss that it shows, is the step's own work.
    lane = waited.lane
    own = gaps.minus(waited.executing.union(waited.activities.spans(lane, Purpose.PROFILING)))
    rule = _rule(waited, gaps, own)
    if rule is not None and rule.activity == Purpose.EVALUATING:
        gaps = spans_of(waited, rule.activity).intersect(gaps)
        worth = waited.whole(gaps)  # its own work on devices is part of it
    else:
        gaps = own
        worth = waited.worth(host={lane: gaps})
    whole = max(gaps.measure_ns, 1)
    lines = waited.lines(gaps)
    evidence: dict[str, Any] = {
        "between_ns": round(gaps.measure_ns / waited.count),
        "waited_ns": round(worth.cost_ns / waited.count),
        "lines": lines_told(lines, whole),
    }
    rows = np.flatnonzero((waited.trace.lane == lane) & (waited.trace.device < 0))
    inside = gaps.within(waited.trace.start_ns[rows], waited.trace.end_ns[rows])
    rows = rows[(inside > 0) & (inside == waited.trace.duration_ns[rows])]
    return Case(waited, worth, evidence, leading(lines, whole), rows), rule


def _rule(waited: Waited, gaps: Spans, own: Spans) -> ActivityRule | None:
    """Return the rule of the activity that has most of the time between steps, None if none has."""
    candidates: list[tuple[float, ActivityRule]] = []
    for rule in WHOLE:
        part = spans_of(waited, rule.activity).intersect(gaps)
        if rule.activity != Purpose.EVALUATING:
            part = part.intersect(own)
        candidates.append((part.measure_ns / max(own.union(part).measure_ns, 1), rule))
    share, first = max(candidates, key=lambda pair: pair[0])
    return first if share >= MAIN_SHARE else None


BETWEEN = Cause(
    rule="between-steps",
    idles=True,
    waits=False,
    cases=lambda facts: (),  # check gathers them, for the rule of what goes on there
    say=lambda case: f"between the steps {case.cost_text} pass{case.where}",
    remedies={
        "keras": "do less in callbacks' on_train_batch_begin and on_train_batch_end, or every n batches; "
        "model.compile(steps_per_execution=…) calls them less often",
        "": "do it every n steps, or in parallel with the steps in a thread or process",
    },
    withdrawn=f"without it the time from one step to the next would not be {WORTH:.0%} shorter",
)
