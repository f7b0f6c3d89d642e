"""Where the points of a run wait for the thread that encodes and writes them (``turns``, ``words``).

Ordinary points wait in ``points``, as columns; values on a device, and later points of the same tags, wait in
``queue``. No thread that logs ever waits for a lock, nor does a signal handler: single operations of these
two, and of ``requests``, are atomic.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from stepscope.kernels.points import Points
from stepscope.record.background import Background, Task
from stepscope.record.clock import Clock
from stepscope.record.cost import EVERY, Cost
from stepscope.record.encode import Columns, Encoder
from stepscope.record.held import Held, Point
from stepscope.record.info import RunInfo, Status
from stepscope.record.listeners import Listeners
from stepscope.record.pending import Pending
from stepscope.record.problems import Problems
from stepscope.record.roles.watch import Watch
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import Steps
from stepscope.record.telemetry import Telemetry
from stepscope.record.turns import SOON as SOON
from stepscope.record.turns import Request as Request
from stepscope.record.turns import Turns
from stepscope.record.words import DEVICE_POINTS
from stepscope.record.words import POINT_BYTES as POINT_BYTES

END_SECS = 10.0
SUMMARY_BYTES = 256 << 20


class Recorder(Turns):
    """Queue, thread and file of one run.

    Args:
        sink: Where events go.
        info: What the run says about itself.
        steps: The step that runs.
        problems: Told of what could not be recorded.
        clock: Readings of time.
        flush_secs: A point waits no longer than this before it is handed to the operating system.
        max_queue_bytes: Bound of the memory that waiting points take.
        max_summary_bytes: Bound of the memory that waiting summaries hold.
        telemetry: Writes this rank's own file, in a job of several.
        watch: Looks whether this process is another rank than was thought.

    Attributes:
        points: Ordinary points on their way. Its ``known`` tags are logged without a further look; it is
            emptied to get the attention of the next call.
        queue: The other points on their way.
        careful: Tags that have had a value on a device; their points all take the queue, to stay in order.
        forked: This is a copy in a forked child.
        changed: What the run says about itself is to be written at the next turn.
        background: Makes summaries.
        listeners: Told of every number.
        farewell: Called with the status before the run ends, while it still takes points; with None in a
            forked child.
    """

    def __init__(
        self,
        sink: Sink[Writer],
        info: RunInfo,
        steps: Steps,
        problems: Problems,
        clock: Clock,
        *,
        flush_secs: float,
        max_queue_bytes: int,
        max_summary_bytes: int = SUMMARY_BYTES,
        telemetry: Telemetry | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.sink, self.info, self.problems, self.clock = sink, info, problems, clock
        self.points = Points(
            clock.own_wall,
            EVERY,
            clock.own_steady,
        )
        self.queue: deque[Point] = deque()
        self.careful: set[str] = set()
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self._max_points = max(max_queue_bytes // POINT_BYTES, 16)
        self._limit = self._max_points
        self.points.mark = self._limit // 2
        self.forked = self.changed = False
        now = clock.steady()
        self.cost = Cost(now, 0.0)
        self._steps, self._last_step = steps, -1
        steps.points, steps.spent, steps.flush = self.points, self.cost, self.flush_soon
        self._flush_secs, self._flushed_at = flush_secs, now
        self._encoder, self._held = Encoder(self.points.names), Held(self._lost_on_device)
        self.background = Background(problems, max_summary_bytes, self._wake)
        self.listeners = Listeners(self.points.names, problems)
        self.farewell: Callable[[Status | None], None] | None = None
        self._telemetry, self._watch = telemetry, watch
        if telemetry is not None:
            self._listen(telemetry)
        self._wrote = self._dropped = 0
        self._rest: deque[Columns] = deque()
        self._said: object = None
        self._greeted = False
        self._interrupted: str | None = None
        self._thread: threading.Thread | None = None

    # --- for the threads that log -------------------------------------------------------------------

    def open(self) -> None:
        """Begin the file, so that one that cannot be written is told at the line that made the run."""
        now = self.clock.steady()
        self._writer(now)
        self._flush(now)
        if self._telemetry is not None:
            self._telemetry.open(now)

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where the interpreter can start none."""
        self._thread = threading.Thread(target=self._loop, name="stepscope-recorder", daemon=True)
        self._thread.start()
        self.taking = True

    @property
    def taking(self) -> bool:
        """Whether points are taken: the thread was started, and nothing has ended it."""
        return self.points.taking

    @taking.setter
    def taking(self, taking: bool) -> None:
        self.points.taking = taking

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

    def accept_task(self, task: Task) -> bool:
        """Take a summary to be made; False where memory is full."""
        return self.background.put(task)

    @property
    def spent(self) -> float:
        """Seconds that logging has taken the threads that log so far, hooks included."""
        return self.cost.seconds + self.points.spent

    def expect(self, total_steps: int) -> None:
        """Note how many steps the run will take."""
        if total_steps != self.info.total_steps:
            self.info.total_steps, self.changed = total_steps, True

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to what the run is made of."""
        config = {**self.info.config, **facts}
        if config != self.info.config:
            self.info.config, self.changed = config, True

    def flush_soon(self) -> None:
        """Have everything logged so far written now, without waiting for it."""
        self.requests.put(SOON)

    def flush(self, timeout: float, *, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system; False where it is not."""
        return self._ask(Request(self.clock.steady() + timeout, sync=sync), timeout) is True

    def end(self, status: Status, reason: str | None, timeout: float) -> int:
        """Write everything and end the thread; return how many points may be missing in the file."""
        if self.taking and self.farewell is not None:
            farewell, self.farewell = self.farewell, None
            farewell(status)
        if self.taking:
            self._close_books(status, reason)
            answer = self._ask(Request(self.clock.steady() + timeout, last=True), timeout)
            timeout = 1.0 if answer is not None else 0.0
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            self.background.join(timeout)
        telemetry = self._telemetry.unwritten if self._telemetry is not None else 0
        return self._unwritten() + self.sink.unflushed + telemetry

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
        self.background.forget()
        farewell, self.farewell = self.farewell, None
        if farewell is not None:
            farewell(None)
        self.sink.forget()
        if self._telemetry is not None:
            self._telemetry.forget()

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
