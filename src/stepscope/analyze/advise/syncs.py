"""sync-points: the host stops and waits for the device inside the step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded
from stepscope.analyze.launch import synchronizing_calls
from stepscope.analyze.views.measure import owners
from stepscope.trace.model import Kind

RULE = "sync-points"
MEDIUM, HIGH = 0.05, 0.2


def check(facts: Facts) -> Iterator[Finding]:
    """Sum the calls that return only when the device is done, with the operators that make them."""
    trace = facts.timeline
    calls = np.flatnonzero((trace.kind == Kind.RUNTIME_CALL) & facts.measures.counted)
    if not len(calls):
        raise Abstain("no runtime calls (cudaStreamSynchronize and others) inside the steps")
    rows = np.intersect1d(calls, synchronizing_calls(trace))
    spent = int(trace.duration_ns[rows].sum())
    ratio = spent / facts.wall_ns
    if ratio < MEDIUM:
        return
    owner = owners(trace, facts.measures)
    where: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        by = trace.name_of(owner[row]) if owner[row] != row else "outside operators"
        entry = where.setdefault((trace.name_of(row), by), [0, 0])
        entry[0] += 1
        entry[1] += int(trace.duration_ns[row])
    longest = sorted(where.items(), key=lambda item: -item[1][1])[:5]
    yield Finding(
        RULE,
        graded(ratio, medium=MEDIUM, high=HIGH),
        f"the host waits for the device for {ratio:.0%} of the step in {len(rows) / facts.steps:,.1f} "
        "calls per step",
        {
            "sync_ns": spent,
            "sync_ratio": ratio,
            "syncs_per_step": len(rows) / facts.steps,
            "calls": [
                {"name": name, "operator": operator, "calls": count, "total_ns": ns}
                for (name, operator), (count, ns) in longest
            ],
        },
        {"sync_ratio": MEDIUM},
        "take .item(), .cpu(), print and metrics of device values out of the loop, or read them every n "
        "steps; "
        ""
        "a wait is harmless where the device is the bottleneck and the next step's work is already queued",
    )
