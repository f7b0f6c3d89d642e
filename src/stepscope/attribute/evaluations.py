"""Evaluations, recognized by their content: the model runs, and no gradient is computed.

Work without gradients before the backward pass may be part of the loss, such as a teacher's or a
target's answer, or of the data, such as a policy's actions. After it, only an evaluation needs it. Steps
without any backward pass do not train, and show nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.attribute.spans import Ints
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

_CALLERS = (Kind.HOST_OP, Kind.MODULE_SCOPE)
_NEVER = np.iinfo(np.int64).max
SAME_LINES = 0.5
"""Share of a program's time that is of lines of the model's forward pass."""


def modules_without_gradients(trace: Trace, backward: Ints) -> Ints:
    """Return the outermost calls of PyTorch modules without gradients after the backward pass of their step.

    PyTorch numbers operators for autograd if gradients are wanted: in these calls none has a number.

    Args:
        trace: Any trace.
        backward: Rows of the operators of the backward pass.
    """
    table, nothing = trace.operators, np.zeros(0, np.int64)
    if trace.format != "kineto" or not len(trace.steps) or not (table.sequence >= 0).any():
        return nothing
    scopes = np.flatnonzero((trace.kind == Kind.MODULE_SCOPE) & (trace.device < 0))
    # What an operator calls, as recomputing of activations does, is a part of it.
    scopes = scopes[(trace.parent[scopes] < 0) | ~among(*_CALLERS)[trace.kind[trace.parent[scopes]]]]
    numbered = table.row[table.sequence >= 0]
    operators = np.flatnonzero(trace.kind == Kind.HOST_OP)
    without = (_within(trace, scopes, numbered) == 0) & (_within(trace, scopes, operators) > 0)
    return _after(trace, scopes[without], backward)


def programs_without_gradients(trace: Trace) -> Ints:
    """Return XLA's executions of programs with the model's forward pass and nothing of its backward pass.

    The instructions of a program know the lines of the source that they were made of, and whether a
    transformation made them: ``jvp`` and ``transpose`` are those of gradients. A program is the model's if
    most of its time is of lines that another program with gradients also has in its forward pass.
    """
    table, nothing = trace.instructions, np.zeros(0, np.int64)
    if not len(table) or not len(trace.steps):
        return nothing
    texts = [*trace.strings.texts(), ""]
    backward = _that(texts, "transpose(")[table.framework]
    forward = _that(texts, "jvp(")[table.framework] & ~backward
    known = (table.module >= 0) & (table.line >= 0)
    trained = distinct(table.module[backward & known])
    lines = distinct(table.line[forward & known & np.isin(table.module, trained)])
    programs = []
    for module in distinct(table.module[known]).tolist():
        mine = table.module == module
        if (backward | forward)[mine].any():
            continue
        time = trace.duration_ns[table.row[mine]]
        same = np.isin(table.line[mine], lines)
        if time.sum() and time[same].sum() >= SAME_LINES * time.sum():
            programs.append(table.row[mine])
    rows = np.sort(np.concatenate(programs)) if programs else nothing
    return _after(trace, rows, table.row[np.isin(table.module, trained) & (backward | forward)])


def _that(texts: list[str], part: str) -> npt.NDArray[np.bool_]:
    return np.array([part in text for text in texts], bool)


def _after(trace: Trace, rows: Ints, backward: Ints) -> Ints:
    """Return the rows that come after the last work of a backward pass and before the next step."""
    parts = [np.zeros(0, np.int64)]
    for rank in distinct(trace.rank[rows]).tolist() if len(rows) and len(backward) else ():
        mine, work = rows[trace.rank[rows] == rank], backward[trace.rank[backward] == rank]
        begins = np.sort(trace.steps.start_ns[trace.steps.rank == rank])
        # Each step's part goes on until the next one begins: what lies in between belongs to neither.
        of = np.searchsorted(begins, trace.start_ns[work], side="right")
        last = np.full(len(begins) + 1, -1)
        np.maximum.at(last, of, trace.end_ns[work])
        last[last < 0] = _NEVER
        last[0] = _NEVER  # the step that was going on when recording began
        step = np.searchsorted(begins, trace.start_ns[mine], side="right")
        parts.append(mine[trace.start_ns[mine] >= last[step]])
    return np.concatenate(parts)


def _within(trace: Trace, around: Ints, rows: Ints) -> Ints:
    """Return how many of some rows lie within each of others: rows of a lane are in the order of calls."""
    inside = np.zeros(len(trace) + 1, np.int64)
    inside[rows + 1] = 1
    count, end = np.cumsum(inside), np.empty(len(around), np.int64)
    for lane in distinct(trace.lane[around]).tolist():
        mine = np.flatnonzero(trace.lane[around] == lane)
        first, last = np.searchsorted(trace.lane, [lane, lane + 1])
        end[mine] = first + np.searchsorted(trace.start_ns[first:last], trace.end_ns[around[mine]])
    count_inside: Ints = count[end] - count[around + 1]
    return count_inside
