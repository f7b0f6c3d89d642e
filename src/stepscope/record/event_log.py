"""The content of a run's event file: points, summaries, and what the run says about itself.

All of it happens on the writer's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from stepscope.errors import RecordError
from stepscope.kernels.steps import Steps
from stepscope.record import cost as costs
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.encode import DevicePoints, Encoder, Listeners, Point, PointColumns, as_columns
from stepscope.record.info import AttemptInfo, frameworks
from stepscope.record.intake import DEVICE_POINTS, POINT_BYTES, Intake
from stepscope.record.problems import Problems
from stepscope.record.roles.detect import lost_chief
from stepscope.record.roles.role import Role
from stepscope.record.sink import LogWriter, Sink, full_spool
from stepscope.record.spool import SpoolRoom

CHUNK = 16_384
"""Points encoded at once: about 1 ms, in which the interpreter is free."""


class SpoolBound:
    """Keeps the files within the limit of the run's spool; a run in a directory has no spool and no limit.

    Args:
        sink: The event file.
        problems: Receives what there is no room for.

    Attributes:
        room: Space left in the spool; None if there is none.
        refused: Points and summaries that there was no room for.
    """

    def __init__(self, sink: Sink[LogWriter], problems: Problems) -> None:
        self._sink, self._problems = sink, problems
        self.room: SpoolRoom | None = None
        self.refused, self._full = 0, False

    def has_room(self, now: float) -> bool:
        """Return whether more may be written."""
        if self.room is None or self.room.left(now):
            if self._full:
                self._full = False
                self._problems.forgive("spool")
            return True
        self._full = True
        return False

    def took(self, nbytes: int) -> None:
        """Note that so many bytes were written."""
        if self.room is not None:
            self.room.take(nbytes)

    def refuse(self, points: int) -> None:
        """Count what there is no room for."""
        assert self.room is not None
        self.refused += points
        self._problems.post("spool", full_spool(self._sink.directory, self.room.why), points=points)


class EventLog:
    """Takes the waiting points and summaries, encodes them, and writes them to the event file of the run.

    On a rank that writes no event file, what is logged goes to the listeners alone.

    Args:
        sink: The event file.
        intake: Where points and summaries wait.
        steps: The steps of the run.
        info: What the run says about itself.
        cost: What recording costs.
        problems: Told of what could not be recorded.
        clock: Readings of time.

    Attributes:
        listeners: Told of every number.
        dropped: Points that were not written, as this rank writes none.
        before_taking: Called before points are taken away.
        more_costs: Returns additional values to record along with the costs, by tag.
        spool: The bound of what a run that goes to a store may keep on this machine.
    """

    def __init__(
        self,
        sink: Sink[LogWriter],
        intake: Intake,
        steps: Steps,
        info: AttemptInfo,
        cost: Cost,
        problems: Problems,
        clock: Clock,
    ) -> None:
        self.sink, self._intake, self._steps, self._info = sink, intake, steps, info
        self._cost, self._problems, self._clock = cost, problems, clock
        self._points, self._summaries = intake.points, intake.summaries
        self._encoder = Encoder(self._points.names)
        self._on_devices = DevicePoints(self._lost_on_device)
        self._stuck: deque[PointColumns] = deque()
        self.listeners = Listeners(self._points.names, problems)
        self.spool = SpoolBound(sink, problems)
        self._wrote = self.dropped = 0
        self.before_taking: Callable[[], None] | None = None
        self.more_costs: Callable[[], Mapping[str, float]] = dict
        self._facts_written: object = None
        self._config_written = False

    @property
    def writes(self) -> bool:
        """True if this process writes an event file."""
        return self._info.role.writes

    @property
    def unwritten(self) -> int:
        """Points and summaries that are logged and not yet encoded."""
        stuck = sum(columns.size for columns in self._stuck)
        summaries = self._summaries.pending + len(self._summaries.ready)
        return self._intake.waiting_points + stuck + len(self._on_devices) + summaries

    @property
    def logged(self) -> int:
        """Points and summaries that were logged so far, written or not."""
        return self._wrote + self.dropped + self.spool.refused + self.unwritten

    @property
    def waits_for_values(self) -> bool:
        """True if devices or the thread of the summaries are still at work on what was logged."""
        return bool(len(self._on_devices) or self._summaries.pending or self._summaries.ready)

    @property
    def is_stuck(self) -> bool:
        """True if points could not be written."""
        return bool(self._stuck)

    # --- points and summaries -----------------------------------------------------------------------

    def write_waiting(self, now: float) -> None:
        """Encode what waits, as far as devices are done and writing works.

        Args:
            now: Steady time in seconds.
        """
        writer = self._writer(now)
        if writer is None and self.writes:
            return
        if self.before_taking is not None:
            self.before_taking()
        # The queue first: of a tag that changes over to it, the columns taken afterwards hold the earlier
        # points.
        queue = self._intake.device_queue
        for _ in range(len(queue)):
            self._on_devices.add(queue.popleft())
        columns = PointColumns(*self._points.take())
        if columns.size:
            self._stuck.append(columns)
        while self._stuck:
            if self._write(writer, self._stuck, now):
                self._stuck.popleft()
            elif not self.sink.moved or (writer := self._writer(now)) is None:
                return
        if ready := self._on_devices.ready():
            rest = deque([as_columns(ready, self._points.numbers)])
            if not self._write(writer, rest, now):
                self._on_devices.put_back(ready[len(ready) - rest[0].size :])
                return
        self._write_summaries(writer, now)

    def bound_waiting(self) -> None:
        """Reduce the room for new points if some could not be written."""
        stuck = sum(columns.size for columns in self._stuck) + DEVICE_POINTS * len(self._on_devices)
        self._intake.bound(stuck)

    def _write_summaries(self, writer: LogWriter | None, now: float) -> None:
        ready = self._summaries.ready
        while ready:
            event, nbytes = ready[0]
            refused = writer is not None and not self.spool.has_room(now)
            try:
                if writer is not None and not refused:
                    before = writer.buffered_bytes
                    writer.event(event)
                    self.spool.took(max(writer.buffered_bytes - before, 0))
            except OSError as error:
                self.sink.failed(error, now)
                return
            ready.popleft()
            self._summaries.written(nbytes)
            if refused:
                self.spool.refuse(1)
            elif writer is not None:
                self.sink.unflushed += 1
                self._wrote += 1

    def _write(self, writer: LogWriter | None, rest: deque[PointColumns], now: float) -> bool:
        """Hand the first columns to the writer; where that fails, keep the rest of them and return False."""
        columns, at = rest[0], 0
        if writer is None:
            self.dropped += columns.size
            self._count_steps(columns, 0, columns.size, 0)
            return True
        try:
            while at < columns.size:
                if not self.spool.has_room(now):
                    self.spool.refuse(columns.size - at)
                    self._count_steps(columns, at, columns.size, 0)
                    return True
                data, done, changes = self._encoder.encode(columns, at, min(at + CHUNK, columns.size))
                if data:
                    writer.records(data)
                    self.spool.took(len(data))
                else:  # a number that no float32 holds: the writer knows what to do with it
                    tag = self._points.names[columns.tags[at]]
                    writer.scalar(tag, columns.values[at], columns.steps[at], columns.walls[at])
                    done = 1
                at += done
                self.sink.unflushed += done
                self._wrote += done
                self._count_steps(columns, at - done, at, changes)
        except OSError as error:
            self.sink.failed(error, now)
            rest[0] = columns.after(at)
            return False
        return True

    def _count_steps(self, columns: PointColumns, begin: int, end: int, changes: int) -> None:
        """Keep step and number of steps up to date, even if the user numbers them instead of ``steps()``."""
        if self._steps.current is None:
            self._cost.steps += changes + (columns.steps[begin] != self._intake.last_step)
        self._intake.last_step = columns.steps[end - 1]
        if self.listeners:
            self.listeners.tell(columns, begin, end)

    # --- the file -----------------------------------------------------------------------------------

    def _writer(self, now: float) -> LogWriter | None:
        """Return the writer; a new file begins with what the run says about itself."""
        if not self.writes:
            return None
        writer = self.sink.writer(now)
        if writer is not None and self.sink.fresh:
            self._write_info(writer, now)
        return writer

    def open(self, now: float) -> None:
        """Begin the file with what the run says about itself."""
        self._writer(now)

    def flush(self, now: float, *, sync: bool = False) -> bool:
        """Hand everything encoded to the operating system; False if that failed."""
        if not self.writes:
            return True
        done = self.sink.flush(now, sync=sync)
        while not done and self.sink.moved and self._writer(now) is not None:
            done = self.sink.flush(now, sync=sync)
        if self.spool.room is not None:
            self.sink.roll(self.spool.room.file_bytes)
        self._writer(now)  # begins the next file at once where this one was deleted, or is large enough
        return done

    def withdraw(self, role: Role, now: float) -> None:
        """End the event file; delete it where nothing but what the run says about itself is in it."""
        if not self._wrote:
            self.sink.discard()
            return
        self._problems.post("role", lost_chief(role, self._wrote))
        writer = self.sink.writer(now)
        if writer is not None:
            info = replace(self._info, role=role)
            info.end("finished", f"rank {role.chief_rank} writes", self._clock.wall())
            with self._failing(now):
                writer.event(info.event(self._intake.step_now(), self._clock.wall()))
        self.sink.flush(now)
        self.sink.close()

    @contextmanager
    def _failing(self, now: float) -> Iterator[None]:
        """Leave a failed write to a later turn."""
        try:
            yield
        except OSError as error:
            self.sink.failed(error, now)
            self._info.changed = True

    # --- what the run says about itself -------------------------------------------------------------

    def write_cost(self, now: float) -> None:
        """Record what recording costs."""
        if not self.spool.has_room(now):
            return
        devices = (DEVICE_POINTS - 1) * (len(self._intake.device_queue) + len(self._on_devices))
        queued = (self.unwritten + devices) * POINT_BYTES + self.sink.buffered_bytes
        readings = {
            **self._cost.report(now, self._clock.cpu()),
            costs.QUEUED_BYTES: float(queued),
            costs.DROPPED_POINTS: float(self._problems.lost),
            **self.more_costs(),
        }
        self._info.changed = self._info.changed or self._facts() != self._facts_written
        writer = self._writer(now)
        if writer is not None:
            with self._failing(now):
                writer.scalars(list(readings.items()), self._intake.step_now(), self._clock.wall())

    def write_info(self, now: float) -> None:
        """Write what the run says about itself."""
        writer = self._writer(now)
        if writer is not None:
            self._write_info(writer, now)

    def _write_info(self, writer: LogWriter, now: float) -> None:
        self._info.problems = dict(self._problems.counts)
        wall = self._clock.wall()
        with self._failing(now):
            writer.event(self._info.event(self._intake.step_now(), wall))
            self._config_written = self._config_written and not self.sink.fresh
            # TensorBoard keeps the first config it reads, and a trainer's comes after the run was made.
            self._write_config(writer, wall)
            self._info.changed = False
            if self.sink.fresh:
                self.sink.begun(writer)
            self._facts_written = self._facts()

    def _write_config(self, writer: LogWriter, wall: float) -> None:
        """Write the configuration as TensorBoard's hyper-parameters, once there is one."""
        if not self._config_written and self._info.config:
            writer.event(self._info.start_event(wall))
            self._config_written = True

    def write_end(self, now: float) -> None:
        """Write how the run ended; what no device has finished by now is lost."""
        for point in self._on_devices.clear():
            self._lost("device", f"{point[0]!r}: its device did not finish before the run was closed")
        self.write_cost(now)
        writer = self._writer(now)
        if self.sink.fresh:  # a file that has nothing yet begins with what the run is
            self.write_info(now)
        if writer is not None:
            with self._failing(now):
                self._write_config(writer, self._clock.wall())
                if self._config_written:
                    writer.event(self._info.end_event(self._clock.wall()))
        if writer is not None and self.sink.flush(now):  # only what is in the file counts as written
            self._info.log_bytes = self.sink.log_bytes | getattr(writer, "log_bytes", {})
        self.write_info(now)

    def _facts(self) -> object:
        info = self._info
        return dict(self._problems.counts), info.status, info.total_steps, frameworks()

    # --- problems -----------------------------------------------------------------------------------

    def _lost(self, reason: str, what: str, *, hint: str = "") -> None:
        hint = hint or "the other points of this run are not affected"
        self._problems.post(reason, RecordError(f"not recorded: {what}", hint=hint))

    def _lost_on_device(self, point: Point, error: Exception) -> None:
        found = getattr(error, "found", f"{type(error).__name__}: {error}")
        reason = getattr(error, "reason", "device")
        self._lost(reason, f"{point[0]!r} at step {point[2]}: {found}", hint=getattr(error, "hint", ""))
