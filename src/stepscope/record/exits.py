"""The ways a process ends or splits, and the effect of each on its runs.

- ``atexit``: runs that nobody closed are closed: finished, or failed if an uncaught exception ended the
  program, or ``sys.exit`` with a code did.
- A child of multiprocessing: the same when its function is left. After fork it leaves with ``os._exit``,
  which calls no ``atexit`` functions.
- The garbage collector takes a run: it is finished, unless an exception took it away.
- SIGTERM, and SIGHUP of a terminal that goes away: everything is written and the run marked stopped; then the
  process goes on as without us: the earlier handler runs, or the process dies of the signal. A signal that
  was ignored, as under ``nohup``, stays ignored.
- fork: the child's runs become inert, as the thread is not there and the file is the parent's.

Everything here waits for a bounded time only: one deadline is handed down to hooks and writers.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NoReturn

from stepscope.record import endings
from stepscope.record.clock import Deadline
from stepscope.record.console import console
from stepscope.record.endings import FINISHED, Outcome, outcome
from stepscope.record.watchdog import Watchdog
from stepscope.record.writer_loop import GRACE_SECS, WriterLoop

END_SECS = 20.0
"""How long the end of a run may take, for hooks, devices and the disk together; at exit, of all runs."""
SIGNAL_SECS = 5.0
"""The same after SIGTERM: schedulers kill slower processes, and other handlers need time, too."""
MARK_SHARE = 0.25
"""Share of that in which points are written and runs marked as stopped, before any hook ends."""

_open: list[WriterLoop] = []
_watchdog = Watchdog(_open.copy)
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_previous: dict[int, Callable[[int, FrameType | None], Any] | int] = {}
_hooked = _hooked_threads = False
_hooked_child = 0
"""The process whose end as a child of multiprocessing is known."""
_exit = sys.exit
_exited: Outcome | None = None
"""The end that the main thread's last ``sys.exit`` means; the interpreter does not keep it for ``atexit``."""
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
    # Those that the garbage collector ended may still be written; the program's end says nothing of them now.
    _open[:] = [other for other in _open if other.alive]
    for other in _open:
        other.left_behind = other.ended_alone
    _open.append(writer)
    _watchdog.start()
    console.watch()
    _hook_child()
    if writer.uploader is not None:
        _hook_threads()
    if sys.exit is _exit:
        sys.exit = _exit_noted
    if signals:
        _install()


def any_open() -> bool:
    """Return whether a run of this process takes points."""
    return any(writer.taking for writer in _open)


def release(writer: WriterLoop) -> None:
    """Forget a writer; with the last one the signal handler is removed."""
    if writer in _open:
        _open.remove(writer)
    _logged_at_exit.pop(writer, None)
    if not _open:
        _watchdog.wake()
        console.leave()
        _uninstall()
        _logged_at_exit.clear()
        if sys.exit is _exit_noted:
            sys.exit = _exit


def _exit_noted(code: Any = None, /) -> NoReturn:
    global _exited
    if threading.current_thread() is threading.main_thread():  # in another thread it ends that thread alone
        error = SystemExit(code)
        error.__context__ = sys.exc_info()[1]
        _exited = outcome(error)
        del error  # it would keep alive what the handled exception holds
        _logged_at_exit.update({writer: writer.log.logged for writer in _open})
    _exit(code)


def _hook_child() -> None:
    """Have multiprocessing end the runs of a child whose function is left."""
    global _hooked_child
    process = sys.modules.get("multiprocessing.process")
    if _hooked_child == os.getpid() or process is None or process.parent_process() is None:
        return
    from multiprocessing import util

    _hooked_child = os.getpid()
    util.Finalize(None, _at_exit_of_child, exitpriority=0)


def _at_exit_of_child() -> None:
    error, process = sys.exc_info()[1], sys.modules["multiprocessing.process"]
    # One that the parent handled while it forked was raised elsewhere.
    trace = None if error is None else error.__traceback__
    own = trace is not None and trace.tb_frame.f_code is process.BaseProcess._bootstrap.__code__
    _end_all(_open.copy(), error if own else None)


def _hook_threads() -> None:
    """End runs for a store before Python ends its thread pools: the drivers of stores need them.

    Functions of ``atexit`` are called after that. Python has no public name for this.
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
    if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt) and not hasattr(sys, "ps1"):
        # The interpreter then ends by SIGINT, unless code has been compiled since, such as a dataclass in a
        # module that the end of a run imports: it notes the exception that left the last compiled code.
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102


def _end_all(writers: list[WriterLoop], error: BaseException | None = None) -> None:
    # The interpreter leaves an uncaught exception here; in a notebook it may be an old one.
    error = error or (None if hasattr(sys, "ps1") else getattr(sys, "last_value", None))
    deadline = Deadline.after(END_SECS)
    for writer in writers:
        if writer.ended_alone:
            writer.end("finished", None, on_clock_of(writer, deadline))
            ended_later = error is None and not writer.left_behind and writer in _logged_at_exit
            if ended_later and _exited not in (None, FINISHED):
                writer.amend(*_exited)
            release(writer)
            continue
        ended = (_ended_by_exit(writer) or writer.left or FINISHED) if error is None else outcome(error)
        writer.end(*ended, on_clock_of(writer, deadline))
        release(writer)


def _ended_by_exit(writer: WriterLoop) -> Outcome | None:
    """Return the end that ``sys.exit`` gives a run; None if it was not called, or the run has gone on."""
    return _exited if _logged_at_exit.get(writer) == writer.log.logged else None


def end_collected(writer: WriterLoop, made_in: CodeType) -> None:
    """End a run that nobody closed, and that the garbage collector takes; called by its destructor.

    A function that an exception leaves keeps its run alive until the exception is gone: at the end of the
    handler, or at the end of the program if the handler calls ``sys.exit``.

    Args:
        writer: Of the run.
        made_in: The function that made the run.
    """
    ended = _ended_by_exit(writer) or writer.left
    if ended is None and (error := endings.handled_around(made_in)) is not None:
        ended = outcome(error)
    if ended is None:
        ended = endings.UNKNOWN if endings.dropped(sys._getframe(1).f_back) else FINISHED
    writer.ended_alone = ended == FINISHED
    _logged_at_exit.pop(writer, None)
    writer.ask_to_end(*ended, Deadline.after(END_SECS, writer.clock))


def _in_child() -> None:
    global _watchdog
    for writer in _open:
        writer.forget()
    _open.clear()
    console.leave()
    _watchdog = Watchdog(_open.copy)


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
            writer.end(*(writer.left or ("stopped", name)), on_clock_of(writer, deadline))
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
