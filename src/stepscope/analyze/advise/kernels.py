"""small-kernels: the device runs a great many tiny kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, top
from stepscope.trace.model import Kind

RULE = "small-kernels"
SMALL_NS = 10_000
COUNT_RATIO, TIME_RATIO, PER_STEP = 0.5, 0.1, 100
"""A kernel below 10 µs is about as long as a launch takes from Python."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of kernels below 10 µs, by count and by time."""
    trace = facts.require("device")
    rows = np.flatnonzero((trace.kind == Kind.KERNEL) & (trace.device >= 0) & facts.measures.counted)
    if not len(rows):
        raise Abstain("no kernels inside the steps")
    durations = trace.duration_ns[rows]
    small = durations < SMALL_NS
    ratio, time_ratio = float(small.mean()), float(durations[small].sum() / max(durations.sum(), 1))
    per_step = len(rows) / facts.steps
    if ratio >= COUNT_RATIO and time_ratio >= TIME_RATIO and per_step >= PER_STEP:
        names = top(trace, rows[small], np.ones(int(small.sum())))
        yield Finding(
            RULE,
            "medium",
            f"{ratio:.0%} of {per_step:,.0f} kernels per step are shorter than 10 µs",
            {
                "small_ratio": ratio,
                "small_time_ratio": time_ratio,
                "kernels_per_step": per_step,
                "median_ns": float(np.median(durations)),
                "most": [{"name": name, "calls": int(count)} for name, count in names],
            },
            {"small_ratio": COUNT_RATIO, "small_time_ratio": TIME_RATIO, "kernels_per_step": PER_STEP},
            "fuse them: torch.compile or XLA, fused or foreach optimizers, larger batches",
        )
