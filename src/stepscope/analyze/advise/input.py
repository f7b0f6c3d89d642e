"""input-bound: the step waits for data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded, top
from stepscope.trace.model import Kind

RULE = "input-bound"
MEDIUM, HIGH = 0.05, 0.2
"""Limits of PyTorch's former TensorBoard plugin (5 %) and of XProf (5 % and 20 %)."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of the steps in which nothing but data loading went on."""
    trace, parts = facts.timeline, facts.breakdown
    for rank in sorted({step.rank for step in parts.steps}):
        ratio = parts.ratio("data_loading", rank=rank)
        if ratio is None:
            continue
        if ratio >= MEDIUM:
            rows = np.flatnonzero((trace.kind == Kind.DATA_LOADING) & (trace.rank == rank))
            loaders = top(trace, rows, trace.duration_ns[rows])
            steps = [step.ratio("data_loading") or 0.0 for step in parts.steps if step.rank == rank]
            yield Finding(
                RULE,
                graded(ratio, medium=MEDIUM, high=HIGH),
                f"{ratio:.0%} of the step is spent waiting for data",
                {
                    "rank": rank,
                    "data_loading_ratio": ratio,
                    "data_loading_ns": parts.total_ns("data_loading", rank=rank),
                    "step_ratio_min": min(steps),
                    "step_ratio_max": max(steps),
                    "steps": len(steps),
                    "loaders": [{"name": name, "total_ns": int(ns)} for name, ns in loaders],
                },
                {"data_loading_ratio": MEDIUM},
                "load in parallel and ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…), "
                "tf.data prefetch and parallel map; move decoding out of the training process",
            )
    if parts.ratio("data_loading") is None:
        raise Abstain(parts.missing.get("data_loading", "events of data loading"))
