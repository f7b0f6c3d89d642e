"""The stacks of other threads, taken while they run.

CPython 3.11 creates the object of a frame when it is first asked for. Creating an object may start the
garbage collector, which may run a finalizer, during which another thread may continue. The new object may
then belong to a frame that has already returned, and using it ends in a segmentation fault
(python/cpython#97002 has the same cause). So the collector is switched off while a stack is taken; compiled,
no other thread notices that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from sys import _current_frames
from time import perf_counter_ns
from types import CodeType, FrameType

import cython

if cython.compiled:
    from cython.cimports.stepscope.kernels.frames import PyGC_Disable, PyGC_Enable
else:
    import gc

    def PyGC_Disable() -> bool:  # noqa: N802 - the name it has in C
        """Switch the collector off; return whether it was on."""
        was = gc.isenabled()
        gc.disable()
        return was

    PyGC_Enable = gc.enable

MOST_CALLS = 256
"""Innermost calls of a stack that are kept."""

Call = tuple[CodeType, int]
"""A call that has not returned: its code, and the offset in bytes of the instruction that it is at."""


def stacks(
    clock: Callable[[], int] = perf_counter_ns,
    most: cython.Py_ssize_t = MOST_CALLS,
    without: Collection[int] = frozenset(),
) -> tuple[int, dict[int, list[Call]]]:
    """Return the time, and the stacks of threads that run Python at that time, innermost call first.

    Compiled, no other thread runs Python between taking the stacks and reading the clock. If the caller read
    the clock, a thread might have run in between, for as long as it holds the interpreter's lock.

    Args:
        clock: Returns ns.
        most: Innermost calls that are kept.
        without: Threads whose stacks are not wanted.
    """
    by_thread: dict[int, list[Call]] = {}
    was = PyGC_Disable()
    try:
        for ident, frame in _current_frames().items():
            if ident not in without:
                by_thread[ident] = outward(frame, None, most)
        frame = None
        looked: int = clock()
    finally:
        if was:
            PyGC_Enable()
    return looked, by_thread


def stack(thread: int, around: FrameType | None = None, most: cython.Py_ssize_t = MOST_CALLS) -> list[Call]:
    """Return the stack of one thread, innermost call first; empty where it has ended.

    Args:
        thread: Its identity.
        around: Only calls made within this one are returned; nothing if it has returned.
        most: Innermost calls that are kept.
    """
    was = PyGC_Disable()
    try:
        return outward(_current_frames().get(thread), around, most)
    finally:
        if was:
            PyGC_Enable()


@cython.ccall
def outward(
    frame: FrameType | None, around: FrameType | None = None, most: cython.Py_ssize_t = MOST_CALLS
) -> list[Call]:
    """Return the calls of the calling thread, from a frame outwards; other arguments as in ``stack``."""
    calls: list[Call] = []
    while frame is not None and frame is not around:
        if len(calls) < most:
            calls.append((frame.f_code, frame.f_lasti))
        elif around is None:
            return calls
        frame = frame.f_back
    return calls if around is None or frame is not None else []


def line_of(code: CodeType, instruction: int) -> int:
    """Return the line of source of an instruction, the first of its function where it has none."""
    for begin, end, line in code.co_lines():
        if begin <= instruction < end:
            return line or code.co_firstlineno
    return code.co_firstlineno
