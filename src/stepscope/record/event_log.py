"""The content of a run's event file: points, summaries, and the run's own facts.

All of it happens on the writer's thread.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import RecordError
from stepscope.events.framing import frame
from stepscope.events.messages import encode_event
from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel
from stepscope.kernels import warn_if_uncompiled
from stepscope.kernels.steps import STEP_TIME_NUMBER, Steps
from stepscope.record import cost as costs
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.info import AttemptInfo, frameworks, renumber
from stepscope.record.intake import DEVICE_POINTS, POINT_BYTES, Intake
from stepscope.record.problems import Problems, pass_on
from stepscope.record.protocol import Take, Wanted
from stepscope.record.roles.detect import lost_chief
from stepscope.record.roles.role import Role
from stepscope.record.sink import LogWriter, Sink, append, directory_error, full_spool
from stepscope.record.spool import SpoolRoom
from stepscope.record.values import DevicePoints, Point

if TYPE_CHECKING:
    from stepscope.record.ended_series import EndedSeries

CHUNK = 16_384
"""Points encoded at once: about 1 ms, in which the interpreter is free."""


class SpoolBound:
    """Keeps the files within the limit of the run's spool; a run in a directory has no spool and no limit.

    Args:
        sink: The event file.
        problems: Receives the refused points and summaries.

    Attributes:
        room: Space left in the spool; None if there is none.
        refused: Points and summaries that there was no room for.
    """

    def __init__(self, sink: Sink, problems: Problems) -> None:
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
        """Count records that do not fit."""
        assert self.room is not None
        self.refused += points
        self._problems.post("spool", full_spool(self._sink.directory, self.room.why), points=points)


class EventLog:
    """Takes the waiting points and summaries, encodes them, and writes them to the event file of the run.

    On a rank that writes no event file, logged values go to the listeners alone.

    Args:
        sink: The event file.
        intake: The queue of points and summaries.
        steps: The steps of the run.
        info: The run's own facts.
        cost: The cost of recording.
        problems: Receives the failures to record.
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
        sink: Sink,
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
        self._series: EndedSeries | None = None
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
        """Points and summaries that were logged so far; the writing thread does not change this number."""
        return self._points.logged + self._intake.queued + self._summaries.taken

    @property
    def waits_for_values(self) -> bool:
        """True while devices or the summary thread still compute logged values."""
        return bool(len(self._on_devices) or self._summaries.pending or self._summaries.ready)

    @property
    def is_stuck(self) -> bool:
        """True if points could not be written."""
        return bool(self._stuck)

    # --- points and summaries -----------------------------------------------------------------------

    def write_waiting(self, now: float) -> None:
        """Encode the waiting points and summaries, as far as devices are done and writing works.

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
        """Hand the first columns to the writer; if that fails, keep the rest and return False."""
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
                else:  # a number that no float32 holds in full: the writer knows what to do with it
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
        if self._steps.current is not None and self.writes:
            self._follow_series(columns, begin, end, self._steps.current)
        if self.listeners:
            self.listeners.tell(columns, begin, end)

    def _follow_series(self, columns: PointColumns, begin: int, end: int, now: int) -> None:
        import numpy as np

        if self._series is None:
            from stepscope.record.ended_series import EndedSeries

            self._series = EndedSeries(self._points.names)
        tags = np.frombuffer(columns.tags, np.int32, columns.size)[begin:end]
        steps = np.frombuffer(columns.steps, np.int64, columns.size)[begin:end]
        self._series.take(tags, steps, now)

    def _look_for_ended(self) -> None:
        """Note which series ended while the training went on."""
        if self._series is not None and self._steps.current is not None:
            ended = self._series.ended(self._steps.current)
            if ended != self._info.ended_series:
                self._info.ended_series, self._info.changed = ended, True

    # --- the file -----------------------------------------------------------------------------------

    def _writer(self, now: float) -> LogWriter | None:
        """Return the writer; a new file begins with the run's own facts."""
        if not self.writes:
            return None
        writer = self.sink.writer(now)
        if writer is not None and self.sink.fresh:
            self._write_info(writer, now)
        return writer

    def open(self, now: float) -> None:
        """Begin the file with the run's own facts."""
        self._writer(now)

    def renumber(self, attempt: int) -> None:
        """Correct the number of the attempt, which the head of the file has as it was guessed."""
        self._info.attempt, self._info.changed = attempt, True
        try:
            for path in self.sink.paths:
                renumber(path, attempt)
        except OSError as error:  # what the run says of itself next has the number
            self._problems.post("disk", directory_error(self.sink.directory, error), points=0)

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
        """End the event file; delete it if it holds nothing but the run's own facts."""
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
        """Record the cost of recording."""
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
        self._cost.readings = {**self._cost.readings, **readings}
        self._look_for_ended()
        self._info.changed = self._info.changed or self._facts() != self._facts_written
        writer = self._writer(now)
        if writer is not None:
            with self._failing(now):
                writer.scalars(list(readings.items()), self._intake.step_now(), self._clock.wall())

    def write_info(self, now: float) -> None:
        """Write the run's own facts."""
        writer = self._writer(now)
        if writer is not None:
            self._write_info(writer, now)

    def _write_info(self, writer: LogWriter, now: float) -> None:
        self._look_for_ended()
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
        """Write how the run ended; values still on a device are lost."""
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

    def amend(self) -> None:
        """Append the run's own facts to the closed file that held them last."""
        if self.writes and self.sink.last_paths:
            self._info.problems = dict(self._problems.counts)
            event = self._info.event(self._intake.step_now(), self._clock.wall())
            append(self.sink.last_paths[-1], frame(encode_event(event)))

    def _facts(self) -> object:
        info = self._info
        return dict(self._problems.counts), info.status, info.total_steps, frameworks()

    # --- problems -----------------------------------------------------------------------------------

    def _lost(self, reason: str, what: str, *, hint: str = "") -> None:
        hint = hint or "the other points of this run are not affected"
        self._problems.post(reason, RecordError(f"not recorded: {what}", hint=hint))

    def _lost_on_device(self, point: Point, error: BaseException) -> None:
        text = getattr(error, "found", f"{type(error).__name__}: {error}")
        reason = getattr(error, "reason", "device")
        self._lost(reason, f"{point[0]!r} at step {point[2]}: {text}", hint=getattr(error, "hint", ""))


# --- points as records, and for listeners ----------------------------------------------------------


warn_if_uncompiled(kernel)

BYTES_PER_POINT = 64
"""Room for a point besides its tag: framing 16, time 9, step 11, lengths and keys 19, value 4."""


class PointColumns(NamedTuple):
    """Points as columns; only the first ``size`` rows are in use."""

    size: int
    tags: array[int]
    values: array[float]
    steps: array[int]
    walls: array[float]

    def after(self, row: int) -> PointColumns:
        """Return the rows from one on."""
        size, tags, values, steps, walls = self
        return PointColumns(size - row, tags[row:size], values[row:size], steps[row:size], walls[row:size])


class Encoder:
    """Encodes points.

    Args:
        names: Tags by number; may grow.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._fields = bytearray()
        self._ends = array("i")
        self._longest = 0
        self._out = bytearray()

    def encode(self, columns: PointColumns, begin: int, end: int) -> tuple[bytes, int, int]:
        """Encode rows from ``begin`` to ``end``.

        It stops early at a value that is finite but does not fit into a float32, by its size or its digits.
        Points that follow each other with the same wall time and step share a record.

        Returns:
            The records, the number of rows in them, and how often the step changed between two of these.
        """
        self._learn()
        room = (end - begin) * (BYTES_PER_POINT + self._longest)
        if len(self._out) < room:
            self._out = bytearray(room)
        rows = [memoryview(column)[begin:end] for column in columns[1:]]
        scalars: Any = kernel.scalars
        done, size, changes = scalars(*rows, self._fields, self._ends, self._out)
        return bytes(memoryview(self._out)[:size]), done, changes

    def _learn(self) -> None:
        """Prepare the encoded fields of new tags."""
        for tag in self._names[len(self._ends) :]:
            # Summary.Value: the tag, then the key of simple_value.
            field = b"\x0a" + length_prefixed(tag.encode()) + b"\x15"
            self._fields += field
            self._ends.append(len(self._fields))
            self._longest = max(self._longest, len(field))


def as_columns(points: list[Point], numbers: Mapping[str, int]) -> PointColumns:
    """Return points whose values are all known, as columns."""
    tags, values, steps, walls = zip(*points, strict=True)
    ids = array("i", [numbers[tag] for tag in tags])
    return PointColumns(len(points), ids, array("d", values), array("q", steps), array("d", walls))


class Listeners:
    """Passes the recorded numbers to listeners, on the writer's thread.

    Args:
        names: Tags by number; may grow.
        problems: Receives the exception of a listener, which is then no longer called.
    """

    def __init__(self, names: Sequence[str], problems: Problems) -> None:
        self._names, self._problems = names, problems
        self._all: list[tuple[Take, Callable[[str], bool]]] = []
        self._by_tag: dict[int, list[Take]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, take: Take, tags: Wanted) -> None:
        """Call ``take`` with numbers from now on.

        Args:
            take: Called on the writer's thread.
            tags: Names, or a function that says whether a name is wanted; None for all.
        """
        if tags is None:
            wanted: Callable[[str], bool] = _any
        elif callable(tags):
            wanted = tags
        else:
            wanted = frozenset([tags] if isinstance(tags, str) else tags).__contains__
        self._all.append((take, wanted))
        self._by_tag = {}

    def tell(self, columns: PointColumns, begin: int, end: int) -> None:
        """Pass on the rows from ``begin`` to ``end``."""
        import numpy as np

        size = columns.size
        tags = np.frombuffer(columns.tags, np.int32, size)[begin:end]
        numbers = np.unique(tags)
        wanted = [(number, takes) for number in numbers.tolist() if (takes := self._takes(number))]
        if not wanted:
            return
        rows = [
            np.frombuffer(column, kind, size)[begin:end]
            for column, kind in (
                (columns.steps, np.int64),
                (columns.values, np.float64),
                (columns.walls, np.float64),
            )
        ]
        # A step's time is told last: by then what was logged in it is known.
        wanted.sort(key=lambda entry: entry[0] == STEP_TIME_NUMBER)
        for number, takes in wanted:
            at = np.flatnonzero(tags == number)
            values = [column[at] for column in rows]
            for take in takes:
                self._call(take, self._names[number], *values)

    def _takes(self, number: int) -> list[Take]:
        takers = self._by_tag.get(number)
        if takers is None:
            name = self._names[number]
            takers = self._by_tag[number] = [take for take, wanted in self._all if wanted(name)]
        return takers

    def _call(self, take: Take, *arguments: Any) -> None:
        try:
            take(*arguments)
        except BaseException as error:  # noqa: BLE001  a listener's own code must not end the writer's thread
            pass_on(error)
            self._all = [entry for entry in self._all if entry[0] is not take]
            self._by_tag = {}
            name = getattr(take, "__qualname__", type(take).__name__)
            message = f"the listener {name} raised {type(error).__name__}: {error}; it is not called again"
            self._problems.post("hook", RecordError(message, hint="the run itself is not affected"))


def _any(name: str) -> bool:
    return True
