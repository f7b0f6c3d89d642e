"""accelerator-utilization: an accelerator is idle for most of the step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, events_of, gathered, place_of_rank
from stepscope.analyze.advise.remedy import quoted
from stepscope.analyze.tfprof.advise import utilizations
from stepscope.attribute.device import devices, rows_spans
from stepscope.attribute.spans import Spans
from stepscope.attribute.windows import NO_STEP, windows

RULE = "accelerator-utilization"
LOW, VERY_LOW = 0.5, 0.2
"""tfprof's limits."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the busy share of each accelerator, streams merged, with tfprof's limit.

    It is a symptom: if another rule names the cause, this becomes the beginning of its chain and not a
    separate finding.
    """
    if facts.trace is None and facts.profile is not None:
        # tfprof's sum of kernel time over the last step, which overlapping streams can bring above 1.
        shares = utilizations(facts.profile)
        every: list[dict[str, Any]] = [
            {"device": device, "utilization_ratio": share} for device, share in shares.items()
        ]
    else:
        every = _shares(facts)
    if not every:
        raise Abstain("no work on an accelerator")
    low = [place for place in every if place["utilization_ratio"] < LOW]
    if low:
        idle = gathered(low, "utilization_ratio", of=len(every), least=True)
        share = idle.worst["utilization_ratio"]
        yield Finding(
            RULE,
            "high" if share <= VERY_LOW else "medium",
            f"{idle.label}the accelerator works for {share:.1%} of the {idle.worst.get('of_what', 'step')}",
            {**{name: value for name, value in idle.worst.items() if name != "of_what"}, **idle.others},
            {"utilization_ratio": LOW},
            "look in the timeline at what the host did while the device was idle",
            place=_place(facts, idle.worst),
            events=_work(facts, idle.worst),
            command=f"stepscope glance {quoted(facts)}",
            withdrawn=f"the accelerator works for {LOW:.0%} of it",
        )


def _place(facts: Facts, worst: dict[str, Any]) -> dict[str, Any]:
    if "rank" not in worst or facts.trace is None:
        return {"device": worst["device"]}
    return place_of_rank(facts.trace, worst["rank"], worst["device"])


def _work(facts: Facts, worst: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the longest work of the device; tfprof's own data has no events."""
    if "rank" not in worst or facts.trace is None:
        return []
    trace = facts.trace
    rows = trace.device_work()
    mine = (trace.rank[rows] == worst["rank"]) & (trace.device[rows] == worst["device"])
    return events_of(trace, rows[mine])


def _shares(facts: Facts) -> list[dict[str, Any]]:
    trace = facts.timeline
    every = windows(trace)
    shares = []
    for device in devices(trace):
        mine = every.of_rank(device.rank)
        steps = Spans.of(mine.start_ns, mine.end_ns)
        busy = rows_spans(trace, device.rows).intersect(steps).measure_ns
        if steps.measure_ns:
            share = busy / steps.measure_ns
            what = "recording" if (mine.number == NO_STEP).any() else "step"
            shares.append(
                {"rank": device.rank, "device": device.device, "utilization_ratio": share, "of_what": what}
            )
    return shares
