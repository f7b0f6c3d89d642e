"""host-bound: the device runs dry because the host has not launched the next kernel yet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, gathered, graded
from stepscope.analyze.breakdown import loading_spans
from stepscope.analyze.device import devices, rows_spans
from stepscope.analyze.spans import Ints, Spans
from stepscope.analyze.windows import windows
from stepscope.trace.model import Trace

RULE = "host-bound"
MEDIUM, HIGH = 0.15, 0.4


def check(facts: Facts) -> Iterator[Finding]:
    """Sum the gaps of a device that began before the kernel after them was launched, data loading excepted.

    HTA calls such a gap a host wait; here streams are merged first, for a gap on one is no idleness while
    another works.
    """
    trace = facts.require("device", "launches")
    every = windows(trace)
    found = []
    looked = devices(trace)
    for device in looked:
        mine = every.of_rank(device.rank)
        steps = Spans.of(mine.start_ns, mine.end_ns)
        if not steps.measure_ns:
            raise Abstain("no steps with a duration")
        loading = loading_spans(trace, np.flatnonzero(trace.rank == device.rank))
        waited = _host_waits(trace, device.rows).intersect(steps).minus(loading)
        if waited.measure_ns / steps.measure_ns >= MEDIUM:
            found.append(
                {
                    "rank": device.rank,
                    "device": device.device,
                    "host_wait_ratio": waited.measure_ns / steps.measure_ns,
                    "host_wait_ns": waited.measure_ns,
                    "gaps": len(waited),
                }
            )
    if found:
        places = gathered(found, "host_wait_ratio", of=len(looked))
        ratio = places.worst["host_wait_ratio"]
        yield Finding(
            RULE,
            graded(ratio, medium=MEDIUM, high=HIGH),
            f"{places.label}the device waits for the host for {ratio:.0%} of the step",
            {**places.worst, **places.others},
            {"host_wait_ratio": MEDIUM},
            "launch less and sooner: torch.compile or CUDA graphs, larger batches, fused optimizers, "
            "no .item() or print of device values in the loop",
        )


def _host_waits(trace: Trace, rows: Ints) -> Spans:
    """Return the gaps between a device's work after which the first work was launched only in the gap."""
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    busy = rows_spans(trace, rows)
    start, end = busy.end[:-1], busy.start[1:]
    first = rows[np.searchsorted(trace.start_ns[rows], end)]
    launch = trace.launch[first]
    launched = np.where(launch >= 0, trace.start_ns[launch], np.iinfo(np.int64).min)
    waited = launched >= start
    return Spans.of(start[waited], end[waited])
