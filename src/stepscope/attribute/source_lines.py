"""Which line of the user's own code some time of a thread belongs to.

Recorders write Python frames in four ways: ``train.py(31): fetch`` (PyTorch), ``$train.py:31 fetch``
(XPlane),
``fetch (train.py:31)`` (viztracer, sampled) and, as a stack beside an operator, a chain of the first. The
line
is the one that the recorder gives: PyTorch gives the line at which the function begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.named import of_names
from stepscope.attribute.origin import SourceLine, line_of, origins
from stepscope.attribute.spans import Ints, Spans
from stepscope.kernels import tree
from stepscope.trace.model import Kind, Trace


@dataclass(frozen=True, slots=True)
class Share:
    """How much of some time a line accounts for."""

    line: SourceLine
    time_ns: int
    rows: int
    name: str
    """As recorded, for a search."""
    calls: str = ""
    """The function in which most of that time passed, if stacks were sampled and the line called one."""


MOST_LINES = 8
LEADING = 0.25
"""Least share of some time that the line has that is named as its place."""
EVERY = 1 << 20
"""More lines than any program has."""


def responsible(trace: Trace, lane: int, spans: Spans, *, most: int = MOST_LINES) -> list[Share]:
    """Return the innermost lines of the user's own code that ran on a thread in some time, most time first.

    Args:
        trace: The trace.
        lane: The thread.
        spans: The time.
        most: So many are returned.
    """
    rows = np.flatnonzero(trace.lane == lane)
    own = rows[user_frames(trace)[rows] == rows]
    lines = _from_frames(trace, own, spans) if len(own) else []
    return (lines or _from_stacks(trace, rows, spans))[:most]


def leading(lines: list[Share], whole_ns: float) -> Share | None:
    """Return the first line if it accounts for enough of some time to be named as its place."""
    return lines[0] if lines and lines[0].time_ns >= LEADING * whole_ns else None


def callers(trace: Trace, rows: Ints) -> list[Share]:
    """Return the innermost lines of the user's own code around some rows, most time first."""
    frame = user_frames(trace)[rows]
    known = frame >= 0
    return _ranked(trace, trace.name[frame[known]], trace.duration_ns[rows[known]])


def user_frames(trace: Trace) -> npt.NDArray[np.int32]:
    """Return the row of the innermost frame of the user's own code around each event, -1 without one.

    It is the event itself if that is such a frame.
    """

    def find() -> npt.NDArray[np.int32]:
        own = of_names(trace, origins(trace).is_own, np.bool_)
        return trace.nearest((trace.kind == Kind.PYTHON_FRAME) & own[trace.name])

    return trace.derived("user frames", find)


def user_lines(trace: Trace) -> npt.NDArray[np.int32]:
    """Return the innermost line of the user's own code around each event, -1 without one.

    Lines are numbers for :func:`line_text`: of recorded frames, and of stacks beside operators.
    """

    def find() -> npt.NDArray[np.int32]:
        frame, stack = user_frames(trace), trace.stack
        line = np.where(frame == np.arange(len(trace)), trace.name, np.int32(-1))
        if len(trace.stacks):
            beside = np.append(_own_of_stacks(trace), np.int32(-1))[stack]
            line = np.where((line < 0) & (beside >= 0), beside + len(trace.strings), line)
        line = np.ascontiguousarray(line, np.int32)
        tree.inherit(np.ascontiguousarray(trace.parent, np.int32), line)
        return line

    return trace.derived("user lines", find)


def line_text(trace: Trace, number: int) -> str:
    """Return a line of :func:`user_lines` as it was recorded, ``""`` for -1."""
    if number < 0:
        return ""
    strings = len(trace.strings)
    return str(trace.strings[number] if number < strings else trace.stacks.strings[number - strings])


def _from_frames(trace: Trace, own: Ints, spans: Spans) -> list[Share]:
    start = trace.start_ns[own]
    covered = spans.within(start, start + trace.duration_ns[own])
    above = np.where(trace.parent[own] >= 0, user_frames(trace)[trace.parent[own]], -1)
    exclusive = covered.copy()
    places = np.searchsorted(own, above[above >= 0])
    np.subtract.at(exclusive, places, covered[above >= 0])
    return _ranked(trace, trace.name[own], exclusive)


def _from_stacks(trace: Trace, rows: Ints, spans: Spans) -> list[Share]:
    """Use the stacks beside operators: each counts for its operator's own time."""
    known = rows[(trace.stack[rows] >= 0) & (trace.self_ns[rows] > 0)]
    if not len(known):
        return []
    start = trace.start_ns[rows]
    covered = np.zeros(len(trace), np.int64)
    covered[rows] = spans.within(start, start + trace.duration_ns[rows])
    # What lies in an operator's own part of the time: without what lies in those right within it.
    inner_rows = rows[trace.parent[rows] >= 0]
    inside = np.bincount(trace.parent[inner_rows], weights=covered[inner_rows], minlength=len(trace))
    covered = np.minimum((covered - inside.astype(np.int64))[known], trace.self_ns[known])
    known, covered = known[covered > 0], covered[covered > 0]
    name = _own_of_stacks(trace)[trace.stack[known]]
    named = name >= 0
    return _ranked(trace, name[named], covered[named], trace.stacks.strings)


def _own_of_stacks(trace: Trace) -> npt.NDArray[np.int32]:
    """Return the innermost frame of the user's own code of each stack, -1 without one."""

    def find() -> npt.NDArray[np.int32]:
        stacks, is_own = trace.stacks, origins(trace).is_own
        own = np.array([is_own(text) for text in stacks.strings], bool)
        inner = np.where(own[stacks.name], stacks.name, np.int32(-1)).astype(np.int32)
        tree.inherit(np.ascontiguousarray(stacks.parent, np.int32), inner)
        return inner

    return trace.derived("user frames of stacks", find)


_MOST_RANKED = 64


def _ranked(trace: Trace, name: Ints, time: Ints, strings: Sequence[str] | None = None) -> list[Share]:
    texts = trace.strings if strings is None else strings
    total, count = np.bincount(name, weights=time), np.bincount(name, weights=time > 0)
    lines = []
    for number in np.argsort(-total, kind="stable")[:_MOST_RANKED].tolist():
        line = line_of(texts[number])
        if total[number] > 0 and line is not None:
            lines.append(Share(line, int(total[number]), int(count[number]), texts[number]))
    return lines
