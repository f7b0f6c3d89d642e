"""What a run says of itself: what it is, what it costs, which rank it is, what was lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from stepscope.errors import RecordError
from stepscope.kernels.points import Points
from stepscope.record import cost as costs
from stepscope.record.background import Background
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.encode import Columns
from stepscope.record.held import Held, Point
from stepscope.record.info import RunInfo, frameworks
from stepscope.record.listeners import Listeners
from stepscope.record.problems import Problems
from stepscope.record.roles.role import Role
from stepscope.record.roles.watch import lost_chief, new_chief
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import Steps
from stepscope.record.telemetry import Telemetry, attempt_of

POINT_BYTES = 64
"""What a waiting point takes: 28 bytes in columns, which double when they grow."""
DEVICE_POINTS = 10
"""A value still on a device takes as much as so many points: a tuple, three numbers, a snapshot."""


class Words:
    """The methods of a recorder by which a run speaks of itself, on the writer's thread."""

    sink: Sink[Writer]
    info: RunInfo
    problems: Problems
    clock: Clock
    points: Points
    queue: deque[Point]
    cost: Cost
    background: Background
    listeners: Listeners
    changed: bool
    moved: bool
    _steps: Steps
    _last_step: int
    _held: Held
    _rest: deque[Columns]
    _telemetry: Telemetry | None
    _wrote: int
    _dropped: int
    _said: object
    _greeted: bool

    @property
    def writes(self) -> bool:
        """Whether this process writes an event file; else what is logged goes to the listeners alone."""
        return self.info.role.writes

    def _writer(self, now: float) -> Writer | None:
        """Return the writer; a new file begins with what the run says about itself."""
        if not self.writes:
            return None
        writer = self.sink.writer(now)
        if writer is not None and self.sink.fresh:
            self._say_to(writer, now)
        return writer

    def _unwritten(self) -> int:
        return (
            self.points.count
            + sum(columns.size for columns in self._rest)
            + len(self.queue)
            + len(self._held)
            + self.background.pending
            + len(self.background.ready)
        )

    # --- what the recorder itself records -----------------------------------------------------------

    def _report(self, now: float) -> None:
        """Record what recording costs."""
        devices = (DEVICE_POINTS - 1) * (len(self.queue) + len(self._held))
        queued = (self._unwritten() + devices) * POINT_BYTES + self.sink.buffered_bytes
        self.cost.put_seconds = self.points.spent
        readings = {
            **self.cost.report(now, self.clock.cpu()),
            costs.QUEUED_BYTES: float(queued),
            costs.DROPPED_POINTS: float(self.problems.lost),
        }
        self.changed = self.changed or self._facts() != self._said
        writer = self._writer(now)
        if writer is not None:
            with self._failing(now):
                writer.scalars(list(readings.items()), self._step(), self.clock.wall())

    def _say(self, now: float) -> None:
        writer = self._writer(now)
        if writer is not None:
            self._say_to(writer, now)

    def _say_to(self, writer: Writer, now: float) -> None:
        """Write what the run says about itself."""
        self.info.problems = dict(self.problems.counts)
        wall = self.clock.wall()
        with self._failing(now):
            writer.event(self.info.event(self._step(), wall))
            self._greeted = self._greeted and not self.sink.fresh
            # TensorBoard keeps the first config it reads, and a trainer's comes after the run was made.
            if not self._greeted and self.info.config:
                writer.event(self.info.start_event(wall))
                self._greeted = True
            self.changed, self.sink.fresh, self._said = False, False, self._facts()

    def _last_words(self, now: float) -> None:
        for point in self._held.clear():
            self._lost("device", f"{point[0]!r}: its device did not finish before the run was closed")
        self._report(now)
        self._say(now)
        writer = self._writer(now)
        if writer is not None and self._greeted:
            with self._failing(now):
                writer.event(self.info.end_event(self.clock.wall()))

    def _facts(self) -> object:
        return dict(self.problems.counts), self.info.status, self.info.total_steps, frameworks()

    def _step(self) -> int:
        """Return the step that what the recorder itself records belongs to."""
        return max(self._last_step, 0) if self._steps.current is None else self._steps.current

    # --- another role than was thought --------------------------------------------------------------

    def _become(self, role: Role, now: float) -> None:
        """Be another rank from now on: of several that took themselves for the chief, one goes on writing."""
        wrote = self.writes
        if wrote and not role.writes:
            self._withdraw(role, now)
        elif role.writes and not wrote and self._dropped:
            self.problems.post("role", new_chief(role))
        self.info.role, self._steps.withdrawing, self.changed = role, True, True
        if self._telemetry is not None:
            self._telemetry.become(role)
        elif role.telemetry:
            self.info.attempt = attempt_of(self.sink.directory, role)
            place = role, self.info.attempt, self.info.started
            self._telemetry = Telemetry(self.sink.directory, *place, self._steps, self.problems)
            self._listen(self._telemetry)

    def _listen(self, telemetry: Telemetry) -> None:
        telemetry.names = self.points.names
        self.listeners.add(telemetry.take, None)

    def _withdraw(self, role: Role, now: float) -> None:
        """End the event file; delete it where nothing but what the run says about itself is in it."""
        if not self._wrote:
            self.sink.discard()
            return
        self.problems.post("role", lost_chief(role, self._wrote))
        writer = self.sink.writer(now)
        if writer is not None:
            info = replace(self.info, role=role)
            info.end("finished", f"rank {role.chief_rank} writes", self.clock.wall())
            with self._failing(now):
                writer.event(info.event(self._step(), self.clock.wall()))
        self.sink.flush(now)
        self.sink.close()

    # --- problems -----------------------------------------------------------------------------------

    def _lost(self, reason: str, what: str, *, points: int = 1, hint: str = "") -> None:
        hint = hint or "the other points of this run are not affected"
        self.problems.post(reason, RecordError(f"not recorded: {what}", hint=hint), points=points)

    def _lost_on_device(self, point: Point, error: Exception) -> None:
        found = getattr(error, "found", f"{type(error).__name__}: {error}")
        reason = getattr(error, "reason", "device")
        self._lost(reason, f"{point[0]!r} at step {point[2]}: {found}", hint=getattr(error, "hint", ""))

    @contextmanager
    def _failing(self, now: float) -> Iterator[None]:
        """Leave a failed write to a later turn."""
        try:
            yield
        except OSError as error:
            self.sink.failed(error, now)
            self.changed = True
