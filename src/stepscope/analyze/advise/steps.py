"""step-variation: some steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, gathered
from stepscope.trace.model import Trace

RULE = "step-variation"
LIMIT, HIGH = 0.25, 1.0
FEWEST = 3


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the longest step with the median one."""
    trace = facts.require("steps")
    ranks = np.unique(trace.steps.rank).tolist()
    every = [evidence for rank in ranks if (evidence := _evidence(trace, rank))]
    if not every:
        raise Abstain(f"fewer than {FEWEST} marked steps")
    varied = [evidence for evidence in every if evidence["excess_ratio"] >= LIMIT]
    if varied:
        found = gathered(varied, "excess_ratio", of=len(every))
        worst = found.worst
        yield Finding(
            RULE,
            "high" if worst["excess_ratio"] >= HIGH else "medium",
            f"{found.label}the longest of {worst['steps']} steps takes {worst['excess_ratio']:.0%} more "
            "than the median",
            {**worst, **found.others},
            {"excess_ratio": LIMIT},
            "compare a long step with a short one: stepscope profile scope PATH -step N; usual causes are "
            "input, checkpoints, garbage collection, recompilation, other work on the machine",
        )


def _evidence(trace: Trace, rank: int) -> dict[str, Any] | None:
    mine = trace.steps.rank == rank
    durations = (trace.steps.end_ns - trace.steps.start_ns)[mine].astype(float)
    if len(durations) < FEWEST or not np.median(durations):
        return None
    middle, numbers = float(np.median(durations)), trace.steps.number[mine]
    order = np.argsort(-durations, kind="stable")[:3]
    return {
        "rank": rank,
        "steps": len(durations),
        "median_ns": middle,
        "min_ns": float(durations.min()),
        "max_ns": float(durations.max()),
        "excess_ratio": float(durations.max() / middle - 1),
        "longest": [{"step": int(numbers[i]), "duration_ns": int(durations[i])} for i in order],
    }
