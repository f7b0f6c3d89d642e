"""The thread behind a run: takes points from where they wait, encodes them and writes them.

Ordinary points wait in ``points``, as columns; values on a device, and later points of the same tags, wait in
``queue``. No thread that logs ever waits for a lock, nor does a signal handler: single operations of these
two, and of ``requests``, are atomic.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from stepscope.errors import RecordError
from stepscope.kernels.points import Points
from stepscope.record import cost as costs
from stepscope.record.clock import Clock
from stepscope.record.cost import EVERY, Cost
from stepscope.record.encode import Columns, Encoder
from stepscope.record.held import Held, Point, as_columns
from stepscope.record.info import RunInfo, Status, frameworks
from stepscope.record.pending import Pending
from stepscope.record.problems import Problems
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import Steps

POINT_BYTES = 64
"""What a waiting point takes: 28 bytes in columns, which double when they grow."""
DEVICE_POINTS = 10
"""A value still on a device takes as much as so many points: a tuple, three numbers, a snapshot."""
CHUNK = 16_384
"""Points encoded at once: about 1 ms, in which the interpreter is free."""
TURN_SECS = 0.25
POLL_SECS = 0.001
END_SECS = 10.0


@dataclass
class Request:
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


SOON = Request(float("-inf"))
"""A wish whose answer nobody waits for."""


class Recorder:
    """Queue, thread and file of one run.

    Args:
        sink: Where events go.
        info: What the run says about itself.
        steps: The step that runs.
        problems: Told of what could not be recorded.
        clock: Readings of time.
        flush_secs: A point waits no longer than this before it is handed to the operating system.
        max_queue_bytes: Bound of the memory that waiting points take.

    Attributes:
        points: Ordinary points on their way. Its ``known`` tags are logged without a further look; it is
            emptied to get the attention of the next call.
        queue: The other points on their way.
        careful: Tags that have had a value on a device; their points all take the queue, to stay in order.
        taking: Whether points are taken: the thread was started, and nothing has ended it.
        forked: This is a copy in a forked child.
        changed: What the run says about itself is to be written at the next turn.
    """

    def __init__(
        self,
        sink: Sink,
        info: RunInfo,
        steps: Steps,
        problems: Problems,
        clock: Clock,
        *,
        flush_secs: float,
        max_queue_bytes: int,
    ) -> None:
        self.sink, self.info, self.problems, self.clock = sink, info, problems, clock
        self.points = Points(None if clock.wall is time.time else clock.wall, EVERY)
        self.queue: deque[Point] = deque()
        self.careful: set[str] = set()
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self._max_points = max(max_queue_bytes // POINT_BYTES, 16)
        self._limit = self._max_points
        self.points.mark = self._limit // 2
        self.taking = self.forked = self.changed = False
        now = clock.steady()
        self.cost = Cost(now, 0.0)
        self._steps, self._last_step = steps, -1
        self._flush_secs, self._flushed_at = flush_secs, now
        self._encoder, self._held = Encoder(self.points.names), Held(self._lost_on_device)
        self._rest: deque[Columns] = deque()
        self._said: object = None
        self._interrupted: str | None = None
        self._thread: threading.Thread | None = None

    # --- for the threads that log -------------------------------------------------------------------

    def open(self) -> None:
        """Begin the file, so that one that cannot be written is told at the line that made the run."""
        now = self.clock.steady()
        self._writer(now)
        self._flush(now)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where the interpreter can start none."""
        self._thread = threading.Thread(target=self._loop, name="stepscope-recorder", daemon=True)
        self._thread.start()
        self.taking = True

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def accept(self, tag: str, value: float | Pending, step: int, wall: float) -> bool:
        """Take a point of an admitted tag; False where memory is full."""
        points = self.points
        used = points.count + DEVICE_POINTS * len(self.queue)
        if used >= points.mark:
            if used >= self._limit:
                return False
            points.mark = self._limit
            self.requests.put(None)
        if isinstance(value, float) and tag not in self.careful:
            points.add(points.numbers[tag], value, step, wall)
        else:
            self.careful.add(tag)
            points.known.pop(tag, None)
            self.queue.append((tag, value, step, wall))
        return True

    def expect(self, total_steps: int) -> None:
        """Note how many steps the run will take."""
        if total_steps != self.info.total_steps:
            self.info.total_steps, self.changed = total_steps, True

    def flush_soon(self) -> None:
        """Have everything logged so far written now, without waiting for it."""
        self.requests.put(SOON)

    def flush(self, timeout: float, *, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system; False where it is not."""
        return self._ask(Request(self.clock.steady() + timeout, sync=sync), timeout) is True

    def end(self, status: Status, reason: str | None, timeout: float) -> int:
        """Write everything and end the thread; return how many points may be missing in the file."""
        if self.taking:
            self._close_books(status, reason)
            answer = self._ask(Request(self.clock.steady() + timeout, last=True), timeout)
            timeout = 1.0 if answer is not None else 0.0
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return self._unwritten() + self.sink.unflushed

    def ask_to_end(self, status: Status, reason: str | None) -> None:
        """Have everything written and the thread ended, without waiting: for an object's destructor."""
        if self.taking:
            self._close_books(status, reason)
            self.requests.put(Request(self.clock.steady() + END_SECS, last=True))

    def interrupt(self, reason: str, timeout: float) -> None:
        """Mark the run stopped and write everything, as the process may end at any moment."""
        self.info.status, self.info.reason, self._interrupted = "stopped", reason, reason
        self.changed = True
        self.flush(timeout)

    def resume(self) -> None:
        """Mark the run running after all; what interrupted it stays its reason."""
        if self.taking:
            self.info.status, self.changed = "running", True

    def forget(self) -> None:
        """Become inert in a forked child, where the thread does not exist and the file is the parent's."""
        self.taking, self._thread, self.forked = False, None, True
        self.problems = Problems()
        self.points.known.clear()
        self.points.take()
        self.queue.clear()
        self.sink.forget()

    def _close_books(self, status: Status, reason: str | None) -> None:
        self.taking = False
        self.points.known.clear()
        if self._interrupted and status == "finished":
            status, reason = "stopped", self._interrupted
        self.info.end(status, reason, self.clock.wall())

    def _ask(self, request: Request, timeout: float) -> bool | None:
        """Put a request and wait for its answer, None where none comes."""
        if not self.alive or self._thread is threading.current_thread():
            return None
        self.requests.put(request)
        try:
            # The thread keeps the deadline by itself; the second more is for a disk that hangs in a call.
            return request.reply.get(timeout=timeout + 1.0)
        except Empty:
            return None

    # --- the thread ---------------------------------------------------------------------------------

    def _loop(self) -> None:
        self.cost = Cost(self.clock.steady(), self.clock.cpu())
        last = False
        while not last:
            requests = self._next_requests()
            last = any(request.last for request in requests)
            try:
                if requests:
                    self.drain(requests)
                else:
                    self.turn(self.clock.steady())
            except Exception as error:  # noqa: BLE001  a defect of ours must not silently end all recording
                self._lost("defect", f"{type(error).__name__}: {error}", points=0, hint="please report this")

    def _next_requests(self) -> list[Request]:
        """Wait for the next turn; return the requests that came meanwhile."""
        found: list[Request] = []
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
        self._move(now)
        if self.cost.due(now):
            self._report(now)
        if self.changed:
            self._say(now)
        if now - self._flushed_at >= self._flush_secs / 2 and (
            self.sink.buffered_bytes or self.sink.unflushed
        ):
            self._flush(now)
        self._bound()

    def drain(self, requests: list[Request]) -> None:
        """Write everything logged so far, as far as the deadlines allow, and answer."""
        last = any(request.last for request in requests)
        self.sink.retry_now()
        complete = self._empty(max(request.deadline for request in requests))
        now = self.clock.steady()
        if last:
            self._last_words(now)
        elif self.changed:
            self._say(now)
        complete = self._flush(now, sync=any(request.sync for request in requests)) and complete
        self._bound()
        if last:
            self.sink.close()
        for request in requests:
            if request is not SOON:
                request.reply.put(complete)

    # --- parts of a turn ----------------------------------------------------------------------------

    def _empty(self, deadline: float) -> bool:
        """Encode everything, waiting for devices; True where nothing is left."""
        while True:
            now = self.clock.steady()
            self._move(now)
            if not len(self._held) or now >= deadline:
                return not self._rest and not len(self._held)
            self.clock.pause(POLL_SECS)

    def _move(self, now: float) -> None:
        """Encode what waits, as far as devices are done and writing works."""
        writer = self._writer(now)
        if writer is None:
            return
        # The queue first: of a tag that changes over to it, the columns taken afterwards hold the earlier
        # points.
        for _ in range(len(self.queue)):
            self._held.add(self.queue.popleft())
        columns = Columns(*self.points.take())
        if columns.size:
            self._rest.append(columns)
        while self._rest and self._write(writer, self._rest, now):
            self._rest.popleft()
        if not self._rest and (ready := self._held.ready()):
            rest = deque([as_columns(ready, self.points.numbers)])
            if not self._write(writer, rest, now):
                self._held.put_back(ready[len(ready) - rest[0].size :])

    def _writer(self, now: float) -> Writer | None:
        """Return the writer; a new file begins with what the run says about itself."""
        writer = self.sink.writer(now)
        if writer is not None and self.sink.fresh:
            self._say_to(writer, now)
        return writer

    def _write(self, writer: Writer, rest: deque[Columns], now: float) -> bool:
        """Hand the first columns to the writer; where that fails, keep the rest of them and return False."""
        columns, at = rest[0], 0
        try:
            while at < columns.size:
                data, done, changes = self._encoder.encode(columns, at, min(at + CHUNK, columns.size))
                if data:
                    writer.records(data)
                else:  # a number that no float32 holds: the writer knows what to do with it
                    tag = self.points.names[columns.tags[at]]
                    writer.scalar(tag, columns.values[at], columns.steps[at], columns.walls[at])
                    done = 1
                at += done
                self.sink.unflushed += done
                self._count_steps(columns, at - done, at, changes)
        except OSError as error:
            self.sink.failed(error, now)
            rest[0] = columns.after(at)
            return False
        return True

    def _count_steps(self, columns: Columns, begin: int, end: int, changes: int) -> None:
        """Know the step, and how many there were, also where the user numbers them and not ``steps()``."""
        if self._steps.current is None:
            self.cost.steps += changes + (columns.steps[begin] != self._last_step)
        self._last_step = columns.steps[end - 1]

    def _unwritten(self) -> int:
        return (
            self.points.count
            + sum(columns.size for columns in self._rest)
            + len(self.queue)
            + len(self._held)
        )

    def _bound(self) -> None:
        """Set how many points may wait beside those that are stuck; get attention where there is news."""
        stuck = sum(columns.size for columns in self._rest) + DEVICE_POINTS * len(self._held)
        self._limit = max(self._max_points - stuck, 0)
        self.points.mark = self._limit // 2
        if self.problems.waiting:
            self.points.known.clear()

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self._flushed_at = now
        done = self.sink.flush(now, sync=sync)
        self._writer(now)  # begins the next file at once where this one was deleted
        return done

    # --- what the recorder itself records -----------------------------------------------------------

    def _report(self, now: float) -> None:
        """Record what recording costs."""
        devices = (DEVICE_POINTS - 1) * (len(self.queue) + len(self._held))
        queued = (self._unwritten() + devices) * POINT_BYTES + self.sink.buffered_bytes
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
            if self.sink.fresh:
                writer.event(self.info.start_event(wall))
            self.changed, self.sink.fresh, self._said = False, False, self._facts()

    def _last_words(self, now: float) -> None:
        for point in self._held.clear():
            self._lost("device", f"{point[0]!r}: its device did not finish before the run was closed")
        self._report(now)
        self._say(now)
        writer = self._writer(now)
        if writer is not None:
            with self._failing(now):
                writer.event(self.info.end_event(self.clock.wall()))

    def _facts(self) -> object:
        return dict(self.problems.counts), self.info.status, self.info.total_steps, frameworks()

    def _step(self) -> int:
        """Return the step that what the recorder itself records belongs to."""
        return max(self._last_step, 0) if self._steps.current is None else self._steps.current

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
