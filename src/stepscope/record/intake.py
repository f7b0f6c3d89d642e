"""Intake of points, events and summaries from the threads that log, held for the writer's thread.

Ordinary points wait in ``points``, as columns. Values on a device, and later points of the same tags, wait in
``device_queue``; summaries and events wait in ``summaries``. No thread that logs ever waits for a lock, nor
does a signal handler: single operations of the first two are atomic.

``record_if`` decides which logged values are taken: by steps, seconds, chance, or a condition.
"""

from __future__ import annotations

import inspect
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar, Token
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepscope.errors import RecordError, UsageError
from stepscope.kernels.points import Points
from stepscope.kernels.steps import Steps
from stepscope.record.clock import Clock
from stepscope.record.cost import Cost
from stepscope.record.info import AttemptInfo
from stepscope.record.problems import Problems, RefusalError, shown, user_site
from stepscope.record.rank_values import OWN
from stepscope.record.summaries.encoder import Made, SummaryEncoder, SummaryTask
from stepscope.record.values import Delayed, Pending, Point, as_step, as_tag, read, reader_now

if TYPE_CHECKING:
    from stepscope.record.summaries.encoder import Prepared

TAG_BYTES = 256
"""Memory of a tag besides its characters, in all places that hold it."""
POINT_BYTES = 64
"""Memory of a waiting point: 28 bytes in columns, which double when they grow."""
DEVICE_POINTS = 10
"""Points whose memory equals that of a value still on a device: a tuple, three numbers, a snapshot."""


class Intake:
    """Takes logged values, in the thread that logs them, and never waits.

    Args:
        points: Ordinary points on their way.
        steps: The steps of the run.
        info: Says which rank this is and whether the run has ended.
        summaries: Makes summaries and events.
        cost: The account of the cost of logging.
        problems: Receives the failures to record.
        clock: Readings of time.
        log_dir: The run's directory, for messages.
        max_queue_bytes: Bound of the memory that waiting points take, and of that of all tags.
        wake: Wakes the writer's thread.

    Attributes:
        points: Its ``known`` tags are logged without a further look; they are emptied to get the attention of
            the next call.
        device_queue: The other points on their way.
        device_tags: Tags that have had a value on a device; their points all take the queue, to stay in
            order.
        forked: This is a copy in a forked child.
        last_step: The step that was written last; -1 before any.
        gates: Contexts of ``record_if``.
    """

    gates: Gates

    def __init__(
        self,
        points: Points,
        steps: Steps,
        info: AttemptInfo,
        summaries: SummaryEncoder,
        cost: Cost,
        problems: Problems,
        clock: Clock,
        log_dir: str,
        *,
        max_queue_bytes: int,
        wake: Callable[[], None],
    ) -> None:
        self.points, self._steps, self._info, self.summaries = points, steps, info, summaries
        self._cost, self._problems, self._wake = cost, problems, wake
        self._wall, self._steady = clock.wall, clock.steady
        self._log_dir = log_dir
        self._put: Callable[..., bool] = points.put
        self.device_queue: deque[Point] = deque()
        self.device_tags: set[str] = set()
        self._numbered: dict[str, Iterator[int]] = {}
        self._max_points = max(max_queue_bytes // POINT_BYTES, 16)
        self._limit = self._max_points
        self._tag_bytes, self._max_tag_bytes = 0, max(max_queue_bytes, 1 << 20)
        self.points.mark = self._limit // 2
        self.forked, self.last_step = False, -1
        self.tags_of_user: set[str] = set()
        """Tags that the user has logged, not a hook or an integration."""
        self.own_tags: set[str] = set()
        """Tags whose values every rank keeps."""
        self.queued = 0
        """Points that have taken the queue of devices so far."""

    @property
    def taking(self) -> bool:
        """True if points are taken: the writer's thread was started, and nothing has ended it."""
        return self.points.taking

    @taking.setter
    def taking(self, taking: bool) -> None:
        self.points.taking = taking

    @property
    def waiting_points(self) -> int:
        """How many points wait here; one on a device counts as one."""
        return self.points.count + len(self.device_queue)

    def step_now(self) -> int:
        """Return the step of values that are recorded outside the training thread."""
        return max(self.last_step, 0) if self._steps.current is None else self._steps.current

    # --- numbers ------------------------------------------------------------------------------------

    def log(
        self, tag: Any, value: Any, step: Any = None, wall: float = -1.0, rank: str | None = None
    ) -> None:
        """Record a value that ``Points.put`` refused: a new tag, a value on a device, or an invalid value.

        Args:
            tag: Name of the series.
            value: The value.
            step: Its step; None for the running one.
            wall: Its time in seconds since the epoch; below 0 for now.
            rank: "own" if every rank keeps its value.
        """
        begun = self._steady()
        if rank is not None and not self._keep_own((tag,), rank):
            return
        if not self.points.gated or self.gates.wanted(step):
            self._try_record(tag, value, step, wall)
        self._cost.charge(begun)

    def _keep_own(self, tags: Iterable[Any], rank: object) -> bool:
        """Note that every rank keeps the values of tags; return False if that was not asked for."""
        if rank != OWN:
            self.refuse("rank", f"rank must be {OWN!r}, got {shown(rank)}", "run.scalar(…, rank='own')")
            return False
        self.own_tags.update(tag for tag in tags if isinstance(tag, str))
        return True

    def put(self, tag: Any, value: Any, step: Any, wall: float) -> None:
        """Record one number of a given time, as ``log`` takes it."""
        if not self._put(tag, value, step, wall):
            self.log(tag, value, step, wall)

    def log_many(
        self,
        numbers: Mapping[str, Any],
        step: Any,
        wall: float | None = None,
        *,
        rank: str | None = None,
        by_user: bool = True,
    ) -> None:
        """Record several numbers of one step.

        Args:
            numbers: Values by tag.
            step: Their step; None for the running one.
            wall: Their time in seconds since the epoch; by default now.
            rank: "own" if every rank keeps its values.
            by_user: Whether the user logs them, not a hook or an integration.
        """
        # One reading, by which the encoder knows that they belong together.
        wall = self._wall() if wall is None else wall
        begun, spent = self._steady(), self._cost.spent
        try:
            items = numbers.items()
        except AttributeError:
            message = f"scalars() takes a mapping of tags to numbers, got {type(numbers).__name__}"
            self.refuse("tag", message, "run.scalars({'train/loss': loss})")
            return
        if rank is not None and not self._keep_own(numbers, rank):
            return
        if not self.points.gated or self.gates.wanted(step):
            for tag, value in items:
                if not self._put(tag, value, step, wall):
                    self._try_record(tag, value, step, wall, by_user=by_user)
        self._cost.charge(begun, spent)

    def _try_record(self, tag: Any, value: Any, step: Any, wall: float, *, by_user: bool = True) -> None:
        if by_user and isinstance(tag, str):
            self.tags_of_user.add(tag)
        try:
            self._record(tag, value, step, wall)
        except MemoryError:
            self.points.lose()

    def _record(self, tag: Any, value: Any, step: Any, wall: float) -> None:
        """Record one number by the slow path, or report why it cannot be recorded."""
        self._problems.deliver()
        if not self.taking:
            self.refuse_ended()
            return
        try:
            if not isinstance(tag, str) or not (tag in self.points.known or tag in self.device_tags):
                self._admit(as_tag(tag))
            number = read(value)
            self._learn(type(value))
            if step is None:
                step = self._steps.current
                step = next(self._numbered.setdefault(tag, count())) if step is None else step
            else:
                step = as_step(step)
                if not isinstance(step, int):
                    number, step = Delayed(number, step), 0
        except RefusalError as refusal:
            what = f"{tag!r} must be one number, got " if refusal.reason == "value" else ""
            self.refuse(refusal.reason, what + refusal.found, refusal.hint)
        except Exception as error:  # noqa: BLE001  code of a framework or of the user's own type
            message = f"reading the value of {tag!r} raised {type(error).__name__}: {error}"
            self.refuse("value", message, "pass float(value) to see where that comes from")
        else:
            self.accept_or_refuse(str(tag), number, step, wall)

    def _admit(self, tag: str) -> None:
        """Take a new tag.

        Raises:
            RefusalError: The tags alone take as much memory as waiting points may.
        """
        if tag not in self.points.numbers:
            size = TAG_BYTES + len(tag)
            if self._tag_bytes + size > self._max_tag_bytes:
                message = f"{tag!r:.100}: there are {len(self.points.names):,} different tags already"
                raise RefusalError(
                    "tags",
                    message,
                    "use one tag for numbers of one kind and tell them apart by step, or raise "
                    "max_queue_bytes",
                )
            self._tag_bytes += size
        self.points.admit(tag)

    def _learn(self, kind: type) -> None:
        """Let the next value of this type take the fast path, if the type allows it."""
        readers = self.points.readers
        if kind not in readers and (reader := reader_now(kind)) is not None:
            readers[kind] = reader

    def accept_or_refuse(self, tag: str, value: float | Pending, step: int, wall: float = -1.0) -> None:
        """Take a point of an admitted tag, or tell the user that memory is full."""
        if not self._accept(tag, value, step, self._wall() if wall < 0 else wall):
            message = f"{tag!r}: more is logged than can be written, and max_queue_bytes are waiting"
            self.refuse("overflow", message, "log less often, or raise max_queue_bytes")

    def _accept(self, tag: str, value: float | Pending, step: int, wall: float) -> bool:
        """Take a point of an admitted tag; False if memory is full."""
        points = self.points
        used = points.count + DEVICE_POINTS * len(self.device_queue)
        if used >= points.mark:
            if used >= self._limit:
                return False
            points.mark = self._limit
            self._wake()
        if isinstance(value, float) and tag not in self.device_tags:
            points.add(points.numbers[tag], value, step, wall)
        else:
            self.device_tags.add(tag)
            points.known.pop(tag, None)
            self.device_queue.append((tag, value, step, wall))
            self.queued += 1
        return True

    def record_readings(
        self, readings: Mapping[str, float], step: Any = None, wall: float | None = None
    ) -> None:
        """Record numbers from a thread that does not train: none of it counts as the training's own time.

        Args:
            readings: Values by tag.
            step: Their step; None for the running one.
            wall: Their time in seconds since the epoch; by default now.
        """
        wall = self._wall() if wall is None else wall
        try:
            number = self.step_now() if step is None else as_step(step)
        except RefusalError as refusal:
            error = RecordError(f"not recorded: {refusal.found}", hint=refusal.hint, path=self._log_dir)
            self._problems.post(refusal.reason, error, points=len(readings))
            return
        for tag, value in readings.items():
            if tag not in self.points.numbers:
                self.points.admit(tag)
            if isinstance(number, int):
                taken = self._accept(tag, float(value), number, wall)
            else:
                taken = self._accept(tag, Delayed(float(value), number), 0, wall)
            if not taken:
                what = f"not recorded: {tag!r}: max_queue_bytes are waiting"
                self._problems.post("overflow", RecordError(what, hint="log less often"))

    # --- events and summaries -----------------------------------------------------------------------

    def event(self, make: Callable[[], Made], step: Any, nbytes: int, tag: str, wall: float | None) -> None:
        """Take a function that makes an event later, on the summaries' thread; see ``Run.event``."""
        begun = self._steady()
        if not self._info.role.writes:
            return
        self._problems.deliver()
        if not self.taking:
            self.refuse_ended()
            return
        try:
            number = self.event_step(step, tag)
        except RefusalError as refusal:
            self.refuse(refusal.reason, refusal.found, refusal.hint)
            return
        name, wall = repr(tag) if tag else "an event", self._wall() if wall is None else wall
        if not self.summaries.put(SummaryTask(make, number, wall, nbytes, name, user_site())):
            message = f"{tag!r}: more is logged than can be written, and max_summary_bytes are waiting"
            self.refuse("overflow", message, "log less often, or raise max_summary_bytes")
        self._cost.charge(begun)

    def background_event(
        self, make: Callable[[], Made], step: int | None, nbytes: int, tag: str, wall: float | None
    ) -> None:
        """Take an event from a thread that does not train, as of now by default."""
        step = self.step_now() if step is None else step
        wall = self._wall() if wall is None else wall
        if not self.summaries.put(SummaryTask(make, step, wall, nbytes, tag)):
            what = f"not recorded: {tag}: max_summary_bytes are waiting"
            self._problems.post("overflow", RecordError(what, hint="log less often"))

    def event_step(self, step: Any, tag: str) -> int | Pending:
        """Return the step of an event: the given one, the running one, or how many of its tag came before.

        Raises:
            RefusalError: the given value is not a step.
        """
        if step is not None:
            return as_step(step)
        current = self._steps.current
        return next(self._numbered.setdefault(tag, count())) if current is None else current

    def summary(
        self, tag: Any, step: Any, prepare: Callable[[], Prepared], wall: float | None = None
    ) -> None:
        """Take a logged value and have it made into a summary; see ``Run.summary``."""
        begun, spent = self._steady(), self._cost.spent
        if not self._info.role.writes or (self.points.gated and not self.gates.wanted(step)):
            return
        if not self.taking:
            self.refuse_ended()
            return
        self._problems.deliver()
        try:
            name = as_tag(tag)
            prepared = prepare()
        except RefusalError as refusal:
            what = "" if refusal.reason == "tag" else f"{tag!r}: got "
            self.refuse(refusal.reason, what + refusal.found, refusal.hint)
        except Exception as error:  # noqa: BLE001  code of a framework or of the user's own type
            message = f"taking the value of {tag!r} raised {type(error).__name__}: {error}"
            self.refuse("value", message, "pass a numpy array of it to see where that comes from")
        else:
            self.event(partial(prepared.make, name), step, prepared.nbytes, name, wall)
        self._cost.charge(begun, spent)

    # --- what is not recorded -----------------------------------------------------------------------

    def refuse(self, reason: str, message: str, hint: str) -> None:
        """Tell the user that something is not recorded."""
        error = RecordError(f"not recorded: {message}", hint=hint, path=self._log_dir)
        self._problems.tell(reason, error)

    def refuse_ended(self) -> None:
        """Tell the user why nothing is recorded any more."""
        if self.forked:
            reason, hint = "this is a forked child, and the run is its parent's", "create a Run in the child"
            self.refuse("forked", reason, hint)
        elif self._info.ended:
            self.refuse("closed", "the run is closed", "log before close() or inside the with block")
        else:
            reason, hint = "the run has no thread to write with", "see the earlier warning of this run"
            self.refuse("thread", reason, hint)

    # --- for the writer's thread --------------------------------------------------------------------

    def report_unheld(self) -> None:
        """Report the points for which there was no memory when they were logged."""
        if self.points.unheld and (count := self.points.take_unheld()):
            message = f"not recorded: there was no memory for {count:,} points; training goes on"
            hint = "leave memory free: smaller batches, or fewer workers"
            self._problems.post("memory", RecordError(message, hint=hint, path=self._log_dir), points=count)

    def bound(self, stuck: int) -> None:
        """Set how many points may wait besides those that are stuck; interrupt the fast path if needed.

        Args:
            stuck: Points that were taken away and could not be written yet.
        """
        self._limit = max(self._max_points - stuck, 0)
        self.points.mark = self._limit // 2
        if self._problems.waiting:
            self.points.known.clear()

    def close(self) -> None:
        """Take no more."""
        self.taking = False
        self.points.known.clear()

    def forget(self) -> None:
        """Become inert in a forked child: the points are the parent's."""
        self.close()
        self.forked = True
        self.points.take()
        self.device_queue.clear()
        self.summaries.forget()


# --- record_if --------------------------------------------------------------------------------------


Condition = bool | Callable[[], Any] | Callable[[int], Any]
Decide = Callable[[int | None], bool]
_HINT = "give one of condition, every_n_steps, every_secs and probability"


class Gate:
    """The decision to record, made once per step, so that the summaries of a step go together.

    As a context it decides for everything that its thread logs to the run within. As a truth value it also
    spares computing the values.

    Args:
        gates: Those of the run.
        decide: Returns whether a step is recorded; None stands for an unknown step.
    """

    def __init__(self, gates: Gates, decide: Decide) -> None:
        self._gates, self._decide = gates, decide
        self._tokens: list[Token[tuple[Gate, ...]]] = []
        self._last: tuple[int, bool] | None = None

    def allows(self, step: int | None = None) -> bool:
        """Return whether a summary of a step, by default of the running one, is recorded."""
        step = self._gates.current_step if step is None else step
        if step is None:
            return self._decide(None)
        last = self._last
        if last is None or last[0] != step:
            self._last = last = (step, self._decide(step))
        return last[1]

    def belongs_to(self, gates: Gates) -> bool:
        """Return whether this context belongs to this run."""
        return self._gates is gates

    def __bool__(self) -> bool:
        return self.allows()

    def __enter__(self) -> Gate:
        self._tokens.append(_gates.set((*_gates.get(), self)))
        self._gates.entered(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _gates.reset(self._tokens.pop())
        self._gates.entered(-1)


_gates: ContextVar[tuple[Gate, ...]] = ContextVar("stepscope_gates", default=())
"""The contexts that the current thread or task is in."""


class Gates:
    """The gates of one run. Gates made at one line share their state, so a loop may make one in each round.

    Args:
        points: Receives whether any thread is in a context, so that logging has to ask.
        steps: The steps of the run.
        info: Tells whether this process writes logged values; else its telemetry gets all of them.
        problems: Told of a condition that fails.
        clock: Gives the time.
    """

    def __init__(
        self, points: Points, steps: Steps, info: AttemptInfo, problems: Problems, clock: Clock
    ) -> None:
        self._points, self._steps, self._info = points, steps, info
        self._problems, self._clock = problems, clock
        self._known: dict[object, Gate] = {}
        self._open = 0
        self._lock = threading.Lock()

    @property
    def current_step(self) -> int | None:
        """Number of the running step."""
        return self._steps.current

    def gate(
        self,
        line: object,
        condition: Condition | None,
        every_n_steps: int | None,
        every_secs: float | None,
        probability: float | None,
    ) -> Gate:
        """Return the gate of a line of the user's; one with a condition is new each time.

        Args:
            line: Identifies the line.
            condition: As for ``decision``, like the rest.
            every_n_steps: Likewise.
            every_secs: Likewise.
            probability: Likewise.
        """
        given = condition, every_n_steps, every_secs, probability
        if condition is not None:
            return Gate(self, decision(*given, self._clock.steady))
        key = line, *given
        gate = self._known.get(key)
        if gate is None:
            gate = self._known[key] = Gate(self, decision(*given, self._clock.steady))
        return gate

    def entered(self, change: int) -> None:
        """Make logging ask while any thread is in a context, and not otherwise."""
        with self._lock:
            self._open += change
            self._points.gated = self._open > 0 and self._info.role.writes

    def wanted(self, step: Any) -> bool:
        """Return whether points of a step are recorded; a condition that raises is reported, and records."""
        gate = next((gate for gate in reversed(_gates.get()) if gate.belongs_to(self)), None)
        if gate is None:
            return True
        try:
            return gate.allows(step if isinstance(step, int) else None)
        except Exception as error:  # noqa: BLE001  the user's own condition
            message = f"not recorded: the condition of record_if raised {type(error).__name__}: {error}"
            self._problems.tell("record_if", RecordError(message, hint="it decides with True or False"))
            return True


def decision(
    condition: Condition | None,
    every_n_steps: int | None,
    every_secs: float | None,
    probability: float | None,
    now: Callable[[], float],
) -> Decide:
    """Return the function that decides.

    Args:
        condition: A truth value, or a function of nothing or of the step that gives one.
        every_n_steps: At multiples of it; if no step is known, every that many calls.
        every_secs: When so many seconds have passed since the last time; at once the first time.
        probability: By chance, from a generator of its own.
        now: Steady time in seconds.

    Raises:
        UsageError: Not exactly one is given, or one that cannot be right.
    """
    given = [condition, every_n_steps, every_secs, probability]
    if sum(rule is not None for rule in given) != 1:
        raise UsageError("record_if() takes one condition", hint=_HINT)
    if every_n_steps is not None:
        return _every_steps(_checked("every_n_steps", every_n_steps, whole=True))
    if every_secs is not None:
        return _every_seconds(_checked("every_secs", every_secs), now)
    if probability is not None:
        if not 0 <= probability <= 1:
            raise UsageError(
                f"probability={probability!r:.40} is not a probability", hint="a number from 0 to 1"
            )
        chance = random.Random()  # noqa: S311  its own: the user's seeds stay what they are
        return lambda step: chance.random() < probability
    return _by_condition(condition)


def _checked(name: str, value: Any, *, whole: bool = False) -> Any:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not value > 0:
        raise UsageError(f"{name}={value!r:.40}", hint=f"a{'n integer' if whole else ' number'} above 0")
    return value


def _every_steps(every: int) -> Decide:
    calls = iter(range(1 << 62))
    return lambda step: (next(calls) if step is None else step) % every == 0


def _every_seconds(every: float, now: Callable[[], float]) -> Decide:
    last = float("-inf")

    def decide(step: int | None) -> bool:
        nonlocal last
        if (time := now()) - last < every:
            return False
        last = time
        return True

    return decide


def _by_condition(condition: Any) -> Decide:
    if not callable(condition):
        answer = bool(condition)
        return lambda step: answer
    if _takes_step(condition):
        return lambda step: bool(condition(step))
    return lambda step: bool(condition())


def _takes_step(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(0)
    except (TypeError, ValueError):
        return False
    return True
