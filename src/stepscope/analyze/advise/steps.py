"""step-variation: some steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analyze.advise.busy import is_busy
from stepscope.analyze.advise.finding import WORTH, Abstain, Facts, Finding, events_of, gathered, place_of
from stepscope.analyze.advise.remedy import quoted
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.source_lines import EVERY, Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.windows import NO_STEP, Windows
from stepscope.health.worth import severity_of
from stepscope.text import time
from stepscope.trace.model import Kind, among

RULE = "step-variation"
LIMIT = 0.25
MIN_STEPS = 3
EXPLAINED = 0.6
"""Share of a long step's excess that an activity must account for to be named as its cause."""

_WORDS = {
    Purpose.LOADING: "loading data",
    Purpose.COMPILING: "compiling",
    Purpose.SAVING: "writing a checkpoint",
    Purpose.LOGGING: "logging",
    Purpose.PREPROCESSING: "preparing data",
    Purpose.EVALUATING: "evaluation",
    Purpose.PROFILING: "the profiler",
}


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the longest step with the median one, the profiler's part left out."""
    facts.require("steps")
    every = [evidence for waited in facts.waited if (evidence := _evidence(waited))]
    if not every:
        raise Abstain(f"fewer than {MIN_STEPS} marked steps after the first, in which the profiler starts")
    varied = [one for one in every if one["excess_ratio"] >= LIMIT and one["lost_ratio"] >= WORTH]
    if not varied:
        return
    places = gathered(varied, "lost_ratio", of=len(every))
    worst = places.worst
    waited = next(one for one in facts.waited if one.rank == worst["rank"])
    line = _line(waited, worst)
    steps = [one["step"] for one in worst["longest"]]
    # A long step of which nothing says why is a fact, no cause: nobody can mend it from here. Beside other
    # programs whatever runs when they come takes longer, even without its waits for a processor.
    known = ("cause" in worst or line is not None) and not is_busy(waited)
    yield Finding(
        RULE,
        severity_of(worst["lost_ratio"]) if known else "info",
        (places.label or waited.label) + _say(worst, line),
        {**worst, **places.others},
        {"excess_ratio": LIMIT, "lost_ratio": WORTH},
        _action(worst, line),
        place=place_of(waited, line),
        events=events_of(waited.trace, _marks(waited, steps)),
        command=f"stepscope profile op {quoted(facts)} -step {steps[0]} -order_by micros",
        withdrawn=f"no step is {LIMIT:.0%} longer than the median, or together they lose less than "
        f"{WORTH:.0%}",
        **(_gain(worst) if known else {}),
        spans=_long(waited, worst),
    )


def _gain(worst: dict[str, Any]) -> dict[str, Any]:
    lost, ratio = round(worst["lost_ns"]), worst["lost_ratio"]
    return {
        "cost_ns": lost, "cost_ratio": ratio, "gain_ns": lost, "gain_ratio": ratio, "gain_from": "bound",
    }  # fmt: skip


def _say(worst: dict[str, Any], line: Share | None) -> str:
    longest, others = worst["longest"][0], worst["longer_steps"] - 1
    text = (
        f"step {longest['step']} takes {time(worst['max_ns'])}, {worst['excess_ratio']:.0%} more than the "
        f"median of {worst['steps']} steps"
    )
    if "cause" in worst:
        text += f"; {worst['cause']} accounts for {time(worst['cause_ns'])} of the difference"
    if line is not None:
        text += f", in {line.line}" if "cause" in worst else f"; most of the difference is in {line.line}"
    if others:
        text += f"; {others} more {'are' if others > 1 else 'is'} over {LIMIT:.0%} longer than the median"
    return text


def _action(worst: dict[str, Any], line: Share | None) -> str:
    last = worst["longest"][: min(worst["longer_steps"], len(worst["longest"]))]
    numbers = ", ".join(str(one["step"]) for one in last)
    what = f"find out what step{'s' * (len(last) > 1)} {numbers} did that others did not"
    if line is not None:
        return f"{what}, in {line.line}"
    if "cause" in worst:
        return what
    return f"{what}: input, checkpoints, garbage collection, recompilation, other programs on the machine"


def _long(waited: Waited, evidence: dict[str, Any]) -> Spans:
    """Return the longest step."""
    at = waited.steps.number == evidence["longest"][0]["step"]
    return Spans.of(waited.steps.start_ns[at], waited.steps.end_ns[at])


def _line(waited: Waited, evidence: dict[str, Any]) -> Share | None:
    """Return the line of the user's own code that makes up most of the longest step's extra time.

    Only the long steps run it: some line is always the one that was running when the machine was busy.
    """
    steps = waited.steps
    long = np.isin(steps.number, [one["step"] for one in evidence["longest"][: evidence["longer_steps"]]])
    within = _long(waited, evidence)
    usual = Spans.of(steps.start_ns[~long], steps.end_ns[~long])
    elsewhere = {one.line for one in waited.lines(usual, most=EVERY)}
    sampled = waited.sampled
    # While others had all processors, whichever line was running seems to take long.
    lines = sampled.lines(within, own=True) if sampled is not None and not waited.has_device else None
    for one in waited.lines(within) if lines is None else lines:
        enough = one.time_ns >= EXPLAINED * (evidence["max_ns"] - evidence["median_ns"])
        if enough and one.line not in elsewhere:
            return one
    return None


def _evidence(waited: Waited) -> dict[str, Any] | None:
    steps = waited.steps
    if len(steps) <= MIN_STEPS or (steps.number == NO_STEP).any():
        return None
    profiling = waited.activities.spans(waited.lane, Purpose.PROFILING) if waited.lane >= 0 else Spans.empty()
    taken = _ends(waited) - steps.start_ns - profiling.within(steps.start_ns, steps.end_ns)
    # While others had all processors, or the interpreter, the thread could not run: that varies with them.
    durations = (taken - _queued(waited, steps)).astype(float)
    steps = Windows(steps.rank[1:], steps.number[1:], steps.start_ns[1:], steps.end_ns[1:])
    durations = durations[1:]
    middle = float(np.median(durations))
    if middle <= 0:
        return None
    order = np.argsort(-durations, kind="stable")[:3]
    lost = max(0.0, float(durations.mean()) - middle)
    evidence = {
        "rank": waited.rank,
        "steps": len(durations),
        "median_ns": middle,
        "min_ns": float(durations.min()),
        "max_ns": float(durations.max()),
        "excess_ratio": float(durations.max() / middle - 1),
        "lost_ns": lost,
        "lost_ratio": lost / float(durations.mean()),
        "longer_steps": int((durations >= (1 + LIMIT) * middle).sum()),
        "longest": [{"step": int(steps.number[i]), "duration_ns": int(durations[i])} for i in order],
    }
    return evidence | _cause(waited, steps, int(order[0]), float(durations.max()) - middle)


def _queued(waited: Waited, steps: Windows) -> Any:
    """Return how long the thread waited for a processor or the interpreter in each step, 0 if unknown."""
    if waited.queued_ns is None or waited.sampled is None or waited.has_device:
        return 0
    ends = zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return np.array([waited.kept_ns(Spans.window(start, end)) for start, end in ends])


def _marks(waited: Waited, numbers: list[int]) -> Ints:
    steps = waited.trace.steps
    mine = (steps.rank == waited.rank) & (steps.row >= 0) & np.isin(steps.number, numbers)
    rows: Ints = steps.row[mine].astype(np.int64)
    return rows


def _ends(waited: Waited) -> Any:
    """Return the end of each step's last event: later time belongs to the profiler, or to nothing."""
    trace, steps = waited.trace, waited.steps
    mine = np.flatnonzero(
        (trace.rank == waited.rank) & ~among(Kind.STEP, Kind.OVERHEAD, Kind.ANNOTATION)[trace.kind]
    )
    if not len(mine):
        return steps.end_ns
    end = trace.end_ns[mine]
    order = np.argsort(trace.start_ns[mine], kind="stable")
    start, reached = trace.start_ns[mine][order], np.maximum.accumulate(end[order])
    at = np.searchsorted(start, steps.end_ns, side="left") - 1
    last = np.where(at >= 0, reached[at], steps.end_ns)
    return np.where(last > steps.start_ns, np.minimum(last, steps.end_ns), steps.end_ns)


def _cause(waited: Waited, steps: Windows, longest: int, excess: float) -> dict[str, Any]:
    if waited.lane < 0:
        return {}
    for activity, word in _WORDS.items():
        spent = waited.activities.spans(waited.lane, activity).within(steps.start_ns, steps.end_ns)
        more = float(spent[longest]) - float(np.median(spent))
        if more >= EXPLAINED * excess:
            return {"cause": word, "cause_ns": more, "activity": activity.name.lower()}
    return {}
