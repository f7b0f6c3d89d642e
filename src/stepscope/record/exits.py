"""The ways a process ends or splits, and what each means for its runs.

- ``atexit``: runs that nobody closed are closed: finished, or failed where an uncaught exception ended the
  program, or ``sys.exit`` with a code did.
- SIGTERM, and SIGHUP of a terminal that goes away: everything is written and the run marked stopped; then the
  process does what it would have done: the earlier handler runs, or the process dies of the signal. A signal
  that was ignored, as under ``nohup``, stays ignored.
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
from typing import Any, NoReturn

from stepscope.record.clock import Deadline
from stepscope.record.info import Status
from stepscope.record.writer_loop import GRACE_SECS, WriterLoop

END_SECS = 20.0
"""How long the end of a run may take, for hooks, devices and the disk together; at exit, of all runs."""
SIGNAL_SECS = 5.0
"""The same after SIGTERM: schedulers kill what takes much longer, and other handlers need time, too."""
MARK_SHARE = 0.25
"""Share of that in which points are written and runs marked as stopped, before any hook ends."""

_open: list[WriterLoop] = []
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_previous: dict[int, Callable[[int, FrameType | None], Any] | int] = {}
_hooked = _hooked_threads = False
_exit = sys.exit
_exited: SystemExit | None = None
"""The last argument of ``sys.exit``; the interpreter does not keep it for ``atexit``."""
_logged_at_exit: dict[WriterLoop, int] = {}
"""How much each open run had logged then: a run that logs more was not ended by it, as somebody caught it."""


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
    if writer.uploader is not None:
        _hook_threads()
    if sys.exit is _exit:
        sys.exit = _exit_noted
    if signals:
        _install()


def release(writer: WriterLoop) -> None:
    """Forget a writer; with the last one the signal handler is removed."""
    if writer in _open:
        _open.remove(writer)
    _logged_at_exit.pop(writer, None)
    if not _open:
        _uninstall()
        _logged_at_exit.clear()
        if sys.exit is _exit_noted:
            sys.exit = _exit


def _exit_noted(code: Any = None, /) -> NoReturn:
    global _exited
    _exited = SystemExit(code)
    _logged_at_exit.update({writer: writer.log.logged for writer in _open})
    _exit(code)


def _hook_threads() -> None:
    """End runs for a store before Python ends its thread pools: the drivers of stores need them.

    What is registered with ``atexit`` is called after that. Python has no public name for this.
    """
    global _hooked_threads
    register_early = getattr(threading, "_register_atexit", None)
    if _hooked_threads or register_early is None:
        return
    import concurrent.futures.thread  # noqa: F401  it registers first, and what is registered last is called first

    _hooked_threads = True
    register_early(_before_pools_end)


def _before_pools_end() -> None:
    _end_all([writer for writer in _open if writer.uploader is not None])


def _at_exit() -> None:
    _end_all(_open.copy())


def _end_all(writers: list[WriterLoop]) -> None:
    # The interpreter leaves an uncaught exception here; in a notebook it may be an old one.
    failure = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    deadline = Deadline.after(END_SECS)
    for writer in writers:
        left = _exited if _logged_at_exit.get(writer) == writer.log.logged else None
        writer.end(*outcome(failure or left), on_clock_of(writer, deadline))
        release(writer)


def outcome(error: BaseException | None) -> tuple[Status, str | None]:
    """Return how a run ended, and why, given the exception that left it."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "finished", None
    try:
        text = str(error)
    except Exception as again:  # noqa: BLE001  any code may stand behind it, and it must not hide the error
        text = f"its text raised {type(again).__name__}"
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return ("stopped" if isinstance(error, KeyboardInterrupt) else "failed"), reason


def _in_child() -> None:
    for writer in _open:
        writer.forget()
    _open.clear()


# --- signals ----------------------------------------------------------------------------------------


def _install() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        current = signal.getsignal(number)
        if current is _on_signal or current is signal.SIG_IGN or current is None:
            continue
        try:
            signal.signal(number, _on_signal)
        except ValueError:  # a sub-interpreter
            return
        _previous[number] = current


def _uninstall() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number, previous in list(_previous.items()):
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, previous)
            del _previous[number]


def _on_signal(number: int, frame: FrameType | None) -> None:
    previous, writers, name = _previous.get(number), _open.copy(), signal.Signals(number).name
    # A writer that does not answer is waited for a little longer than its deadline.
    deadline = Deadline.after(max(SIGNAL_SECS - GRACE_SECS, GRACE_SECS))
    last_words = deadline if callable(previous) else deadline.within(MARK_SHARE * deadline.left())
    for left, writer in zip(range(len(writers), 0, -1), writers, strict=True):
        share = last_words.within(last_words.left() / left)
        writer.interrupt(name, on_clock_of(writer, share))
    if not callable(previous):
        for writer in writers:
            writer.end("stopped", name, on_clock_of(writer, deadline))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    previous(number, frame)
    # It returned, so the process lives on, perhaps to save a checkpoint: the run goes on until it is closed.
    for writer in writers:
        writer.resume()


def on_clock_of(writer: WriterLoop, deadline: Deadline) -> Deadline:
    """Return a deadline of the process by the clock of a run."""
    return Deadline.after(deadline.left(), writer.clock)
