"""A command in a separate process, which can be ended whatever it does, and whose end is explained.

When memory runs out, libraries in Rust and C++ end their process or wait for ever, and a damaged file may do
worse. So a command that reads foreign files runs in a child, while this process, which has loaded almost
nothing, watches it and reports how it ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from stepscope.errors import StepscopeError
from stepscope.text import size

GRACE_S = 3.0
"""Seconds after Ctrl-C until code that handles no signal is ended."""
LOOK_MS = 100
"""Seconds between checks of the child's memory."""
_NO_THREAD = 127
"""The C library's exit code if a thread's own memory cannot be allocated."""
_PR_SET_PDEATHSIG = 1
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ()


def guarded(work: Callable[[], int], *, most_bytes: int = 0, interactive: bool = False) -> int:
    """Have a child do the work, and return its exit code; in the child, that of the work.

    Args:
        work: The work to do; it returns an exit code.
        most_bytes: A child that holds more memory of its own is ended; 0 for no bound.
        interactive: It has a prompt, at which Ctrl-C ends a line and not the command.
    """
    if not hasattr(os, "fork"):
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where a parent ignored it, nobody could wait
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    me = os.getpid()
    try:
        child = os.fork()
    except OSError:  # no process can be had: as well as it goes
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return work()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _end_with(me)
        code = work()
        # Ctrl-C that comes while the interpreter ends would be a traceback, and no exit code that says it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return code
    waiter = _Waiter(child, interactive=interactive)
    handlers = {number: signal.signal(number, waiter.signalled) for number in _PASSED_ON}
    signal.signal(signal.SIGALRM, waiter.overdue)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    greedy = _watch(child, most_bytes)
    # Its number stays its own, while signals are passed on.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if greedy and code < 0:
        return _complain(f"this takes more memory than the {size(most_bytes)} that is allowed")
    return _told(code, interrupted=waiter.interrupted)


def _watch(child: int, most_bytes: int) -> bool:
    """Wait until a child has ended, and end one that holds too much; return whether it did.

    Libraries that wait for ever, or spin, when they get no memory are not given a limit: they are ended.
    """
    if not most_bytes or not hasattr(os, "pidfd_open"):
        return False
    try:
        handle = os.pidfd_open(child)
    except OSError:  # an older kernel: its own bound is all there is
        return False
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        while not waiting.poll(LOOK_MS):
            if _held_bytes(child) > most_bytes:
                os.kill(child, signal.SIGKILL)
                return True
    finally:
        os.close(handle)
    return False


def _held_bytes(child: int) -> int:
    """Return the memory of a process that is not backed by files; 0 if that is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        words = Path(f"/proc/{child}/statm").read_text().split()
        return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


class _Waiter:
    """Passes signals on to the child."""

    def __init__(self, child: int, *, interactive: bool) -> None:
        self._child, self._interactive = child, interactive
        self.interrupted = False
        self._begged = False

    def signalled(self, number: int, _: FrameType | None) -> None:
        """Pass a signal on; the terminal sends Ctrl-C to both."""
        if number != signal.SIGINT:
            os.kill(self._child, number)
            return
        heard = _of_terminal()
        if not heard:
            os.kill(self._child, number)
        if not self._interactive and not self.interrupted:
            self.interrupted, self._begged = True, not heard
            signal.setitimer(signal.ITIMER_REAL, GRACE_S / 2, GRACE_S / 2)

    def overdue(self, *_: object) -> None:
        """Ask once more, as the signal may have been for this process alone; then end it."""
        os.kill(self._child, signal.SIGKILL if self._begged else signal.SIGINT)
        self._begged = True


def _of_terminal() -> bool:
    """Return whether this process is in the foreground of a terminal, whose signals go to the child, too."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def _told(code: int, *, interrupted: bool) -> int:
    """Return the exit code for a child's end, and report failures that the child itself could not."""
    if code >= 0 and code != _NO_THREAD:
        return code
    number = -code
    if interrupted or number == signal.SIGINT:
        return 130
    if number in _PASSED_ON:  # end in the same way, so that who waits for us sees it
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"exit status {code}"
    return _complain(
        f"the process that read it died ({name}): the file is damaged, or takes more memory than there is or "
        "than is allowed"
    )


def _complain(text: str) -> int:
    from stepscope.cli.output import complain

    hint = "record fewer steps, or set STEPSCOPE_READ_BYTES to more (0: no bound)"
    complain(StepscopeError(text, hint=hint))
    return 1


def _end_with(parent: int) -> None:
    """End this process when the other one is killed; if that is not possible, it continues to its end."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
