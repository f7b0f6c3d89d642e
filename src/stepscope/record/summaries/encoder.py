"""Summaries on their way: the thread that makes them, so that images delay neither training nor scalars."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stepscope.errors import RecordError
from stepscope.events.messages import Event, Summary, Value
from stepscope.record.problems import Problems, RefusalError, Site, pass_on
from stepscope.record.summaries.encode import OFFLOAD
from stepscope.record.values import Pending
from stepscope.record.worker import Worker
from stepscope.text import size

MAX_BYTES = 1 << 30
"""No event holds more: protocol buffers end at 2 GiB."""


class Prepared(NamedTuple):
    """A summary that is checked and held, ready to be made.

    Attributes:
        make: Makes an event, or the values of one, given the tag; runs on the background thread.
        nbytes: Memory that it holds.
    """

    make: Callable[[str], Made]
    nbytes: int


def refused(message: str, hint: str) -> RefusalError:
    """Return the refusal of a user's value."""
    return RefusalError("value", message, hint)


def bounded(nbytes: int) -> int:
    """Return a size that fits into an event.

    Raises:
        RefusalError: It does not.
    """
    if nbytes > MAX_BYTES:
        raise refused(size(nbytes), "log a part of it; an event holds 1 GiB at most")
    return nbytes


Made = Event | Sequence[Value] | None
_LARGE_BYTES = 256 << 10
"""Below this, encoding takes no memory worth counting."""
WORK = 4
"""Memory of a large summary while it is encoded, as a multiple of its size: its pixels as the encoder wants
them, and the result, here and in the process that encodes it."""


class SummaryTask(NamedTuple):
    """A summary to be made.

    Attributes:
        make: Makes it, on the background thread.
        step: Its step.
        wall: Its time in seconds.
        nbytes: Memory that it holds until it is written.
        name: Its name in messages.
        site: The user's line that logged it.
    """

    make: Callable[[], Made]
    step: int | Pending
    wall: float
    nbytes: int
    name: str
    site: Site | None = None


class SummaryEncoder:
    """Makes summaries in the order in which they were put.

    Args:
        problems: Told of summaries that could not be made.
        max_bytes: Bound of the memory that waiting summaries hold, and that encoding one of them takes.
        wake: Called when one is ready.

    Attributes:
        ready: Events to be written.
        pending: Summaries put and not yet ready or lost.
        taken: Summaries put so far.
    """

    def __init__(self, problems: Problems, max_bytes: int, wake: Callable[[], None]) -> None:
        self._problems, self._max_bytes, self._wake = problems, max_bytes, wake
        self._worker: Worker[SummaryTask] = Worker("stepscope-summaries", self._do, OFFLOAD.end)
        self.ready: deque[tuple[Event, int]] = deque()
        self.pending, self.held_bytes, self._largest, self.taken = 0, 0, 0, 0

    def put(self, task: SummaryTask) -> bool:
        """Take a task; return False if memory is full. A single task is taken whatever its size."""
        with self._worker.lock:
            large = task.nbytes if task.nbytes >= _LARGE_BYTES else 0
            self._largest = max(self._largest if self.held_bytes else 0, large)
            if self.held_bytes and self.held_bytes + task.nbytes + WORK * self._largest > self._max_bytes:
                return False
            self.held_bytes += task.nbytes
            self.pending += 1
            self.taken += 1
            self._worker.put(task)
        return True

    def written(self, nbytes: int) -> None:
        """Note that a ready event is written or lost, and its memory free."""
        with self._worker.lock:
            self.held_bytes -= nbytes

    def end(self) -> None:
        """Let the thread end once everything put is made."""
        self._worker.end()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end."""
        self._worker.join(timeout)

    def forget(self) -> None:
        """Become empty in a forked child, which lacks the thread."""
        self._worker.forget()
        self.ready.clear()
        self.pending = self.held_bytes = 0

    def _do(self, task: SummaryTask) -> None:
        event: Event | None = None
        try:
            event = as_event(task.make(), task)
        except RefusalError as refusal:
            self._lost(task, refusal.reason, refusal.found, refusal.hint)
        except BaseException as error:  # noqa: BLE001  a library's encoder, a framework's or the user's own code
            pass_on(error)
            self._lost(task, "summary", f"{type(error).__name__}: {error}", "")
        with self._worker.lock:
            self.pending -= 1
            if event is None:
                self.held_bytes -= task.nbytes
            else:
                self.ready.append((event, task.nbytes))
        self._wake()

    def _lost(self, task: SummaryTask, reason: str, reason_: str, hint: str) -> None:
        hint = hint or "the other summaries of this run are not affected"
        error = RecordError(f"not recorded: {task.name}: {reason_}", hint=hint)
        self._problems.post(reason, error, site=task.site)


def as_event(made: Made, task: SummaryTask) -> Event | None:
    """Return the result of a task as an event of its step and time; None if it made nothing."""
    if made is None:
        return None
    if not isinstance(made, Event):
        made = Event(summary=Summary(list(made)))
    step = task.step
    made.step = step if isinstance(step, int) else int(step.read())
    made.wall_time = task.wall
    return made
