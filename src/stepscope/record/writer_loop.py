"""The thread behind a run: it writes what waits, turn by turn, and answers who wants that now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from stepscope.errors import RecordError
from stepscope.kernels.steps import Steps
from stepscope.record.clock import Clock, Deadline
from stepscope.record.cost import Cost
from stepscope.record.event_log import EventLog
from stepscope.record.info import AttemptInfo, Status
from stepscope.record.intake import Intake
from stepscope.record.problems import Problems
from stepscope.record.roles.detect import RuntimeWatch, new_chief
from stepscope.record.telemetry import Telemetry, attempt_of

if TYPE_CHECKING:
    from stepscope.record.roles.role import Role
    from stepscope.record.uploader import Uploader

TURN_SECS = 0.25
POLL_SECS = 0.001
GRACE_SECS = 1.0
"""The thread keeps a deadline by itself; who waits for it waits longer by this: a disk may hang in a call."""
WRITE_NOW_SHARE = 0.25
"""Share of what is left at the end that writing may take before the hooks end."""
LAST_TRIES_SECS, LAST_TRIES_SHARE, LAST_RETRY_SECS = 2.0, 0.25, 0.05
"""How long, and for how much of what is left at the end, a write that failed is tried again, and how soon."""

OnClose = Callable[[Status | None, Deadline], None]


@dataclass
class FlushRequest:
    """A wish that everything logged so far reach the file.

    Attributes:
        deadline: Steady time in seconds after which devices are no longer waited for.
        sync: Also wait until it is on the disk.
        last: End the thread afterwards.
        reply: Gets one bool: whether all was written.
    """

    deadline: float
    sync: bool = False
    last: bool = False
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)


NOBODY_WAITS = FlushRequest(float("-inf"))
"""A wish whose answer nobody waits for."""


class WriterLoop:
    """Writes what a run records, on a thread of its own, and ends it.

    Args:
        log: Writes the event file.
        intake: Where points and summaries wait.
        steps: The steps of the run.
        info: What the run says about itself.
        cost: What recording costs.
        problems: Told of what could not be recorded.
        clock: Readings of time.
        requests: What the thread waits for; None wakes it.
        flush_secs: A point waits no longer than this before it is handed to the operating system.
        find_attempt: Returns the number of this attempt; it may wait for a disk or a store.
        telemetry: Writes this rank's own file, in a job of several.
        watch: Looks whether this process is another rank than was thought.
        uploader: Sends the run to its store.

    Attributes:
        on_close: Called with status and deadline before the run ends, while it still takes points; with None
            for the status in a forked child.
    """

    def __init__(
        self,
        log: EventLog,
        intake: Intake,
        steps: Steps,
        info: AttemptInfo,
        cost: Cost,
        problems: Problems,
        clock: Clock,
        requests: SimpleQueue[FlushRequest | None],
        *,
        flush_secs: float,
        find_attempt: Callable[[], int],
        telemetry: Telemetry | None = None,
        watch: RuntimeWatch | None = None,
        uploader: Uploader | None = None,
    ) -> None:
        self.uploader = uploader
        self.log, self._intake, self._steps, self._info = log, intake, steps, info
        self._cost, self._problems, self.clock, self.requests = cost, problems, clock, requests
        self._flush_secs, self._flushed_at = flush_secs, clock.steady()
        self._telemetry, self._watch = telemetry, watch
        if telemetry is not None:
            self._listen(telemetry)
        self.on_close: OnClose | None = None
        self._find_attempt, self._opened = find_attempt, threading.Event()
        self._late = False
        self._interrupted: str | None = None
        self._thread: threading.Thread | None = None

    # --- for other threads --------------------------------------------------------------------------

    def wait_until_open(self, seconds: float) -> bool:
        """Wait until the files are begun, so that one that cannot be written is told where the run is made.

        Returns:
            False where the disk does not answer; the files are begun once it does.
        """
        self._late = not self._opened.wait(seconds)
        return self._opened.is_set()

    def open(self) -> None:
        """Begin the files."""
        self._info.attempt = self._find_attempt()
        now = self.clock.steady()
        self.log.open(now)
        self._flush(now)
        if self._telemetry is not None:
            self._telemetry.attempt = self._info.attempt
            self._telemetry.open(now)
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
        """Have everything logged so far written now, without waiting for it."""
        self.requests.put(NOBODY_WAITS)

    def flush(self, deadline: Deadline, *, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system; False where it is not."""
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
        telemetry = self._telemetry.unwritten if self._telemetry is not None else 0
        return self.log.unwritten + self.log.sink.unflushed + telemetry

    def ask_to_end(self, status: Status, reason: str | None, deadline: Deadline) -> None:
        """Have everything written and the thread ended, without waiting: for an object's destructor."""
        if self._intake.taking:
            self.close_books(status, reason)
            self.requests.put(FlushRequest(deadline.at, last=True))

    def interrupt(self, reason: str, deadline: Deadline) -> None:
        """Mark the run stopped and write everything, as the process may end at any moment."""
        self._interrupted = reason
        self._info.interrupt(reason)
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
        self.log.sink.forget()
        if self._telemetry is not None:
            self._telemetry.forget()
        if self.uploader is not None:
            self.uploader.forget()

    def close_books(self, status: Status, reason: str | None) -> None:
        """Take no more points, and note how the run ends."""
        self._intake.close()
        if self._interrupted and status == "finished":
            status, reason = "stopped", self._interrupted
        self._info.end(status, reason, self.clock.wall())

    def _ask(self, request: FlushRequest, timeout: float) -> bool | None:
        """Put a request and wait for its answer, None where none comes."""
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
                    self.drain(requests)
                else:
                    self.turn(self.clock.steady())

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
            request = self.requests.get(timeout=min(TURN_SECS, self._flush_secs / 2))
            while True:
                if request is not None:
                    found.append(request)
                request = self.requests.get_nowait()
        except Empty:
            return found

    def turn(self, now: float) -> None:
        """Do what is due: encode, take what devices have finished, report the cost, write."""
        self._write_waiting(now)
        if self._cost.due(now):
            self.log.write_cost(now)
        if self._info.changed:
            self.log.write_info(now)
        sink = self.log.sink
        if now - self._flushed_at >= self._flush_secs / 2 and (sink.buffered_bytes or sink.unflushed):
            self._flush(now)
        if self._telemetry is not None:
            self._telemetry.turn(now)
        self.log.bound_waiting()

    def drain(self, requests: list[FlushRequest]) -> None:
        """Write everything logged so far, as far as the deadlines allow, and answer."""
        last = any(request.last for request in requests)
        sync = any(request.sync for request in requests)
        self.log.sink.retry_now()
        deadline = max(request.deadline for request in requests)
        complete = self._write_all(deadline)
        now = self.clock.steady()
        until = now + min(LAST_TRIES_SECS, LAST_TRIES_SHARE * (deadline - now)) if last else now
        if last:
            self._again(self._flush_all, until)  # how the run ended is said in a file that takes it
            self.log.write_end(self.clock.steady())
            complete = self._again(partial(self._flush_all, sync=sync), until) and complete
        else:
            if self._info.changed:
                self.log.write_info(now)
            complete = self._flush(now, sync=sync) and complete
        complete = self._flush_telemetry(until, last=last, sync=sync) and complete
        self.log.bound_waiting()
        if last:
            self._intake.summaries.end()
            self.log.sink.close()
            if self.uploader is not None:
                self.uploader.close_soon()
        for request in requests:
            if request is not NOBODY_WAITS:
                request.reply.put(complete)

    def _again(self, write: Callable[[float], bool], until: float) -> bool:
        """Write, again and again until then where that fails: after the end nobody will."""
        while not write(now := self.clock.steady()):
            if now >= until:
                return False
            self.clock.pause(LAST_RETRY_SECS)
        return True

    def _flush_all(self, now: float, *, sync: bool = False) -> bool:
        """Encode and write everything; no more is logged meanwhile."""
        self.log.sink.retry_now()
        self._write_waiting(now)
        return self._flush(now, sync=sync) and not self.log.unwritten

    def _write_all(self, deadline: float) -> bool:
        """Encode everything, waiting for devices; True where nothing is left."""
        flushed = False
        while True:
            now = self.clock.steady()
            self._write_waiting(now)
            waiting = self.log.waits_for_values
            if not waiting or now >= deadline:
                return not self.log.is_stuck and not waiting
            if not flushed:  # the process may be killed before a device is done
                flushed = self._flush(now) or True
            self.clock.pause(POLL_SECS)

    def _write_waiting(self, now: float) -> None:
        if self._watch is not None and (role := self._watch.look()) is not None:
            self._become(role, now)
        self.log.write_waiting(now)

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self._flushed_at = now
        return self.log.flush(now, sync=sync)

    def _flush_telemetry(self, until: float, *, last: bool, sync: bool) -> bool:
        telemetry = self._telemetry
        if telemetry is None:
            return True

        def flush(now: float) -> bool:
            telemetry.retry_now()
            return telemetry.flush(now, sync=sync)

        done = self._again(flush, until)
        if last:
            info = self._info
            done = telemetry.end(info.status, info.reason, self.clock.wall(), self.clock.steady())
            done = done or self._again(flush, until)
            telemetry.close()
        return done

    # --- another role than was thought --------------------------------------------------------------

    def _become(self, role: Role, now: float) -> None:
        """Be another rank from now on: of several that took themselves for the chief, one goes on writing."""
        wrote = self.log.writes
        if wrote and not role.writes:
            self.log.withdraw(role, now)
        elif role.writes and not wrote and self.log.dropped:
            self._problems.post("role", new_chief(role))
        self._info.role, self._steps.withdrawing, self._info.changed = role, True, True
        if self._telemetry is not None:
            self._telemetry.become(role)
        elif role.telemetry:
            directory = self.log.sink.directory
            elsewhere = self.uploader.earlier.ranks if self.uploader is not None else ()
            self._info.attempt = attempt_of(directory, role, elsewhere)
            place = role, self._info.attempt, self._info.started
            self._telemetry = Telemetry(directory, *place, self._steps, self._problems)
            self._listen(self._telemetry)

    def _listen(self, telemetry: Telemetry) -> None:
        telemetry.names = self._intake.points.names
        self.log.before_taking = telemetry.look
        self.log.listeners.add(telemetry.take, None)
