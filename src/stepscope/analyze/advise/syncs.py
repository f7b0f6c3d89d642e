"""sync-points: the host stops and waits for the device inside the step, and the device runs dry after it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts
from stepscope.analyze.advise.remedy import framework_of
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.analyze.dependencies import Bound
from stepscope.analyze.views.measure import owners
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.purpose import BRANCH_OF, Branch, Purpose
from stepscope.attribute.sampled import READS
from stepscope.attribute.source_lines import Share, responsible
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.table import READING
from stepscope.text import most, often
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace


def _cases(facts: Facts) -> list[Case | None]:
    """Replay the steps with calls that do not wait; on a host alone, without reads of values."""
    looked = [waited for waited in facts.waited if waited.graph is not None]
    if not any(_judged(waited) for waited in looked):
        raise Abstain(
            "no runtime calls (cudaStreamSynchronize and others) and no reads of values inside the steps"
        )
    return [(_on_device if waited.has_device else _on_host)(facts, waited) for waited in looked]


def _judged(waited: Waited) -> bool:
    trace = waited.trace
    calls = np.flatnonzero((trace.kind == Kind.RUNTIME_CALL) & (trace.rank == waited.rank))
    inside = waited.spans.holds(trace.start_ns[calls])
    return bool(inside.any()) or not waited.has_device


def _on_device(facts: Facts, waited: Waited) -> Case | None:
    trace, made = facts.timeline, waited.graph
    if made is None:
        return None
    nodes = np.flatnonzero(made.bound[: 2 * len(made.host)] == Bound.SYNC)
    rows: Ints = distinct(made.row[nodes][made.row[nodes] >= 0]).astype(np.int64)
    rows = rows[waited.spans.holds(trace.start_ns[rows])]
    # A launch that stands still waits because too much is queued; nothing would be won if it did not.
    stuck = np.isin(rows, trace.launch[waited.device_rows[trace.kind[waited.device_rows] == Kind.KERNEL]])
    rows = rows[~stuck]
    if not len(rows) or waited.replay is None:
        return None
    worth = waited.worth(waits=rows)
    spent = int(trace.duration_ns[rows].sum())
    evidence = {
        "sync_ns": round(spent / waited.count),
        "syncs_per_step": len(rows) / waited.count,
        "calls": _calls(facts, rows),
    }
    lane, spans = int(trace.lane[rows[np.argmax(trace.duration_ns[rows])]]), rows_spans(trace, rows)
    lines = waited.lines(spans) if lane == waited.lane else responsible(trace, lane, spans)
    dry = waited.dry.measure_ns / waited.wall_ns
    chain = (
        f"no device works for {most(dry)} of the steps",
        "after each wait the host must launch work before a device can run again",
    )
    return Case(waited, worth, evidence, lines[0] if lines else None, rows, chain)


def _on_host(facts: Facts, waited: Waited) -> Case | None:
    trace, rows = facts.timeline, reads(waited)
    if not len(rows):
        return None
    spans = around(trace, rows)
    # Reads are shorter than the time between samples; where none hits one, some lie between two of a loop.
    lines = waited.lines(spans) or waited.lines(around(trace, rows, apart_ns=_APART_NS))
    evidence = {
        "read_ns": round(spans.measure_ns / waited.count),
        "reads_per_step": len(rows) / waited.count,
        "calls": _calls(facts, rows),
    }
    called = _called(waited, lines[0], spans) if lines else Spans.empty()
    spans = spans.union(called)
    worth = waited.worth(host={waited.lane: spans})
    # Of a call that is left out, no read is left.
    worth = waited.but_one(worth, np.inf if len(called) else len(rows), waited.own_parts(spans))
    if len(called):
        evidence["read_by"] = lines[0].calls
    case = Case(waited, worth, evidence, lines[0] if lines else None, rows, spans=spans)
    return case.bounded(len(called) > 0)


def _called(waited: Waited, line: Share, spans: Spans) -> Spans:
    """Return the time of the library's function that reads for a line, nothing if the line reads itself.

    The program can leave out the call, not the reads in it, unless the function runs the model, too: then
    more of its time is the model's than that of reads.
    """
    if waited.sampled is None or not line.calls or READS.search(f"<call of {line.calls}>"):
        return Spans.empty()
    called = waited.sampled.of_line(line.line, line.calls).intersect(waited.spans)
    trace, mine = waited.trace, waited.operators_in_steps
    branch = BRANCH_OF[attribution(trace).purpose[mine]]
    linked = trace.forward[trace.forward >= 0]
    forward = attribution(trace).purpose[mine] == Purpose.FORWARD
    model = mine[(branch == Branch.MODEL) & (~forward | np.isin(mine, linked))]
    ran = rows_spans(trace, model).intersect(called)
    return called if ran.measure_ns < spans.intersect(called).measure_ns else Spans.empty()


def reads(waited: Waited) -> Ints:
    """Return the reads of single values in the steps, none if a step has one: that is not one by one."""
    trace = waited.trace
    reading = named(trace, READING)
    rows: Ints = np.flatnonzero(reading[trace.name] & (trace.lane == waited.lane) & (trace.device < 0))
    rows = outermost(trace, rows)
    rows = rows[waited.spans.holds(trace.start_ns[rows])]
    labelled = waited.activities.spans(waited.lane)
    rows = rows[~labelled.holds(trace.start_ns[rows])]
    return rows if len(rows) >= 2 * waited.count else rows[:0]


_LOOP = 8
"""Multiple of a usual read's duration within which the next read belongs to the same loop."""
_APART_NS = 1_000_000
"""How far apart two reads of a loop may be if no sample is nearer: other operators run between them."""


def around(trace: Trace, rows: Ints, *, apart_ns: int = 20_000) -> Spans:
    """Return the time of reads and of the loops around them; reads so little apart belong to one loop."""
    start, end = trace.start_ns[rows], trace.end_ns[rows]
    usual = int(np.median(trace.duration_ns[rows]))
    near = (start[1:] - end[:-1]) < max(_LOOP * usual, apart_ns)
    return Spans.of(np.concatenate((start, end[:-1][near])), np.concatenate((end, start[1:][near])))


def _calls(facts: Facts, rows: Ints) -> list[dict[str, Any]]:
    trace = facts.timeline
    owner = owners(trace, facts.measures)
    where: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        by = trace.name_of(owner[row]) if owner[row] not in (row, -1) else "outside operators"
        entry = where.setdefault((trace.name_of(row), by), [0, 0])
        entry[0] += 1
        entry[1] += int(trace.duration_ns[row])
    longest = sorted(where.items(), key=lambda item: -item[1][1])[:5]
    return [
        {"name": name, "operator": operator, "calls": count, "total_ns": ns}
        for (name, operator), (count, ns) in longest
    ]


def _say(case: Case) -> str:
    unit = "a step" if case.waited.marked else "in all"
    if case.waited.has_device:
        count = case.evidence["syncs_per_step"]
        return f"the host waits for the device {often(count)} {unit}{case.where}, and what follows comes late"
    count = case.evidence["reads_per_step"]
    taken = "by a call that takes" if "read_by" in case.evidence else "for"
    return f"values are read one by one, {count:,.0f} {unit}, {taken} {case.cost}"


_SHAPED = re.compile(r"^aten::(?:nonzero|masked_select|_?unique\w*|repeat_interleave)")
"""Operators whose result has a shape that depends on values: the host waits to learn it."""


def _remedy(facts: Facts, case: Case) -> str:
    shaped = any(_SHAPED.search(one["operator"]) for one in case.evidence["calls"])
    read = {
        "torch": "take .item(), .cpu(), print and metrics of device values out of the loop, sum them on "
        "the device and "
        "read them every n steps; copy with non_blocking=True into pinned memory",
        "jax": "do not call float(), .item(), np.asarray or block_until_ready on each value: keep metrics "
        "on the device and "
        "read them together every n steps",
    }.get(framework_of(facts.timeline), "keep metrics on the device and read them together every n steps")
    return f"{_FIXED}; {read}" if shaped else read


_FIXED = (
    "the shape of what boolean indexing, nonzero and unique return depends on values, for which the host "
    "waits: keep shapes fixed with torch.where, or weights of 0 in place of a selection"
)


SYNCS = Cause(
    rule="sync-points",
    width=1,
    idles=True,
    cases=_cases,
    say=_say,
    remedies=_remedy,
    withdrawn=f"the steps would not be {WORTH:.0%} shorter if these calls did not wait",
)
