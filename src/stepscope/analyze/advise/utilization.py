"""accelerator-utilization: an accelerator is idle for most of the step."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.advise.finding import Abstain, Facts, Finding
from stepscope.analyze.device import devices, rows_spans
from stepscope.analyze.spans import Spans
from stepscope.analyze.tfprof.advise import utilizations
from stepscope.analyze.windows import windows

RULE = "accelerator-utilization"
LOW, VERY_LOW = 0.5, 0.2
"""tfprof's limits."""

_ACTION = "look at the other findings for what it waits for: input, communication, the host, or launches"


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the busy share of each accelerator, streams merged, with tfprof's limit."""
    if facts.trace is None and facts.profile is not None:
        shares = utilizations(facts.profile)
        if not shares:
            raise Abstain("work on an accelerator")
        source = "tfprof's sum of kernel time over the last step, which overlapping streams can bring above 1"
    else:
        shares = _shares(facts)
        source = "union of the device's work in the steps"
    for device, share in shares.items():
        if share < LOW:
            yield Finding(
                RULE,
                "high" if share <= VERY_LOW else "medium",
                f"{device} works for {share:.0%} of the step",
                {"device": device, "utilization_ratio": share, "measured_as": source},
                {"utilization_ratio": LOW},
                _ACTION,
            )


def _shares(facts: Facts) -> dict[str, float]:
    trace = facts.require("device")
    every = windows(trace)
    shares = {}
    for device in devices(trace):
        mine = every.of_rank(device.rank)
        steps = Spans.of(mine.start_ns, mine.end_ns)
        busy = rows_spans(trace, device.rows).intersect(steps)
        if steps.measure_ns:
            shares[f"rank {device.rank} device {device.device}"] = busy.measure_ns / steps.measure_ns
    return shares
