"""Watches the threads that write, and says so within seconds if one of them has stopped."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from stepscope.errors import RecordError
from stepscope.record.problems import PACKAGE

if TYPE_CHECKING:
    from stepscope.record.writer_loop import WriterLoop

LOOK_SECS = 1.0
STUCK_SECS = 5.0
"""Seconds without a sign of life of a thread that turns four times a second."""
REASON = "writer"


class Watchdog:
    """A thread that looks at all open runs of the process; it ends with the last of them.

    Args:
        writers: Returns those that are open.
        steady: Gives the time in seconds; not the clock of a run, which a test may stop.
    """

    def __init__(
        self, writers: Callable[[], Sequence[WriterLoop]], steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._writers, self._steady = writers, steady
        self._seen: dict[WriterLoop, tuple[int, float]] = {}
        self._told: set[WriterLoop] = set()
        self._wake, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch, unless it does already. Without a thread to be had nobody watches."""
        with self._lock:
            if self._thread is None:
                self._wake.clear()
                thread = threading.Thread(target=self._loop, name="stepscope-watchdog", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._thread = thread

    def wake(self) -> None:
        """Have the thread end soon if no run is open."""
        self._wake.set()

    def _loop(self) -> None:
        while True:
            self._wake.wait(LOOK_SECS)
            self._wake.clear()
            with self._lock:
                if not any(writer.taking for writer in self._writers()):
                    self._thread = None
                    self._seen.clear()
                    self._told.clear()
                    return
            self.look()

    def look(self) -> None:
        """Report each thread that gave no sign of life for ``STUCK_SECS``, once until it goes on."""
        now = self._steady()
        for writer in self._writers():
            beats, since = self._seen.get(writer, (-1, now))
            if not writer.opened or not writer.taking:
                self._seen.pop(writer, None)
            elif writer.beats != beats:
                self._seen[writer] = writer.beats, now
                if writer in self._told:
                    self._told.discard(writer)
                    writer.problems.forgive(REASON)
            elif writer not in self._told and (not writer.alive or now - since >= STUCK_SECS):
                self._told.add(writer)
                writer.problems.post(REASON, stopped(writer, now - since))
                writer.attract()


CALLED = frozenset((*sys.stdlib_module_names, "numpy"))
"""Packages whose functions this one calls itself."""


def stopped(writer: WriterLoop, seconds: float) -> RecordError:
    """Return the error for a thread that has stopped writing."""
    what, hint = "its thread has ended", "please report this; start the training again to record more"
    if writer.alive:
        place = _user_code(sys._current_frames().get(writer.ident))
        what = f"for {seconds:.0f} s the disk has not answered, or its thread got no processor"
        hint = "check whether the file system hangs (ls, df, dmesg), or the machine is overloaded (uptime)"
        if place is not None:
            code, line = place.f_code, place.f_lineno
            what = f"for {seconds:.0f} s it has waited for {code.co_name} in {code.co_filename}:{line}"
            hint = "a function that is called with recorded values or findings must return soon"
    return RecordError(
        f"the run is not written: {what}; training goes on, what is logged waits in memory, and points "
        "beyond max_queue_bytes are dropped and counted",
        hint=hint,
        path=writer.directory,
    )


def _user_code(frame: FrameType | None) -> FrameType | None:
    """Return the user's function that this package has called on a thread, None if it has not called any.

    Waiting for a lock or a disk is code of the standard library, and nobody's function; numpy is called here.
    """
    code = None
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in CALLED:
            code = frame
        frame = frame.f_back
    return code
