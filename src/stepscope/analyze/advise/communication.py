"""communication-bound: the device waits for other devices and computes nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded, top
from stepscope.analyze.device import COMMUNICATION

RULE = "communication-bound"
LOW, HIGH = 0.03, 0.15
"""XProf's limits for device collectives."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of the steps in which only communication went on."""
    trace, parts = facts.timeline, facts.breakdown
    known = False
    for rank in sorted({step.rank for step in parts.steps}):
        ratio = parts.ratio("communication", rank=rank)
        known = known or ratio is not None
        if ratio is None or ratio < LOW:
            continue
        rows = np.flatnonzero(np.isin(trace.kind, COMMUNICATION) & (trace.rank == rank))
        longest = top(trace, rows, trace.duration_ns[rows])
        yield Finding(
            RULE,
            graded(ratio, medium=HIGH, high=HIGH),
            f"{ratio:.0%} of the step is communication that no computation hides",
            {
                "rank": rank,
                "exposed_communication_ratio": ratio,
                "exposed_communication_ns": parts.total_ns("communication", rank=rank),
                "operations": [{"name": name, "total_ns": int(ns)} for name, ns in longest],
            },
            {"exposed_communication_ratio": LOW},
            "see who waits for whom (stepscope ranks DIR) before changing the network: a late rank looks "
            "the same; "
            "then larger buckets, overlap with the backward pass, fewer or smaller exchanges",
        )
    if not known:
        raise Abstain(parts.missing.get("communication", "communication events"))
