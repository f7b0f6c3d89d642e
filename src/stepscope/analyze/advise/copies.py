"""pageable-copies: data goes to the device from memory that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, graded, top
from stepscope.trace.model import Kind

RULE = "pageable-copies"
LOW, MEDIUM, HIGH = 0.01, 0.05, 0.2


def check(facts: Facts) -> Iterator[Finding]:
    """Sum the copies between the device and pageable memory; such a copy also blocks the host."""
    trace = facts.require("device")
    rows = np.flatnonzero((trace.kind == Kind.MEMCPY) & facts.measures.counted)
    if not len(rows):
        return
    texts = trace.strings.texts()
    numbers = np.unique(trace.name[rows])
    telling = [any(word in texts[number].lower() for word in ("pageable", "pinned")) for number in numbers]
    if not any(telling):
        raise Abstain("no word in the copies' names on whether memory is pageable")
    pageable = numbers[["pageable" in texts[number].lower() for number in numbers]]
    rows = rows[np.isin(trace.name[rows], pageable)]
    spent = int(trace.duration_ns[rows].sum())
    ratio = spent / facts.wall_ns
    if ratio >= LOW:
        moved = trace.bytes[rows]
        yield Finding(
            RULE,
            graded(ratio, medium=MEDIUM, high=HIGH),
            f"copies from or to pageable memory take {ratio:.1%} of the step",
            {
                "pageable_ns": spent,
                "pageable_ratio": ratio,
                "copies_per_step": len(rows) / facts.steps,
                "moved_bytes": int(moved[moved > 0].sum()) if (moved >= 0).any() else None,
                "copies": [
                    {"name": name, "total_ns": int(ns)}
                    for name, ns in top(trace, rows, trace.duration_ns[rows])
                ],
            },
            {"pageable_ratio": LOW},
            "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True)",
        )
