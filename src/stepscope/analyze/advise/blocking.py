"""blocking-call: the training thread sleeps, or waits for a file, a lock or another process, in a step.

Known if stacks were sampled: they say whether the thread could run. Recorded frames show the calls of
Python that do nothing but wait, such as ``time.sleep`` and locks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.analyze.advise.cause import Cause, on_each
from stepscope.analyze.advise.finding import Abstain, Case, lines_told
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.sampled import MIN_SAMPLES
from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.table import BLOCKS, EXCHANGES, JOINS
from stepscope.trace.model import Kind, among

LEAST = 0.05
ONE_LINE = 0.5
"""Share of the waiting that one line of the user's must account for."""


def _tells(waited: Waited) -> bool:
    """Return whether stacks say when the thread that runs the steps waited."""
    if waited.sampled is not None:
        return bool(len(waited.sampled.known))
    return bool(len(waited.frames))


def _case(waited: Waited) -> Case | None:
    """Replay the steps without the time in which one line of the user's waits for no device."""
    if not _tells(waited):
        raise Abstain("no stacks, recorded or sampled, that tell whether the training thread could run")
    if waited.sampled is None:
        return _recorded(waited)
    if waited.sampled.lane != waited.lane:
        return None
    sampled = waited.sampled
    blocked = sampled.waiting.intersect(waited.spans).intersect(waited.dry).minus(_explained(waited))
    lines = sampled.lines(blocked)
    if not lines or lines[0].time_ns < ONE_LINE * blocked.measure_ns:
        return None
    # Nothing holds the sampler up while a thread waits: one sample for a long time means that the machine
    # let neither run, which the kernel does not always count as waiting for a processor.
    if lines[0].rows < MIN_SAMPLES:
        return None
    return _of(waited, blocked, lines)


def _recorded(waited: Waited) -> Case | None:
    """Return the time in the recorded calls of Python that only wait."""
    trace, frames = waited.trace, waited.frames
    rows = frames[named(trace, BLOCKS)[trace.name[frames]]]
    blocked = rows_spans(trace, rows).intersect(waited.spans).intersect(waited.dry)
    blocked = blocked.minus(_explained(waited)) if len(blocked) else blocked
    lines = waited.lines(blocked) if len(blocked) else []
    if not lines or lines[0].time_ns < ONE_LINE * blocked.measure_ns:
        return None
    return replace(_of(waited, blocked, lines), chain=_for_a_thread(waited, rows, blocked))


def _for_a_thread(waited: Waited, rows: Ints, blocked: Spans) -> tuple[str, ...]:
    """Return the known facts about threads that the training thread waits for most of the time."""
    trace = waited.trace
    joins = rows_spans(trace, rows[named(trace, JOINS)[trace.name[rows]]]).intersect(blocked)
    beside = (trace.rank == waited.rank) & (trace.lane != waited.lane) & (trace.device < 0)
    ran = rows_spans(trace, np.flatnonzero(beside)).intersect(joins)
    if joins.measure_ns < ONE_LINE * blocked.measure_ns or len(ran):
        return ()
    return ("it waits for other threads to end, and nothing that they did was recorded",)


def _of(waited: Waited, blocked: Spans, lines: list[Share]) -> Case:
    worth = waited.worth(host={waited.lane: blocked})
    evidence = {
        "waited_ns": round(worth.cost_ns / waited.count),
        "lines": lines_told(lines, blocked.measure_ns),
    }
    return Case(waited, worth, evidence, lines[0], spans=blocked)


def _explained(waited: Waited) -> Spans:
    """Return the time of operators, calls and exchanges, and of the subjects of other rules."""
    trace = waited.trace
    called = among(Kind.HOST_OP, Kind.RUNTIME_CALL)[trace.kind]
    mine = (trace.lane == waited.lane) & called & (trace.device < 0)
    exchanges = (trace.rank == waited.rank) & among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind]
    calls = rows_spans(trace, np.flatnonzero(mine | exchanges))
    activities = waited.activities.spans(waited.lane)
    return calls.union(activities, waited.executing, _exchanging(waited), waited.held_up)


def _exchanging(waited: Waited) -> Spans:
    """Return the time in which stacks say that ranks wait for each other."""
    if waited.sampled is None:
        trace, frames = waited.trace, waited.frames
        frames = frames[named(trace, EXCHANGES)[trace.name[frames]]]
        # One that began before a step may be a launcher's, around the whole program.
        inside = waited.spans.holds(trace.start_ns[frames])
        return rows_spans(trace, frames[inside])
    return waited.sampled.holding(EXCHANGES)


BLOCKING = Cause(
    rule="blocking-call",
    idles=True,
    cases=on_each(_case),
    say=lambda case: f"the training thread waits for {case.cost}",
    remedies={
        "": "move what waits there (a file, the network, a lock, a process, sleep) out of the steps, or do "
        "it ahead of time in a thread"
    },
    least=LEAST,
    limits={"line_ratio": ONE_LINE},
    withdrawn=f"the steps without it would not be {LEAST:.0%} shorter, or no line accounts for half",
)
