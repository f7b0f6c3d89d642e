"""communication-bound: the device waits for other devices and computes nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, gathered, graded, top
from stepscope.analyze.device import COMMUNICATION

RULE = "communication-bound"
LOW, HIGH = 0.03, 0.15
"""XProf's limits for device collectives."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of the steps in which only communication went on."""
    parts = facts.breakdown
    ranks = sorted({step.rank for step in parts.steps})
    known = {rank: parts.ratio("communication", rank=rank) for rank in ranks}
    if all(ratio is None for ratio in known.values()):
        raise Abstain(parts.missing.get("communication", "no communication events"))
    bound = [rank for rank, ratio in known.items() if ratio is not None and ratio >= LOW]
    if not bound:
        return
    found = gathered([_evidence(facts, rank) for rank in bound], "exposed_communication_ratio", of=len(ranks))
    ratio = found.worst["exposed_communication_ratio"]
    yield Finding(
        RULE,
        graded(ratio, medium=HIGH, high=HIGH),
        f"{found.label}{ratio:.0%} of the step is communication that no computation hides",
        {**found.worst, **found.others},
        {"exposed_communication_ratio": LOW},
        "see who waits for whom (stepscope ranks DIR) before changing the network, for a late rank looks "
        "the same; then larger buckets, overlap with the backward pass, fewer or smaller exchanges",
    )


def _evidence(facts: Facts, rank: int) -> dict[str, Any]:
    trace, parts = facts.timeline, facts.breakdown
    rows = np.flatnonzero(np.isin(trace.kind, COMMUNICATION) & (trace.rank == rank))
    return {
        "rank": rank,
        "exposed_communication_ratio": parts.ratio("communication", rank=rank),
        "exposed_communication_ns": parts.total_ns("communication", rank=rank),
        "operations": [
            {"name": name, "total_ns": int(ns)} for name, ns in top(trace, rows, trace.duration_ns[rows])
        ],
    }
