"""step-variation: some steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding

RULE = "step-variation"
LIMIT, HIGH = 0.25, 1.0
FEWEST = 3


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the longest step with the median one."""
    trace = facts.require("steps")
    told = False
    for rank in np.unique(trace.steps.rank).tolist():
        mine = trace.steps.rank == rank
        durations = (trace.steps.end_ns - trace.steps.start_ns)[mine].astype(float)
        if len(durations) < FEWEST or not np.median(durations):
            continue
        told = True
        middle = float(np.median(durations))
        excess = float(durations.max() / middle - 1)
        if excess >= LIMIT:
            numbers = trace.steps.number[mine]
            order = np.argsort(-durations, kind="stable")[:3]
            yield Finding(
                RULE,
                "high" if excess >= HIGH else "medium",
                f"the longest of {len(durations)} steps takes {excess:.0%} more than the median",
                {
                    "rank": rank,
                    "median_ns": middle,
                    "min_ns": float(durations.min()),
                    "max_ns": float(durations.max()),
                    "excess_ratio": excess,
                    "longest": [{"step": int(numbers[i]), "duration_ns": int(durations[i])} for i in order],
                },
                {"excess_ratio": LIMIT},
                "compare a long step with a short one: stepscope profile scope PATH -step N; usual causes "
                "are input, "
                "checkpoints, garbage collection, recompilation, other work on the machine",
            )
    if not told:
        raise Abstain(f"at least {FEWEST} marked steps")
