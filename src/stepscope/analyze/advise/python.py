"""python-overhead: the interpreter itself takes a large part of the step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded, top
from stepscope.trace.model import Kind

RULE = "python-overhead"
MEDIUM, HIGH = 0.2, 0.5


def check(facts: Facts) -> Iterator[Finding]:
    """Sum the self time of Python frames on the threads that run steps, or on the busiest one."""
    trace = facts.require("stacks")
    frames = np.flatnonzero((trace.kind == Kind.PYTHON_FRAME) & facts.measures.counted)
    if not len(frames):
        raise Abstain("no Python frames with times (with_stack=True)")
    stepping = np.unique(trace.lane[trace.kind == Kind.STEP])
    on_step = frames[np.isin(trace.lane[frames], stepping)]
    if not len(on_step):
        lanes, counts = np.unique(trace.lane[frames], return_counts=True)
        on_step = frames[trace.lane[frames] == lanes[counts.argmax()]]
    spent = int(trace.self_ns[on_step].sum())
    ratio = spent / facts.wall_ns
    if ratio >= MEDIUM:
        longest = top(trace, on_step, trace.self_ns[on_step], count=5)
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
