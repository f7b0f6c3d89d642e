"""busy-machine: the training thread waits for a processor that other threads or processes use."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, events_of, place_of_rank
from stepscope.analyze.advise.remedy import quoted
from stepscope.analyze.advise.waited import Waited
from stepscope.text import share, time

RULE = "busy-machine"
BUSY = 0.2
"""Share of the steps from which on that is reported."""


def is_busy(waited: Waited) -> bool:
    """Return whether other threads or programs had the processors for so long that times vary with them."""
    return not waited.has_device and waited.queued_ratio >= BUSY


def check(facts: Facts) -> Iterator[Finding]:
    """Measure the waits for a processor in the time in which no device works."""
    looked = [waited for waited in facts.waited if waited.queued_ns is not None]
    if not looked:
        raise Abstain("how long the training thread waited for a processor was not recorded")
    busiest = max(looked, key=lambda waited: waited.queued_ratio)
    part = busiest.queued_ratio
    if part < BUSY:
        return
    queued = round((busiest.queued_ns or 0) / busiest.count)
    on_rank = f" of rank {busiest.rank}" if len(facts.waited) > 1 else ""
    evidence = {"queued_ns": queued, "queued_ratio": part}
    if len(looked) > 1:
        evidence["busy_ranks"] = sum(one.queued_ratio >= BUSY for one in looked)
    yield Finding(
        RULE,
        "info",
        f"the training thread{on_rank} waited for a processor for {share(part)} of the steps"
        f" ({time(queued)} a step), while other threads or processes ran",
        evidence,
        {"queued_ratio": BUSY},
        "let fewer threads and processes share the processors: fewer loader workers, fewer threads of each "
        "library (OMP_NUM_THREADS), other work elsewhere; the host's times in this profile include these "
        "waits",
        place=place_of_rank(facts.timeline, busiest.rank),
        events=events_of(facts.timeline, busiest.step_rows),
        command=f"stepscope glance {quoted(facts)}",
        withdrawn=f"it waited for a processor for less than {BUSY:.0%} of the steps",
    )
