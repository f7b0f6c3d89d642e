"""pageable-copies: data goes to the device from memory that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts, Finding, judged, longest
from stepscope.analyze.advise.remedy import framework_of, show
from stepscope.attribute.device import rows_spans
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind

RULE = "pageable-copies"


def check(facts: Facts) -> Iterator[Finding]:
    """Replay the steps without copies between the device and pageable memory, which also block the host."""
    trace = facts.require("device")
    texts, cases, telling = trace.strings.texts(), [], False
    for waited in facts.waited:
        rows = waited.device_rows[trace.kind[waited.device_rows] == Kind.MEMCPY]
        rows = rows[waited.spans.within(trace.start_ns[rows], trace.start_ns[rows] + 1) > 0]
        names = distinct(trace.name[rows])
        known = [any(word in texts[number].lower() for word in ("pageable", "pinned")) for number in names]
        telling = telling or any(known) or not len(rows)
        rows = rows[
            np.isin(trace.name[rows], names[["pageable" in texts[number].lower() for number in names]])
        ]
        if not len(rows):
            continue
        calls = distinct(trace.launch[rows][trace.launch[rows] >= 0]).astype(np.int64)
        worth = waited.worth(device=rows, waits=calls)
        moved = trace.bytes[rows]
        evidence = {
            "pageable_ns": round(int(trace.duration_ns[rows].sum()) / waited.count),
            "pageable_ratio": int(trace.duration_ns[rows].sum()) / waited.wall_ns,
            "copies_per_step": len(rows) / waited.count,
            "moved_bytes": int(moved[moved > 0].sum()) if (moved >= 0).any() else None,
            "copies": longest(trace, rows),
        }
        lines = waited.lines(rows_spans(trace, calls)) if len(calls) else []
        cases.append(Case(waited, worth, evidence, lines[0] if lines else None, rows))
    if not telling:
        raise Abstain("the names of the copies do not say whether memory is pageable")
    pinned = "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True)"
    yield from judged(
        RULE,
        cases,
        of=len(facts.waited),
        say=lambda case: f"copies from or to pageable memory take {case.cost_text}{case.where}",
        action=lambda case: (
            pinned if framework_of(trace) == "torch" else "copy from pinned host memory, ahead of time"
        ),
        command=lambda case: show(facts, "kernel", trace.name_of(int(case.rows[0]))),
        least=WORTH,
        withdrawn=f"the steps without these copies would not be {WORTH:.0%} shorter",
    )
