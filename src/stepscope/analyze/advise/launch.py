"""launch-bound: launching the kernels takes the host as long as they are worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded

RULE = "launch-bound"
LAUNCH, HIGH = 0.15, 0.3
SHORT = 0.5


def check(facts: Facts) -> Iterator[Finding]:
    """Fire where launch calls fill the step, and most of what they launch is shorter than its launch.

    The 15 % are XProf's limit for kernel launch; a kernel shorter than its launch call is HTA's "short
    kernel".
    """
    trace = facts.require("device", "launches")
    work = np.flatnonzero((facts.measures.device_ns > 0) & (trace.launch >= 0) & facts.measures.counted)
    if not len(work):
        raise Abstain("no launched device work inside the steps")
    calls = np.unique(trace.launch[work])
    spent = int(trace.duration_ns[calls].sum())
    ratio = spent / facts.wall_ns
    short = float((trace.duration_ns[work] < trace.duration_ns[trace.launch[work]]).mean())
    if ratio >= LAUNCH and short >= SHORT:
        yield Finding(
            RULE,
            graded(ratio, medium=LAUNCH, high=HIGH),
            f"launch calls take {ratio:.0%} of the step, and {short:.0%} of the kernels are shorter than "
            "their launch",
            {
                "launch_ns": spent,
                "launch_ratio": ratio,
                "launches_per_step": len(calls) / facts.steps,
                "short_kernel_ratio": short,
            },
            {"launch_ratio": LAUNCH, "short_kernel_ratio": SHORT},
            "launch fewer, larger kernels: CUDA graphs, torch.compile(mode='reduce-overhead'), fused "
            "operators, "
            "foreach or fused optimizers",
        )
