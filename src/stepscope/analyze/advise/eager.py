"""eager-operations: operations are dispatched one by one, where one compiled function could hold them.

JAX outside of ``jax.jit``, Keras with ``run_eagerly``, TensorFlow outside of ``tf.function``: every operation
is looked up, checked and started from Python.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from stepscope.analyze.advise.cause import SET_UP, Cause, on_each
from stepscope.analyze.advise.finding import Abstain, Case, lines_told, most_frequent
from stepscope.analyze.advise.remedy import framework_of
from stepscope.analyze.advise.syncs import around, reads
from stepscope.analyze.advise.waited import Waited, outermost
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.model import Kind, among

NEAR_NS = 1_000_000
"""Longest gap between operations that contains only the Python from one to the next."""
LEAST = 0.1
_CALLS = re.compile(r"^PjitFunction\(|^Eager(?:Local|Remote|Kernel)?Execute: |^TFE_Py_(?:FastPath)?Execute")
_RUNS = re.compile(r"ThunkExecutor|^EagerKernelExecute|KernelAndDevice\w*::Run")
"""Frames that run an operation on the host itself: not part of dispatching it."""
_EXECUTION = re.compile(rf"Executable::Execute|{_RUNS.pattern}")
"""Those frames, and the call that runs a program if no threads of XLA's do."""


def _case(waited: Waited) -> Case | None:
    """Replay the steps without the time in which operations are dispatched one by one."""
    trace, lane = waited.trace, waited.lane
    called = named(trace, _CALLS)
    if not called.any():
        raise Abstain("no calls of compiled JAX functions or of TensorFlow operations")
    mine = (trace.lane == lane) & called[trace.name] & among(Kind.HOST_OP, Kind.RUNTIME_CALL)[trace.kind]
    rows = outermost(trace, np.flatnonzero(mine))
    rows = rows[waited.spans.holds(trace.start_ns[rows])]
    if lane < 0 or len(rows) < 2 * waited.count:
        return None
    handing = _handing(waited, trace.start_ns[rows], trace.end_ns[rows])
    reading = reads(waited)
    if len(reading):  # reading one value after another is a cause of its own
        handing = handing.minus(around(trace, reading))
    worth = waited.but_one(
        waited.worth(host={lane: handing}), _pieces(waited, rows), waited.own_parts(handing)
    )
    lines = waited.lines(handing)
    evidence: dict[str, Any] = {
        "operations_per_step": len(rows) / waited.count,
        "handing_ns": round(handing.measure_ns / waited.count),
        "most": most_frequent(trace, rows),
        "lines": lines_told(lines, handing.measure_ns),
    }
    return Case(waited, worth, evidence, lines[0] if lines else None, rows, spans=handing)


def _pieces(waited: Waited, rows: Ints) -> float:
    """Return how many calls of usual length one call would take the place of, in all steps.

    A step of several functions calls each of them once: that is not one by one. Where calls of the same
    functions take less than half of the time, only those after the first of each are.
    """
    _, name, calls = np.unique(waited.trace.name[rows], return_inverse=True, return_counts=True)
    usual = np.array([np.median(waited.trace.duration_ns[rows[name == at]]) for at in range(len(calls))])
    again = np.where(calls > waited.count, calls, 0)
    whole = float((calls * usual).sum())
    if 2 * (again * usual).sum() >= whole:
        return len(rows)
    more = float((np.maximum(again - waited.count, 0) * usual).sum())
    return waited.count * whole / max(whole - more, 1.0)


def _handing(waited: Waited, start: Any, end: Any) -> Spans:
    """Return the time of calls and between those near each other, without their execution on the host."""
    trace = waited.trace
    step = np.searchsorted(waited.steps.start_ns, start, side="right")
    near = (waited.own_lengths(end[:-1], start[1:]) < NEAR_NS) & (step[1:] == step[:-1])
    whole = Spans.of(np.concatenate((start, end[:-1][near])), np.concatenate((end, start[1:][near])))
    if waited.sampled is not None and waited.sampled.lane == waited.lane:
        # Python of the packages that call them prepares the calls, however long it takes.
        whole = whole.union(waited.sampled.in_packages_of(Spans.of(start, end)))
    whole = whole.intersect(waited.spans).minus(waited.activities.spans(waited.lane))
    if waited.has_device:
        return whole
    # Where XLA's threads execute, the call that hands a program to them does not.
    runs = named(trace, _RUNS if len(waited.executing) else _EXECUTION)
    executed = np.flatnonzero((trace.lane == waited.lane) & runs[trace.name])
    # A read of each result waits for a little work: only that work would be left in one call.
    return whole.minus(rows_spans(trace, executed)).minus(waited.busy)


EAGER = Cause(
    rule="eager-operations",
    width=1,
    cases=on_each(_case),
    say=lambda case: (
        f"{case.evidence['operations_per_step']:,.0f} operations "
        f"{'a step' if case.waited.marked else 'in all'} are dispatched one by one, for {case.cost}"
    ),
    remedies={
        "jax": "put the step under one jax.jit, and jax.lax.scan or jax.vmap in place of Python loops",
        "keras": "model.compile(run_eagerly=False, jit_compile=True), as run_eagerly is for debugging; put a "
        "loop of your own into one tf.function or jax.jit",
        "tensorflow": "put the step into one tf.function; tf.config.run_functions_eagerly(False)",
        "torch": "torch.compile the step",
        "python": "put the step into one compiled function",
    },
    least=LEAST,
    made=lambda case: SET_UP if framework_of(case.waited.trace) == "keras" else "",
    withdrawn=f"the steps with one call in place of these would not be {LEAST:.0%} shorter",
)
