"""blocking-call: the training thread sleeps, or waits for a file, a lock or another process, in a step.

Known where stacks were sampled: they say whether the thread could run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Case, Facts, Finding, judged, lines_told
from stepscope.analyze.advise.remedy import open_line
from stepscope.analyze.advise.waited import Waited
from stepscope.analyze.device import rows_spans
from stepscope.analyze.sampled import FEWEST
from stepscope.analyze.spans import Spans
from stepscope.trace.model import Kind, among

RULE = "blocking-call"
LEAST = 0.05
_EXCHANGES = re.compile(r"(?:^|/)(?:torch/distributed|horovod|mpi4py|deepspeed/comm|jax/_src/distributed)\b")
ONE_LINE = 0.5
"""Share of the waiting that one line of the user's must account for."""


def check(facts: Facts) -> Iterator[Finding]:
    """Replay the steps without the time in which one line of the user's waits for no device."""
    looked = [waited for waited in facts.waited if waited.sampled is not None and len(waited.sampled.known)]
    if not looked:
        raise Abstain("no sampled stacks that tell whether the training thread could run")
    yield from judged(
        RULE,
        map(_case, looked),
        of=len(facts.waited),
        say=lambda case: f"the training thread waits for {case.cost_text}{case.where}; {case.free_text}",
        action=lambda case: (
            "move what waits there (a file, the network, a lock, a process, sleep) out of the steps, or "
            "do it ahead of time in a thread"
        ),
        command=lambda case: open_line(facts, case),
        least=LEAST,
        limits={"line_ratio": ONE_LINE},
        withdrawn=f"the steps without it would not be {LEAST:.0%} shorter, or no line accounts for half",
    )


def _case(waited: Waited) -> Case | None:
    sampled = waited.sampled
    if sampled is None or sampled.lane != waited.lane:
        return None
    blocked = sampled.waiting.intersect(waited.spans).intersect(waited.dry).minus(_explained(waited))
    lines = sampled.lines(blocked)
    if not lines or lines[0].time_ns < ONE_LINE * blocked.measure_ns:
        return None
    # Nothing holds the sampler up while a thread waits: one sample for a long time means that the machine
    # let neither run, which the kernel does not always count as waiting for a processor.
    if lines[0].rows < FEWEST:
        return None
    worth = waited.worth(host={waited.lane: blocked})
    evidence = {
        "waited_ns": round(worth.cost_ns / waited.count),
        "lines": lines_told(lines, blocked.measure_ns),
    }
    return Case(waited, worth, evidence, lines[0])


def _explained(waited: Waited) -> Spans:
    """Return the time of operators, calls and exchanges, and of what other rules are about."""
    trace = waited.trace
    called = among(Kind.HOST_OP, Kind.RUNTIME_CALL)[trace.kind]
    mine = (trace.lane == waited.lane) & called & (trace.device < 0)
    exchanges = (trace.rank == waited.rank) & among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind]
    told = rows_spans(trace, np.flatnonzero(mine | exchanges))
    return told.union(waited.activities.spans(waited.lane), waited.executing, _exchanging(waited))


def _exchanging(waited: Waited) -> Spans:
    """Return the time in which stacks say that ranks wait for each other."""
    if waited.sampled is None:
        return Spans.empty()
    of_stack = waited.sampled.of_frames(lambda text: 0 if _EXCHANGES.search(text) else -1)
    return waited.sampled.where_stack(of_stack == 0)
