"""How a run ended, by the exception that left it, and which exception took a run away that nobody closed."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Iterator
from opcode import opmap
from types import CodeType, FrameType, TracebackType

from stepscope.record.info import Status
from stepscope.record.problems import outside_package
from stepscope.text import scrub_source

Outcome = tuple[Status, "str | None"]
"""Status and reason."""

FINISHED: Outcome = ("finished", None)
MAX_CAUSES = 16
"""Exceptions of a chain that are looked at: each was raised while the next was handled."""
MAX_FRAMES = 64
"""Frames of an exception's stack that are kept, of those nearest to the one that raised it."""
MAX_STACK = 16_000
"""Characters of a stack that are kept, the last ones."""
MAX_PART = 1_000
"""Characters of each of its frames and messages."""
UNKNOWN: Outcome = ("failed", "an exception left the code that held the run")
"""The end of which only this is known: the interpreter keeps no text of an exception that is gone."""


class Failure(str):
    """The text of an exception, with its stack.

    Attributes:
        stack: As the interpreter prints it, without secrets.
    """

    __slots__ = ("stack",)
    stack: str

    def __new__(cls, text: str, error: BaseException) -> Failure:
        """Take the stack of an exception; the exception itself would keep all frames alive."""
        failure = super().__new__(cls, text)
        failure.stack = stack_of(error)
        return failure


def stack_of(error: BaseException) -> str:
    """Return the stack of an exception, and of those that led to it; empty if nothing was raised in any."""
    if error.__traceback__ is None:
        return ""
    try:
        stack = traceback.TracebackException(
            type(error), error, error.__traceback__, limit=-MAX_FRAMES, compact=True
        )
        parts = (part if len(part) <= MAX_PART else f"{part[:MAX_PART]} …\n" for part in stack.format())
        return scrub_source("".join(parts))[-MAX_STACK:].strip()
    except Exception:  # noqa: BLE001  classes of exceptions are the user's, and must not hide the error
        return ""


def outcome(error: BaseException | None) -> Outcome:
    """Return how a run ended, and why, given the exception that left it.

    Of ``sys.exit`` with a code the reason is the exception that was handled then, if there was one.
    """
    if error is None:
        return FINISHED
    if not isinstance(error, SystemExit):
        if isinstance(error, KeyboardInterrupt):
            return "stopped", described(error)
        return "failed", Failure(described(error), error)
    if error.code in (None, 0):
        return FINISHED
    for cause in _causes(error):
        if isinstance(cause, KeyboardInterrupt):
            return "stopped", described(cause)
    causes = [cause for cause in _causes(error) if not isinstance(cause, SystemExit | GeneratorExit)]
    before = f"{described(causes[0])}, then " if causes else ""
    return "failed", Failure(f"{before}{described(error)}", causes[0] if causes else error)


def described(error: BaseException) -> str:
    """Return the type of an exception and its text."""
    try:
        text = str(error)
    except Exception as again:  # noqa: BLE001  any code may stand behind it, and it must not hide the error
        text = f"its text raised {type(again).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(MAX_CAUSES):
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None:
            return
        error = cause
        yield error


# --- which exception it was ------------------------------------------------------------------------------


def leaving(closed: BaseException) -> Outcome | None:
    """Return how a loop over steps was left, given its generator's exception; None for ``break``.

    The exception of the loop's body does not pass through the generator, which is only closed, and the
    interpreter shows it to nobody before it is caught. But its traceback refers to the frame that is left,
    at the instruction that it executes: that is how it is found among the newest objects.
    """
    if not isinstance(closed, GeneratorExit):
        return outcome(closed)
    frame = outside_package(sys._getframe(1))
    while frame is not None:
        trace = _trace_of(frame)
        if trace is None:
            return None
        error = _error_of(trace)
        if not isinstance(error, GeneratorExit):
            return UNKNOWN if error is None else outcome(error)
        frame = frame.f_back  # a generator around the loop, such as a progress bar, is closed as well
    return None


def _trace_of(frame: FrameType) -> TracebackType | None:
    """Return the traceback of an exception that leaves the frame now."""
    for generation in (0, 1):  # a collection may have moved it since it was made
        for thing in gc.get_objects(generation):
            if type(thing) is TracebackType and thing.tb_frame is frame and thing.tb_lasti == frame.f_lasti:
                return thing
    return None


def _error_of(trace: TracebackType) -> BaseException | None:
    """Return the exception of a traceback, None if it cannot be told.

    Before Python 3.12 an exception has its traceback only once it is caught. Then it is the newest one
    without.
    """
    parts: list[TracebackType | None] = []
    part: TracebackType | None = trace
    while part is not None:
        parts.append(part)
        part = part.tb_next
    fallback = None
    for generation in (0, 1):
        for thing in reversed(gc.get_objects(generation)):
            if not isinstance(thing, BaseException):
                continue
            own = thing.__traceback__
            if own is not None and any(own is frame for frame in parts):
                return thing
            if own is None and fallback is None and sys.version_info < (3, 12):
                fallback = thing
    return fallback


def dropped(frame: FrameType | None) -> bool:
    """Return whether the instruction that a frame executes lets go of an exception that it has handled.

    Whatever an object's destructor is called by then was held by that exception alone: by the frames that it
    left.
    """
    if frame is None or sys.implementation.name != "cpython":
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    if at < 0 or "POP_EXCEPT" not in opmap:
        return False
    if code[at] == opmap["POP_EXCEPT"]:
        return True
    # At the end of ``except … as error`` the name is set to None.
    if code[at] not in _STORES:
        return False
    at -= 2
    while at > 0 and code[at] == opmap["EXTENDED_ARG"]:
        at -= 2
    return at >= 2 and code[at] == opmap["LOAD_CONST"] and code[at - 2] == opmap["POP_EXCEPT"]


_STORES = {
    opmap[name] for name in ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF") if name in opmap
}


def handled_around(code: CodeType) -> BaseException | None:
    """Return the exception that is handled now if it left a function, or lost its frames.

    Args:
        code: Of the function.
    """
    error = sys.exc_info()[1]
    if error is None or error.__traceback__ is None:
        return error
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code and trace is not error.__traceback__:
            return error
        trace = trace.tb_next
    return None
