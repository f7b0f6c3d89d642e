"""The ways a process ends or splits, and what each means for its runs.

- ``atexit``: runs that nobody closed are closed: finished, or failed where an uncaught exception ended the
  program.
- SIGTERM: everything is written and the run marked stopped; then the process does what it would have done:
  the earlier handler runs, or the process dies of the signal. A signal that was ignored stays ignored.
- fork: the child's runs become inert, as the thread is not there and the file is the parent's.

Everything here waits for a bounded time only: one deadline is handed down to hooks and writers.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from stepscope.record.clock import Deadline
from stepscope.record.info import Status
from stepscope.record.writer_loop import GRACE_SECS, WriterLoop

END_SECS = 20.0
"""How long the end of a run may take, of hooks, devices and the disk together, or of all runs at exit."""
SIGNAL_SECS = 5.0
"""Likewise after SIGTERM: schedulers kill what takes much longer, and other handlers need time, too."""
MARK_SHARE = 0.25
"""Share of that in which points are written and runs marked as stopped, before any hook ends."""

_open: list[WriterLoop] = []
_previous: Callable[[int, FrameType | None], Any] | int | None = None
_hooked = False


def register(writer: WriterLoop, *, signals: bool = True) -> None:
    """Look after a writer until ``release``."""
    global _hooked
    if not _hooked:
        _hooked = True
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)
    _open[:] = [other for other in _open if other.alive]  # without those that the garbage collector ended
    _open.append(writer)
    if signals:
        _install()


def release(writer: WriterLoop) -> None:
    """Stop looking after a writer; the last one takes the signal handler along."""
    if writer in _open:
        _open.remove(writer)
    if not _open:
        _uninstall()


def _at_exit() -> None:
    # The interpreter leaves an uncaught exception here; in a notebook it may be an old one.
    failure = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    deadline = Deadline.after(END_SECS)
    for writer in _open.copy():
        writer.end(*outcome(failure), on_clock_of(writer, deadline))
        release(writer)


def outcome(error: BaseException | None) -> tuple[Status, str | None]:
    """Return how a run ended, and why, given the exception that left it."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "finished", None
    text = str(error)
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ("stopped" if isinstance(error, KeyboardInterrupt) else "failed"), reason


def _in_child() -> None:
    for writer in _open:
        writer.forget()
    _open.clear()


# --- SIGTERM ----------------------------------------------------------------------------------------


def _install() -> None:
    global _previous
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTERM"):
        return
    current = signal.getsignal(signal.SIGTERM)
    if current is _on_sigterm or current is signal.SIG_IGN or current is None:
        return
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
    except ValueError:  # a sub-interpreter
        return
    _previous = current


def _uninstall() -> None:
    global _previous
    if _previous is None or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, _previous)
        _previous = None


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    previous, writers = _previous, _open.copy()
    # A writer that does not answer is waited for a little longer than its deadline.
    deadline = Deadline.after(max(SIGNAL_SECS - GRACE_SECS, GRACE_SECS))
    last_words = deadline if callable(previous) else deadline.within(MARK_SHARE * deadline.left())
    for left, writer in zip(range(len(writers), 0, -1), writers, strict=True):
        share = last_words.within(last_words.left() / left)
        writer.interrupt("SIGTERM", on_clock_of(writer, share))
    if not callable(previous):
        for writer in writers:
            writer.end("stopped", "SIGTERM", on_clock_of(writer, deadline))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    previous(number, frame)
    # It returned, so the process lives on, perhaps to save a checkpoint: the run goes on until it is closed.
    for writer in writers:
        writer.resume()


def on_clock_of(writer: WriterLoop, deadline: Deadline) -> Deadline:
    """Return a deadline of the process by the clock of a run."""
    return Deadline.after(deadline.left(), writer.clock)
