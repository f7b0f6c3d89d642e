"""The thread behind a run: it writes what is waiting, turn by turn, and answers requests to flush."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from stepscope.errors import RecordError
from stepscope.record.clock import Deadline
from stepscope.record.cost import Cost
from stepscope.record.event_log import EventLog
from stepscope.record.info import AttemptInfo, Status
from stepscope.record.intake import Intake
from stepscope.record.problems import Problems
from stepscope.record.writer import NOBODY_WAITS, FlushRequest, WriterTasks

if TYPE_CHECKING:
    from stepscope.record.uploader import Uploader

TURN_SECS = 0.25
GRACE_SECS = 1.0
"""The thread keeps a deadline by itself; a caller waits this much longer, because a disk may hang in a
call."""
WRITE_NOW_SHARE = 0.25
"""Share of what is left at the end that writing may take before the hooks end."""

OnClose = Callable[[Status | None, Deadline], None]


class WriterLoop:
    """Writes what a run records, on a thread of its own, and ends it.

    Args:
        writer: What the thread does.
        log: The event file that it writes.
        intake: Where points and summaries wait.
        info: What the run says about itself.
        cost: What recording costs.
        problems: Told of what could not be recorded.
        requests: What the thread waits for; None wakes it.
        uploader: Sends the run to its store.

    Attributes:
        on_close: Called with status and deadline before the run ends, while it still takes points; with None
            for the status in a forked child.
    """

    def __init__(
        self,
        writer: WriterTasks,
        log: EventLog,
        intake: Intake,
        info: AttemptInfo,
        cost: Cost,
        problems: Problems,
        requests: SimpleQueue[FlushRequest | None],
        *,
        uploader: Uploader | None = None,
    ) -> None:
        self.writer, self.log, self.uploader = writer, log, uploader
        self._intake, self._info, self._cost, self._problems = intake, info, cost, problems
        self.clock, self.requests = writer.clock, requests
        self.on_close: OnClose | None = None
        self._opened = threading.Event()
        self._late = False
        self._interrupted: str | None = None
        self._thread: threading.Thread | None = None

    # --- for other threads --------------------------------------------------------------------------

    def wait_until_open(self, seconds: float) -> bool:
        """Wait until the files are begun, so that an error is reported where the run is created.

        Returns:
            False if the disk does not answer; the files are begun once it does.
        """
        self._late = not self._opened.wait(seconds)
        return self._opened.is_set()

    def open(self) -> None:
        """Begin the files."""
        self.writer.open()
        self._opened.set()
        if self._late:
            self._problems.forgive("disk")  # a later fault is told again

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where the interpreter can start none."""
        self._thread = threading.Thread(target=self._loop, name="stepscope-writer", daemon=True)
        self._thread.start()
        self._intake.taking = True

    @property
    def alive(self) -> bool:
        """True if the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def flush_soon(self) -> None:
        """Write everything logged so far soon, without waiting for it."""
        self.requests.put(NOBODY_WAITS)

    def flush(self, deadline: Deadline, *, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system; False if it is not."""
        return self._ask(FlushRequest(deadline.at, sync=sync), deadline.left() + GRACE_SECS) is True

    def write_now(self, deadline: Deadline) -> None:
        """Wait shortly until what is there is with the operating system, whatever devices still compute."""
        self._ask(FlushRequest(float("-inf")), WRITE_NOW_SHARE * deadline.left())

    def close_hooks(self, status: Status, deadline: Deadline) -> None:
        """Call ``on_close`` once, while the run still takes points."""
        if self._intake.taking and self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close(status, deadline)

    def end(self, status: Status, reason: str | None, deadline: Deadline) -> int:
        """Write everything and end the thread; return how many points may be missing in the file."""
        if self.uploader is not None:
            self.uploader.ask_no_longer(deadline)
        self.close_hooks(status, deadline)
        wait_s = deadline.left()
        if self._intake.taking:
            self.close_books(status, reason)
            answer = self._ask(FlushRequest(deadline.at, last=True), wait_s + GRACE_SECS)
            wait_s = GRACE_SECS if answer is not None else 0.0
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(wait_s)
            self._intake.summaries.join(wait_s)
        if self.uploader is not None and (left := self.uploader.finish(deadline)):
            self._problems.warn(left)
        return self.writer.unwritten

    def ask_to_end(self, status: Status, reason: str | None, deadline: Deadline) -> None:
        """Have everything written and the thread ended, without waiting: for an object's destructor."""
        if self.uploader is not None:
            self.uploader.ask_no_longer(deadline)
        if self._intake.taking:
            self.close_books(status, reason)
            self.requests.put(FlushRequest(deadline.at, last=True))

    def interrupt(self, reason: str, deadline: Deadline) -> None:
        """Mark the run stopped and write everything, as the process may end at any moment."""
        self._interrupted = reason
        self._info.interrupt(reason)
        if self.uploader is not None:
            self.uploader.ask_no_longer(deadline)
        self.flush(deadline)
        if self.uploader is not None:
            self.uploader.soon()

    def resume(self) -> None:
        """Mark the run running after all; what interrupted it stays its reason."""
        if self._intake.taking:
            self._info.resume()

    def forget(self) -> None:
        """Become inert in a forked child, where the thread does not exist and the files are the parent's."""
        self._thread = None
        self._intake.forget()
        self._problems.forget()
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close(None, Deadline())
        self.writer.forget()
        if self.uploader is not None:
            self.uploader.forget()

    def close_books(self, status: Status, reason: str | None) -> None:
        """Take no more points, and note how the run ends."""
        self._intake.close()
        if self._interrupted and status == "finished":
            status, reason = "stopped", self._interrupted
        self._info.end(status, reason, self.clock.wall())

    def _ask(self, request: FlushRequest, timeout: float) -> bool | None:
        """Put a request and wait for its answer; None if none comes."""
        if not self.alive or self._thread is threading.current_thread():
            return None
        self.requests.put(request)
        try:
            return request.reply.get(timeout=timeout)
        except Empty:
            return None

    # --- the thread ---------------------------------------------------------------------------------

    def _loop(self) -> None:
        self._cost.restart(self.clock.steady(), self.clock.cpu())
        with self._surviving():
            self.open()
        self._opened.set()
        last = False
        while not last:
            requests = self.next_requests()
            last = any(request.last for request in requests)
            with self._surviving():
                if requests:
                    self.writer.drain(requests)
                else:
                    self.writer.turn(self.clock.steady())

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  a defect of ours must not silently end all recording
            what = f"not recorded: {type(error).__name__}: {error}"
            self._problems.post("defect", RecordError(what, hint="please report this"), points=0)

    def next_requests(self) -> list[FlushRequest]:
        """Wait for the next turn; return the requests that came meanwhile."""
        found: list[FlushRequest] = []
        try:
            request = self.requests.get(timeout=min(TURN_SECS, self.writer.flush_secs / 2))
            while True:
                if request is not None:
                    found.append(request)
                request = self.requests.get_nowait()
        except Empty:
            return found
