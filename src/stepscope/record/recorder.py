"""The thread behind a run: takes points from a queue, encodes them and writes them.

The threads that log share four things with it: ``queue``, ``known``, ``mark`` and ``requests``. Each is one
object whose single operations are atomic, so no thread that logs ever waits for a lock, nor does a signal
handler.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from stepscope.errors import RecordError
from stepscope.record import cost as costs
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.encode import Encoder
from stepscope.record.held import Held, Point
from stepscope.record.info import RunInfo, Status, frameworks
from stepscope.record.problems import Problems
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import Steps

POINT_BYTES = 208
"""What a point in the queue takes: a tuple of 96 B, two floats of 24 B, an int of 32 B and its place."""
DEVICE_POINTS = 4
"""A value still on a device takes as much as so many points."""
CHUNK = 512
"""Points encoded before other threads get a chance at the interpreter: about 0.2 ms."""
TURN_SECS = 0.25
POLL_SECS = 0.001
YIELD_SECS = 0.00005
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
        queue: Points on their way.
        known: Tags that may be logged without a further look; emptied to get the attention of the next call.
        mark: Length of the queue at which a call has to look closer.
        limit: Length of the queue beyond which points are dropped.
        taking: Whether points are taken: the thread was started, and nothing has ended it.
        forked: This is a copy in a forked child.
        devices: A value on a device has been logged.
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
        self.queue: deque[Point] = deque()
        self.known: dict[str, str] = {}
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self._max_points = max(max_queue_bytes // POINT_BYTES, 16)
        self.limit = self._max_points
        self.mark = self.limit // 2
        self.taking = self.forked = self.devices = self.changed = False
        now = clock.steady()
        self.cost = Cost(now, 0.0)
        self._steps, self._last_step = steps, 0
        self._flush_secs, self._flushed_at, self._turned_at = flush_secs, now, now
        self._encoder, self._held = Encoder(), Held(self._lost_on_device)
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

    def expect(self, total_steps: int) -> None:
        """Note how many steps the run will take."""
        if total_steps != self.info.total_steps:
            self.info.total_steps, self.changed = total_steps, True

    def wake(self) -> None:
        """Have the thread take its next turn now."""
        self.requests.put(None)

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
        return len(self.queue) + len(self._held) + self.sink.unflushed

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
        self.known.clear()
        self.queue.clear()
        self.sink.forget()

    def _close_books(self, status: Status, reason: str | None) -> None:
        self.taking = False
        self.known.clear()
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
        taken = self._take(now)
        self._settle(now)
        self._bound()
        self.cost.adapt(taken / max(now - self._turned_at, 1e-3))
        self._turned_at = now
        if self.cost.due(now):
            self._report(now)
        if self.changed:
            self._say(now)
        if now - self._flushed_at >= self._flush_secs / 2 and (
            self.sink.buffered_bytes or self.sink.unflushed
        ):
            self._flush(now)

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
        self._bound()
        complete = self._flush(now, sync=any(request.sync for request in requests)) and complete
        if last:
            self.sink.close()
        for request in requests:
            if request is not SOON:
                request.reply.put(complete)

    # --- parts of a turn ----------------------------------------------------------------------------

    def _empty(self, deadline: float) -> bool:
        """Encode the queue and what devices hold; True where nothing is left."""
        while True:
            now, count = self.clock.steady(), len(self.queue)
            complete = self._take(now) >= count
            self._settle(now)
            if not len(self._held) or now >= deadline:
                return complete and not len(self._held)
            self.clock.pause(POLL_SECS)

    def _take(self, now: float) -> int:
        """Encode what is in the queue now; return the number of points taken."""
        taken, count, queue = 0, len(self.queue), self.queue
        while taken < count:
            writer = self._writer(now)
            if writer is None:
                break
            chunk = [queue.popleft() for _ in range(min(CHUNK, count - taken))]
            self._count_steps(chunk)
            left = self._write(writer, self._held.sort(chunk) if self.devices else chunk, now)
            taken += len(chunk) - len(left)
            if left:
                queue.extendleft(reversed(left))
                break
            if taken < count:
                self.clock.pause(YIELD_SECS)
        return taken

    def _settle(self, now: float) -> None:
        """Encode what devices have finished."""
        writer = self._writer(now) if len(self._held) else None
        if writer is not None:
            self._held.put_back(self._write(writer, self._held.ready(), now))

    def _writer(self, now: float) -> Writer | None:
        """Return the writer; a new file begins with what the run says about itself."""
        writer = self.sink.writer(now)
        if writer is not None and self.sink.fresh:
            self._say_to(writer, now)
        return writer

    def _write(self, writer: Writer, points: list[Point], now: float) -> list[Point]:
        """Hand points to the writer; return those left over because it failed, to be tried again."""
        one_by_one = False
        while points:
            try:
                data, done = self._encoder.encode(points[:1] if one_by_one else points)
                if data:
                    writer.records(data)
                else:  # a number that no float32 holds: the writer knows what to do with it
                    tag, value, step, wall = points[0]
                    writer.scalar(tag, value, step, wall)
                    done = 1
                self.sink.unflushed += done
            except OSError as error:
                self.sink.failed(error, now)
                break
            except (OverflowError, TypeError, ValueError) as error:
                # A step beyond 64 bits, as the fast way in does not look that closely. Which point has it?
                done = int(one_by_one)
                if one_by_one:
                    self._lost("step", f"{points[0][0]!r} at step {points[0][2]!r:.60}: {error}")
                one_by_one = not one_by_one
            points = points[done:]
        return points

    def _count_steps(self, chunk: list[Point]) -> None:
        """Know the step, and how many there were, also where the user numbers them and not ``steps()``."""
        if self._steps.current is None:
            numbers = {point[2] for point in chunk}
            self.cost.steps += len(numbers) - (self._last_step in numbers)
        self._last_step = chunk[-1][2]

    def _bound(self) -> None:
        """Set how long the queue may get beside what devices hold; where there is news, get attention."""
        self.limit = max(self._max_points - DEVICE_POINTS * len(self._held), 0)
        self.mark = self.limit // 2
        if self.problems.waiting:
            self.known.clear()

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self._flushed_at = now
        done = self.sink.flush(now, sync=sync)
        self._writer(now)  # begins the next file at once where this one was deleted
        return done

    # --- what the recorder itself records -----------------------------------------------------------

    def _report(self, now: float) -> None:
        """Record what recording costs."""
        held = DEVICE_POINTS * len(self._held)
        queued = (len(self.queue) + held) * POINT_BYTES + self.sink.buffered_bytes
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
        for tag in {point[0] for point in self._held.clear()}:
            self._lost("device", f"{tag!r}: its device did not finish before the run was closed")
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
        return self._last_step if self._steps.current is None else self._steps.current

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
