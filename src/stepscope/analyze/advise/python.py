"""python-overhead: the interpreter itself takes a large part of the step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded, top
from stepscope.analyze.device import rows_spans
from stepscope.analyze.spans import Ints, Times
from stepscope.trace.model import Kind, Trace

RULE = "python-overhead"
MEDIUM, HIGH = 0.2, 0.5


def check(facts: Facts) -> Iterator[Finding]:
    """Sum the self time of Python frames in steps, or on the busiest thread where none was recorded.

    Time in which a step loads its data is left out: that it waits there is for other rules to say.
    """
    trace = facts.require("stacks")
    frames = np.flatnonzero((trace.kind == Kind.PYTHON_FRAME) & facts.measures.counted)
    if not len(frames):
        raise Abstain("no Python frames with times (with_stack=True)")
    on_step = frames[covered_ns(trace, frames, Kind.STEP, trace.start_ns[frames] + 1) > 0]
    if not (trace.kind == Kind.STEP).any():
        lanes, counts = np.unique(trace.lane[frames], return_counts=True)
        on_step = frames[trace.lane[frames] == lanes[counts.argmax()]]
    duration, end = trace.duration_ns[on_step], trace.start_ns[on_step] + trace.duration_ns[on_step]
    # Loading may begin in one frame and end in another; it is then in the self time of the frame around both.
    self_ns = np.minimum(
        trace.self_ns[on_step], duration - covered_ns(trace, on_step, Kind.DATA_LOADING, end)
    )
    spent = int(self_ns.sum())
    ratio = spent / facts.wall_ns
    if ratio >= MEDIUM:
        longest = top(trace, on_step, self_ns, count=5)
        yield Finding(
            RULE,
            graded(ratio, medium=MEDIUM, high=HIGH),
            f"Python itself takes {ratio:.0%} of the step",
            {
                "python_ns": spent,
                "python_ratio": ratio,
                "frames": [{"name": name, "self_ns": int(ns)} for name, ns in longest],
            },
            {"python_ratio": MEDIUM},
            "compile or fuse the hot path; note that recording stacks slows Python down: confirm it without "
            "with_stack=True",
        )


def covered_ns(trace: Trace, rows: Ints, kind: Kind, end: Ints) -> Times:
    """Return how much of each row, up to its ``end``, events of a kind on its own lane cover."""
    found = np.zeros(len(rows), np.int64)
    events = np.flatnonzero(trace.kind == kind)
    for lane in np.unique(trace.lane[events]):
        here = trace.lane[rows] == lane
        spans = rows_spans(trace, events[trace.lane[events] == lane])
        found[here] = spans.within(trace.start_ns[rows[here]], end[here])
    return found
