"""host-callback: a compiled step calls back into Python, and the device is idle meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.analyze.advise.cause import Cause, on_each
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, lines_told, longest
from stepscope.analyze.advise.remedy import show
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.attribution import pipeline_lanes
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.table import CALLBACKS
from stepscope.trace.model import Kind, among


def of_the_loader(waited: Waited) -> Ints:
    """Return the calls of Python by which a pipeline of ``tf.data`` makes its elements."""
    rows = _rows(waited)
    loading = pipeline_lanes(waited.trace)
    return rows[loading[waited.trace.lane[rows]]]


def _rows(waited: Waited) -> Ints:
    trace = waited.trace
    called = named(trace, CALLBACKS)
    mine = (trace.rank == waited.rank) & called[trace.name]
    return np.flatnonzero(mine & among(Kind.HOST_OP, Kind.KERNEL)[trace.kind])


def of_thread(waited: Waited) -> Spans:
    """Return the time in which compiled code on the training thread itself calls Python."""
    rows = _rows(waited)
    return rows_spans(waited.trace, rows[waited.trace.lane[rows] == waited.lane])


def _case(waited: Waited) -> Case | None:
    """Look at the operations of compiled code that call Python."""
    trace, rows = waited.trace, _rows(waited)
    compiled = len(waited.executing) or waited.has_device or len(of_thread(waited))
    if trace.format not in ("xplane", "timeline", "step_stats", "chrome") or not compiled:
        raise Abstain("no compiled code of XLA or TensorFlow whose operations are known")
    # The step waits for a pipeline where it takes an element, not for what the pipeline calls meanwhile.
    rows = rows[~pipeline_lanes(trace)[trace.lane[rows]]]
    spans = rows_spans(trace, rows).intersect(waited.spans)
    if not len(spans):
        return None
    worth = waited.whole(spans)
    evidence: dict[str, Any] = {
        "called_ns": round(spans.measure_ns / waited.count),
        "calls_per_step": len(rows) / waited.count,
        "events": longest(trace, rows),
    }
    lines = [] if waited.sampled is None else waited.sampled.called_lines(spans)
    lines = lines or waited.lines(of_thread(waited).intersect(spans))
    evidence["lines"] = lines_told(lines, spans.measure_ns)
    line = lines[0] if lines else None
    return Case(
        waited, worth, evidence, line, rows[np.argsort(-trace.duration_ns[rows], kind="stable")], spans=spans
    )


CALLBACK = Cause(
    rule="host-callback",
    idles=True,
    cases=on_each(_case),
    say=lambda case: f"compiled code calls Python ({case.evidence['events'][0]['name']}) for {case.cost}",
    remedies={
        "": "compute it in the compiled step, or return the values and handle them outside of it every n "
        "steps: jax.pure_callback, jax.experimental.io_callback, jax.debug.print and tf.py_function all wait "
        "for Python's lock"
    },
    command=lambda facts, case: show(facts, "op", case.evidence["events"][0]["name"], order="micros"),
    withdrawn=f"no operation of compiled code calls Python for {WORTH:.0%} of the steps",
)
