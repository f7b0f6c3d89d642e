"""Writing a run's files, its event file and its rank's own, on the writer's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from stepscope.kernels.steps import Steps
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.event_log import EventLog
from stepscope.record.info import AttemptInfo
from stepscope.record.intake import Intake
from stepscope.record.problems import Problems
from stepscope.record.roles.detect import RuntimeWatch, new_chief
from stepscope.record.telemetry import Telemetry, attempt_of

if TYPE_CHECKING:
    from stepscope.record.roles.role import Role
    from stepscope.record.uploader import Uploader

POLL_SECS = 0.001
LAST_TRIES_SECS, LAST_TRIES_SHARE, LAST_RETRY_SECS = 2.0, 0.25, 0.05
"""At the end: for how long, and for what share of the time left, a failed write is tried again, and how
soon."""


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


NOBODY_WAITS = FlushRequest(float("-inf"))
"""A request whose answer nobody waits for."""


class WriterTasks:
    """Writes the files of one process of a run; called by one thread.

    Args:
        log: Writes the event file.
        intake: Where points and summaries wait.
        steps: The steps of the run.
        info: What the run says about itself.
        cost: What recording costs.
        problems: Told of what could not be recorded.
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
        self.flush_secs, self._flushed_at = flush_secs, clock.steady()
        self._find_attempt, self._uploader = find_attempt, uploader
        self._telemetry, self._watch = telemetry, watch
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

    def open(self) -> None:
        """Begin the files."""
        self._info.attempt = self._find_attempt()
        now = self.clock.steady()
        self._log.open(now)
        self._flush(now)
        if self._telemetry is not None:
            self._telemetry.attempt = self._info.attempt
            self._telemetry.open(now)

    def forget(self) -> None:
        """Become inert in a forked child, where the files are the parent's."""
        self._log.sink.forget()
        if self._telemetry is not None:
            self._telemetry.forget()

    def turn(self, now: float) -> None:
        """Do what is due: encode, take what devices have finished, report the cost, write."""
        self._write_waiting(now)
        if self._cost.due(now):
            self._log.write_cost(now)
        if self._info.changed:
            self._log.write_info(now)
        sink = self._log.sink
        if now - self._flushed_at >= self.flush_secs / 2 and (sink.buffered_bytes or sink.unflushed):
            self._flush(now)
        if self._telemetry is not None:
            self._telemetry.turn(now)
        self._log.bound_waiting()

    def drain(self, requests: list[FlushRequest]) -> None:
        """Write everything logged so far, as far as the deadlines allow, and answer."""
        last = any(request.last for request in requests)
        sync = any(request.sync for request in requests)
        self._log.sink.retry_now()
        deadline = max(request.deadline for request in requests)
        complete = self._write_all(deadline)
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
        if self._watch is not None and (role := self._watch.look()) is not None:
            self._become(role, now)
        self._log.write_waiting(now)

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self._flushed_at = now
        return self._log.flush(now, sync=sync)

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
        """Become another rank: of several that took themselves for the chief, one goes on writing."""
        wrote = self._log.writes
        if wrote and not role.writes:
            self._log.withdraw(role, now)
        elif role.writes and not wrote and self._log.dropped:
            self._problems.post("role", new_chief(role))
        self._info.role, self._steps.withdrawing, self._info.changed = role, True, True
        if self._telemetry is not None:
            self._telemetry.become(role)
        elif role.telemetry:
            directory = self._log.sink.directory
            elsewhere = self._uploader.earlier.ranks if self._uploader is not None else ()
            self._info.attempt = attempt_of(directory, role, elsewhere)
            place = role, self._info.attempt, self._info.started
            self._telemetry = Telemetry(directory, *place, self._steps, self._problems)
            self._listen(self._telemetry)

    def _listen(self, telemetry: Telemetry) -> None:
        telemetry.names, telemetry.room = self._intake.points.names, self._log.spool.room
        self._log.before_taking = telemetry.look
        self._log.listeners.add(telemetry.take, None)
