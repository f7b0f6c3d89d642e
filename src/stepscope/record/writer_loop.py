"""The thread behind a run: its files, turn by turn, and its answers to requests to flush.

``WriterTasks`` is the work of a turn: the event file, and the rank's own. ``WriterLoop`` is the thread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from stepscope.errors import RecordError
from stepscope.kernels.steps import Steps
from stepscope.record.clock import Clock, Deadline
from stepscope.record.cost import Cost
from stepscope.record.endings import Outcome
from stepscope.record.event_log import EventLog
from stepscope.record.info import AttemptInfo, Status, recording_too
from stepscope.record.intake import Intake
from stepscope.record.problems import Problems
from stepscope.record.roles.detect import RuntimeWatch, new_chief
from stepscope.record.telemetry import Telemetry, attempt_of
from stepscope.record.waits import ProcessorWaits

if TYPE_CHECKING:
    from stepscope.record.card import Tally
    from stepscope.record.roles.role import Role
    from stepscope.record.uploader import Uploader

TURN_SECS = 0.25
GRACE_SECS = 1.0
"""The thread keeps a deadline by itself; a caller waits this much longer, because a disk may hang in a
call."""
WRITE_NOW_SHARE = 0.25
"""Share of the time left at the end that writing may take before the hooks end."""
POLL_SECS = 0.001
LAST_TRIES_SECS, LAST_TRIES_SHARE, LAST_RETRY_SECS = 2.0, 0.25, 0.05
"""At the end: for how long, and for what share of the time left, a failed write is tried again, and how
soon."""

FIRST_OTHERS_SECS, OTHERS_SECS = 5.0, 60.0
"""When it is looked for other jobs in the directory: ranks know by then which they are; and how often."""

OnClose = Callable[[Status | None, Deadline], None]


@dataclass
class FlushRequest:
    """A request that everything logged so far be written.

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


def _nothing() -> None:
    """Return None: no loop was left."""


NOBODY_WAITS = FlushRequest(float("-inf"))
"""A request whose answer nobody waits for."""


class WriterTasks:
    """Writes the files of one process of a run; called by one thread.

    Args:
        log: Writes the event file.
        intake: The queue of points and summaries.
        steps: The steps of the run.
        info: The run's own facts.
        cost: The cost of recording.
        problems: Receives the failures to record.
        clock: Readings of time.
        flush_secs: A point waits no longer than this before it is handed to the operating system.
        find_attempt: Returns the number of this attempt; it may wait for a disk or a store.
        telemetry: Writes this rank's own file, in a job of several.
        watch: Looks whether this process is another rank than was thought.
        uploader: Sends the run to its store.
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
        *,
        flush_secs: float,
        find_attempt: Callable[[], int],
        telemetry: Telemetry | None = None,
        watch: RuntimeWatch | None = None,
        uploader: Uploader | None = None,
    ) -> None:
        self._log, self._intake, self._steps, self._info = log, intake, steps, info
        self._cost, self._problems, self.clock = cost, problems, clock
        self._waits = ProcessorWaits()
        self.flush_secs, self._flushed_at = flush_secs, clock.steady()
        self._find_attempt, self._uploader = find_attempt, uploader
        self._telemetry, self._watch = telemetry, watch
        self.settled = True
        """Whether the number of the attempt is known for good."""
        self._look_at = clock.steady() + FIRST_OTHERS_SECS
        self.beats = 0
        """Counts signs of life, for who watches the thread."""
        if telemetry is not None:
            self._listen(telemetry)

    @property
    def unwritten(self) -> int:
        """How many points may be missing in the files."""
        telemetry = self._telemetry.unwritten if self._telemetry is not None else 0
        return self._log.unwritten + self._log.sink.unflushed + telemetry

    def note_loss(self, step: int, value: float) -> None:
        """Give the loss of a step to this rank's own file alone; from any thread."""
        if self._telemetry is not None:
            self._telemetry.note_loss(step, value, self.clock.wall())

    def rank_facts(self, source: Callable[[], dict[str, Any]]) -> None:
        """Have facts of a hook written to this rank's own file."""
        if self._telemetry is not None:
            self._telemetry.sources.append(source)

    def tally(self, tally: Tally) -> None:
        """Have the steps summed up for the card of the run."""
        if self._telemetry is not None:
            self._telemetry.tally = tally

    def open(self) -> None:
        """Begin the files.

        A store is not waited for: logged values are on this machine's disk from the first second on. The
        number of the attempt is corrected once the store has said which there are.
        """
        if self._uploader is None:
            self._info.attempt = self._find_attempt()
        else:
            self._info.attempt = self._uploader.guess()
        now = self.clock.steady()
        self._log.open(now)
        self._flush(now)
        if self._uploader is None:
            self._open_telemetry(now)
        else:
            self.settled = False

    def _open_telemetry(self, now: float) -> None:
        if self._telemetry is not None:
            self._telemetry.attempt = self._info.attempt
            self._telemetry.open(now)

    def _settle(self) -> None:
        """Number the attempt for good: the store has answered, or is waited for no longer."""
        assert self._uploader is not None
        attempt = self._find_attempt()
        if attempt != self._info.attempt:
            self._log.renumber(attempt)
        self.settled = True
        self._open_telemetry(self.clock.steady())
        self._uploader.settled.set()

    def amend(self) -> None:
        """Say again how the run ended, at the end of its files."""
        self._log.amend()
        if self._telemetry is not None:
            self._telemetry.amend(self._info.status, self._info.reason, self.clock.wall())

    def forget(self) -> None:
        """Become inert in a forked child: the files are the parent's."""
        self._log.sink.forget()
        if self._telemetry is not None:
            self._telemetry.forget()

    def turn(self, now: float) -> None:
        """Do what is due: encode, take finished values from devices, report the cost, write."""
        if not self.settled and self._uploader is not None and self._uploader.asked:
            self._settle()
        self._write_waiting(now)
        if self._cost.due(now):
            self._log.write_cost(now)
        self._read_waits(now)
        if self._info.changed:
            self._log.write_info(now)
        sink = self._log.sink
        if now - self._flushed_at >= self.flush_secs / 2 and (sink.buffered_bytes or sink.unflushed):
            self._flush(now)
        if self._telemetry is not None and self.settled:
            self._telemetry.turn(now)
        if now >= self._look_at:
            self._look_at = now + OTHERS_SECS
            self._look_for_others()
        self._log.bound_waiting()

    def _read_waits(self, now: float, *, last: bool = False) -> None:
        log = self._log
        if (
            log.writes
            and not log.is_stuck
            and log.spool.has_room(now)
            and (waits := self._waits.read(now, trains=self._steps.done > 0, last=last))
        ):
            self._intake.record_readings(waits)

    def _look_for_others(self) -> None:
        """Report another job that records into the same directory; once."""
        directory = self._log.sink.directory
        other = recording_too(directory, self._info.role) if self._info.role.writes else None
        if other is not None:
            self._look_at = math.inf
            message = f"{other} of this machine records into this directory, too: two jobs at the same time"
            hint = "give each job a directory of its own; what both log is hard to tell apart afterwards"
            self._problems.post("overlap", RecordError(message, hint=hint, path=directory))

    def drain(self, requests: list[FlushRequest]) -> None:
        """Write everything logged so far, as far as the deadlines allow, and answer."""
        last = any(request.last for request in requests)
        sync = any(request.sync for request in requests)
        self._log.sink.retry_now()
        if last:
            self._read_waits(self.clock.steady(), last=True)
        deadline = max(request.deadline for request in requests)
        complete = self._write_all(deadline)
        if last and not self.settled:
            self._flush(self.clock.steady())  # the process may be killed while the store is waited for
            self._settle()
        now = self.clock.steady()
        until = now + min(LAST_TRIES_SECS, LAST_TRIES_SHARE * (deadline - now)) if last else now
        if last:
            self._again(self._flush_all, until)  # how the run ended is said in a file that takes it
            self._log.write_end(self.clock.steady())
            complete = self._again(partial(self._flush_all, sync=sync), until) and complete
        else:
            if self._info.changed:
                self._log.write_info(now)
            complete = self._flush(now, sync=sync) and complete
        complete = self._flush_telemetry(until, last=last, sync=sync) and complete
        self._log.bound_waiting()
        if last:
            self._intake.summaries.end()
            self._log.sink.close()
            if self._uploader is not None:
                self._uploader.close_soon()
        for request in requests:
            if request is not NOBODY_WAITS:
                request.reply.put(complete)

    def _again(self, write: Callable[[float], bool], until: float) -> bool:
        """Write, retrying until then if it fails: after the end nobody will."""
        while not write(now := self.clock.steady()):
            if now >= until:
                return False
            self.clock.pause(LAST_RETRY_SECS)
        return True

    def _flush_all(self, now: float, *, sync: bool = False) -> bool:
        """Encode and write everything; no more is logged meanwhile."""
        self._log.sink.retry_now()
        self._write_waiting(now)
        return self._flush(now, sync=sync) and not self._log.unwritten

    def _write_all(self, deadline: float) -> bool:
        """Encode everything, waiting for devices; True if nothing is left."""
        flushed = False
        while True:
            now = self.clock.steady()
            self._write_waiting(now)
            waiting = self._log.waits_for_values
            if not waiting or now >= deadline:
                return not self._log.is_stuck and not waiting
            if not flushed:  # the process may be killed before a device is done
                flushed = self._flush(now) or True
            self.clock.pause(POLL_SECS)

    def _write_waiting(self, now: float) -> None:
        self.beats += 1
        self._intake.report_unheld()
        if self._watch is not None and (role := self._watch.look()) is not None:
            self._become(role, now)
        self._log.write_waiting(now)

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self.beats += 1
        self._flushed_at = now
        return self._log.flush(now, sync=sync)

    def _flush_telemetry(self, until: float, *, last: bool, sync: bool) -> bool:
        telemetry = self._telemetry
        if telemetry is None or not self.settled:
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
        """Become another rank: of several that took themselves for the chief, one goes on writing."""
        wrote = self._log.writes
        if wrote and not role.writes:
            self._log.withdraw(role, now)
        elif role.writes and not wrote and self._log.dropped:
            self._problems.post("role", new_chief(role))
        self._info.role, self._steps.withdrawing, self._info.changed = role, True, True
        telemetry = self._telemetry
        if telemetry is not None:
            if telemetry.role.alone and not role.alone:
                telemetry.discard_file()  # named as that of the only rank
                elsewhere = self._uploader.earlier.ranks if self._uploader is not None else ()
                telemetry.attempt = self._info.attempt = attempt_of(self._log.sink.directory, role, elsewhere)
            telemetry.become(role)

    def _listen(self, telemetry: Telemetry) -> None:
        telemetry.names, telemetry.room = self._intake.points.names, self._log.spool.room
        self._log.before_taking = telemetry.look
        self._log.listeners.add(telemetry.take, None)


class WriterLoop:
    """Writes what a run records, on a thread of its own, and ends it.

    Args:
        writer: The work of the thread.
        log: The event file that it writes.
        intake: The queue of points and summaries.
        info: The run's own facts.
        cost: The cost of recording.
        problems: Receives the failures to record.
        requests: The event that the thread waits for; None wakes it.
        uploader: Sends the run to its store.

    Attributes:
        on_end: Called once everything is written, with the end that the run has; its exceptions are ignored.
        on_close: Called with status and deadline before the run ends, while it still takes points; with None
            for the status in a forked child.
        problems: Receives the failures to record.
        ended_alone: The run was finished when nobody held it any more; the program may yet leave with a code.
        left_behind: It had so ended when another run began.
        left_loop: Returns how the last loop over steps was left, if by an exception after which no step
            began.
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
        self._intake, self._info, self._cost, self.problems = intake, info, cost, problems
        self.clock, self.requests = writer.clock, requests
        self.on_close: OnClose | None = None
        self.on_end: Callable[[], None] | None = None
        self.ended_alone = self.left_behind = False
        self.left_loop: Callable[[], tuple[Outcome, int] | None] = _nothing
        self._opened = threading.Event()
        self._late = False
        self._interrupted: Outcome | None = None
        self._thread: threading.Thread | None = None

    # --- for other threads --------------------------------------------------------------------------

    @property
    def left(self) -> Outcome | None:
        """How the last loop over steps was left, if by an exception after which nothing was logged."""
        left = self.left_loop()
        return left[0] if left is not None and left[1] == self.log.logged else None

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
        self._note_open()

    def _note_open(self) -> None:
        if self.writer.settled and not self._opened.is_set():
            self._opened.set()
            if self._late:
                self.problems.forgive("disk")  # a later fault is told again

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the interpreter can start none."""
        self._thread = threading.Thread(target=self._loop, name="stepscope-writer", daemon=True)
        self._thread.start()
        self._intake.taking = True

    @property
    def alive(self) -> bool:
        """True if the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def ident(self) -> int:
        """Number of the thread."""
        return (self._thread and self._thread.ident) or 0

    @property
    def taking(self) -> bool:
        """True if the run takes points."""
        return self._intake.taking

    @property
    def opened(self) -> bool:
        """True if the files are begun."""
        return self._opened.is_set()

    @property
    def beats(self) -> int:
        """A number that grows as long as the thread is at work."""
        return self.writer.beats

    @property
    def directory(self) -> str:
        """The directory of the run."""
        return self.log.sink.directory

    def attract(self) -> None:
        """Have the next call of the user's give the waiting warnings, as the thread cannot."""
        self._intake.points.known.clear()

    def flush_soon(self) -> None:
        """Write everything logged so far soon, without waiting for it."""
        self.requests.put(NOBODY_WAITS)

    def flush(self, deadline: Deadline, *, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system; False if it is not."""
        return self._ask(FlushRequest(deadline.at, sync=sync), deadline.left() + GRACE_SECS) is True

    def write_now(self, deadline: Deadline) -> None:
        """Wait shortly until finished values are with the operating system; devices may compute others."""
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
            self.problems.warn(left)
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            # The standard error may be of any kind, and in use by what was interrupted.
            with suppress(Exception):
                on_end()
        return self.writer.unwritten

    def amend(self, status: Status, reason: str | None) -> None:
        """Say of a run that has ended how the program ended that trained it."""
        if self.uploader is None:
            self._info.end(status, reason, self._info.ended or self.clock.wall())
            self.writer.amend()

    def ask_to_end(self, status: Status, reason: str | None, deadline: Deadline) -> None:
        """Have everything written and the thread ended, for an object's destructor: it waits shortly.

        Whoever waits for the function that held the run may end the process once it is left, as Ray does to
        its workers, without a signal and without the interpreter's end.
        """
        if self.uploader is not None:
            self.uploader.ask_no_longer(deadline)
        if self._intake.taking:
            self.close_books(status, reason)
            self._ask(FlushRequest(deadline.at, last=True), min(GRACE_SECS, deadline.left()))

    def interrupt(self, reason: str, deadline: Deadline) -> None:
        """Mark the run stopped and write everything, as the process may end at any moment.

        One that has ended, and is still being written, stays as it is. One whose loop an exception left
        failed by that, whatever takes the process: a pool stops a child that still holds its run.
        """
        if not self._intake.taking:
            return
        self._interrupted = self.left or ("stopped", reason)
        self._info.interrupt(*self._interrupted)
        if self.uploader is not None:
            self.uploader.ask_no_longer(deadline)
        self.flush(deadline)
        if self.uploader is not None:
            self.uploader.soon()

    def resume(self) -> None:
        """Mark the run running after all; the interruption stays its reason."""
        if self._intake.taking:
            self._info.resume()

    def forget(self) -> None:
        """Become inert in a forked child: it lacks the thread, and the files are the parent's."""
        self._thread = None
        self._intake.forget()
        self.problems.forget()
        on_close, self.on_close = self.on_close, None
        self.on_end = None
        if on_close is not None:
            on_close(None, Deadline())
        self.writer.forget()
        if self.uploader is not None:
            self.uploader.forget()

    def close_books(self, status: Status, reason: str | None) -> None:
        """Take no more points, and note how the run ends."""
        self._intake.close()
        if self._interrupted and status == "finished":
            status, reason = self._interrupted
        self._info.end(status, reason, self.clock.wall())

    def _ask(self, request: FlushRequest, timeout: float) -> bool | None:
        """Put a request and wait for its answer; None if none comes, as to the thread that would give it."""
        if not self.alive:
            return None
        self.requests.put(request)
        if self._thread is threading.current_thread():
            return None
        try:
            return request.reply.get(timeout=timeout)
        except Empty:
            return None

    # --- the thread ---------------------------------------------------------------------------------

    def _loop(self) -> None:
        self._cost.restart(self.clock.steady(), self.clock.cpu())
        opened = last = False
        with self._surviving():
            self.open()
            opened = True
        if not opened:
            self._opened.set()
        while not last:
            requests: list[FlushRequest] = []
            done = False
            with self._surviving():
                requests = self.next_requests()
                last = any(request.last for request in requests)
                if requests:
                    self.writer.drain(requests)
                else:
                    self.writer.turn(self.clock.steady())
                self._note_open()
                done = True
            if not done:
                for request in requests:  # whoever waits learns that it is not written
                    request.reply.put(False)
                self.clock.pause(TURN_SECS)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            what = (
                "the run is not written: there is no memory; what is logged waits, and writing is tried again"
            )
            hint = "see system/process_memory_bytes for what takes it"
            self.problems.post("memory", RecordError(what, hint=hint), points=0)
        except BaseException as error:  # noqa: BLE001  a defect of ours must not silently end all recording
            what = f"not recorded: {type(error).__name__}: {error}"
            self.problems.post("defect", RecordError(what, hint="please report this"), points=0)

    def next_requests(self) -> list[FlushRequest]:
        """Wait for the next turn; return the requests that came meanwhile."""
        requests: list[FlushRequest] = []
        try:
            request = self.requests.get(timeout=min(TURN_SECS, self.writer.flush_secs / 2))
            while True:
                if request is not None:
                    requests.append(request)
                request = self.requests.get_nowait()
        except Empty:
            return requests
