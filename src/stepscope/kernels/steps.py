"""The boundary of a step: what every step of a training pays, after work that emptied the caches.

There each Python function called and each object read costs microseconds. So a boundary is one compiled call,
which calls Python only where a hook is due or something is unusual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cython

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.cpython.time import perf_counter
    from cython.cimports.stepscope.kernels.points import Points
else:
    from threading import get_ident
    from time import perf_counter

    from stepscope.kernels.points import Points

PAST = 128
"""Number of steps whose measurements are kept."""
LONGEST = PAST // 2
"""Number of steps after which a resting hook has to look at the measurements, at the latest."""
MOST_STAGES = 16
"""Number of stages of a step, the rest included; the time of further ones counts as the rest."""
ROWS_KEPT = 100_000
"""Number of steps whose stages are kept until they are taken."""
MAX_STEP = 1 << 62
"""More steps than any run takes."""
NOT_MADE = "this run was not made: a subclass of Run calls super().__init__() before it logs"
STEP_TIME_NUMBER, DATA_WAIT_NUMBER = 0, 1
"""Numbers of two tags among the points: every run admits them first."""


def _nobody() -> None:
    """Return None: there is no owner."""


@cython.cclass
class Spent:
    """The time that recording costs the threads that log.

    Attributes:
        seconds: All of it, without ordinary calls.
        theirs: Seconds in the user's own functions that hooks called; not part of ``seconds``.
        steps: Steps recorded.
    """

    def __init__(self) -> None:
        self.seconds, self.theirs, self.steps = 0.0, 0.0, 0


@cython.final
@cython.cclass
class Rest:
    """How long a hook need not be called. Any thread may end the rest, through ``on``.

    Attributes:
        on: Whether the hook rests. Otherwise it is called at every boundary.
        left: Steps that it still rests, at most; no more than ``LONGEST`` for a hook that looks at the past.
        low: The least number of a step ...
        high: ... and the one that ends the range in which it rests.
        when: Steady time in seconds at which the rest ends.
        above_s: A step that took longer also ends the rest.
    """

    def __init__(self) -> None:
        self.until(0)

    def until(
        self,
        left: cython.longlong = LONGEST,
        low: cython.longlong = -MAX_STEP,
        high: cython.longlong = MAX_STEP,
        when: cython.double = float("inf"),
        above_s: cython.double = float("inf"),
    ) -> None:
        """Rest from now on, until an attribute of one of these names ends it; not at all with ``left`` 0."""
        self.left, self.low, self.high, self.when, self.above_s = left, low, high, when, above_s
        self.on = left > 0

    def _holds(self, step, now, seconds):
        """Count a step, and return whether the hook continues to rest."""
        if self.on:
            self.left -= 1
            self.on = (
                self.left >= 0
                and self.low <= step
                and step < self.high
                and now < self.when
                and seconds <= self.above_s
            )
        return self.on


@cython.final
@cython.cclass
class Stages:
    """How long each stage of the running step has taken so far, by the clock of the host alone.

    One stage runs at any time; marking another ends it. Stage 0 is the rest: time that nobody marked. Only
    the thread that began the step marks.

    Args:
        steady: Gives the time in seconds; by default ``time.perf_counter``.

    Attributes:
        names: Of the stages, by number.
        order: Numbers of the stages in the order in which they first ran, without the rest.
        running: Number of the stage that runs.
        first: Number of the stage in which a step begins, once its data is there.
        since: When the running stage began.
        took_s: How long all stages of all steps have taken so far.
        on: Whether a step runs.
        keep: Whether somebody takes the rows.
        pauses: Numbers of the stages that are not part of the step's time.
        group: Name of the work of these steps, where ranks do different work; None where it is the same.
        device: Is called at the same moments, to time them on a device; must not raise. None for nobody.
        fresh: Whether nothing has been marked since the step began.
        arrived: Whether the moment is known at which the data of the step was there.
        held: How many blocks of the user's own are open, each a stage that no framework interrupts.
        marker: What an integration knows of the running step; None if none marks stages.
    """

    def __init__(self, steady: Callable[[], float] | None = None) -> None:
        self.names, self.order, self.pauses = ["rest"], [], set()
        self.running = self.first = 0
        self.since, self.on, self.keep = 0.0, False, False
        self.group: str | None = None
        self.device: Any = None
        self.fresh, self.arrived, self.held = True, False, 0
        self.marker: Any = None
        self._rows = []
        self._steady = steady
        self._thread = 0
        self._followed, self.took_s = 0, 0.0
        if not cython.compiled:
            self._spent, self._rested = [0.0] * MOST_STAGES, [0.0] * MOST_STAGES
        for at in range(MOST_STAGES):
            self._spent[at] = self._rested[at] = 0.0

    def number(self, name: str) -> cython.int:
        """Return the number of a stage; that of the rest if there are too many."""
        if name in self.names:
            return self.names.index(name)
        if len(self.names) == MOST_STAGES:
            return 0
        self.names.append(name)
        return len(self.names) - 1

    def mark(self, number: cython.int) -> cython.int:
        """Begin a stage, which ends the running one; return its number. Between steps nothing happens."""
        before: cython.int = self.running
        now: cython.double
        if not self.on or number == before or self._thread != get_ident():
            return before
        now = self._now()
        self._spent[before] += now - self.since
        self.took_s += now - self.since
        if before == 0:
            self._rested[self._followed] += now - self.since
        elif number == 0:
            self._followed = before
        self.running, self.since, self.fresh = number, now, False
        if self.device is not None:
            self.device.mark(number)
        if number not in self.order:
            self._see(number)
        return before

    def rename(self, number: cython.int) -> cython.int:
        """Give what ran since the last mark to another stage, as only what follows tells what it was."""
        if not self.on or number == self.running or self._thread != get_ident():
            return number
        self.running = number
        if self.device is not None:
            self.device.rename(number)
        if number not in self.order:
            self._see(number)
        return number

    @property
    def rested_s(self) -> list[float]:
        """The rest of all steps so far in seconds, by the number of the stage before it; 0 for no stage."""
        return [self._rested[at] for at in range(len(self.names))]

    @property
    def mine(self) -> bool:
        """Whether a step runs that the calling thread has begun."""
        return self.marks()

    def marks(self):
        """Return whether a step runs that the calling thread has begun, which is the one that marks."""
        return self.on and self._thread == get_ident()

    def take(self) -> list[tuple[int, tuple[float, ...]]]:
        """Return the number and the seconds by stage of each step that ended since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def drop(self) -> None:
        """Forget the running step: it did not complete."""
        self.on = False
        if self.device is not None:
            self.device.drop()

    def _see(self, number):
        if number:
            self.order.append(number)
        return 0

    def _begin(self, now, step, waited):
        at: cython.int
        for at in range(len(self.names)):
            self._spent[at] = 0.0
        self.running, self.since, self.on, self._followed = self.first, now, True, 0
        self.fresh, self.arrived = True, waited >= 0
        self._thread = get_ident()
        if self.device is not None and self.keep:
            self.device.begin(step, self.first, waited)
        if self.first and self.first not in self.order:
            self._see(self.first)
        return 0

    def _end(self, step, now, waited):
        if not self.on:
            return 0
        self._spent[self.running] += now - self.since
        self.took_s += now - self.since
        if self.running == 0 and not self.fresh:  # it has no place among the stages of such a step
            self._rested[self._followed] += now - self.since
        self.on = False
        if self.device is not None:
            self.device.end(now, waited)
        if self.keep and len(self._rows) < ROWS_KEPT:
            try:
                self._rows.append((step, tuple([self._spent[at] for at in range(len(self.names))])))
            except MemoryError:
                return 0  # the step itself is recorded, without its stages
        return 0

    def _now(self):
        return perf_counter() if self._steady is None else self._steady()


@cython.final
@cython.cclass
class Block:
    """A loop over data, or a block under ``with run.step()``, that is being executed.

    Args:
        loops: Whether it is a loop.

    Attributes:
        counts: Whether what it goes through are steps, and not parts of the step around it.
        worked: Whether the optimizer stepped in it and in no block within it.
        ended: Whether a step has ended that it began and nobody else did.
        taken: Whether the running step was also begun by hand.
        number: Of its running step.
        left: How many items follow the running one; below 0 if that is not known.
    """

    def __init__(self, loops: cython.bint) -> None:
        self.loops, self.counts, self.worked, self.ended, self.taken = loops, True, False, False, False
        self.number, self.left = -1, -1


@cython.final
@cython.cclass
class Steps:
    """The steps of one run.

    What a framework calls a step is one; then what the optimizer's steps show; then the outermost loop.

    Args:
        number: Of the first step.
        steady: Gives the time in seconds; by default ``time.perf_counter``.

    Attributes:
        points: Where a step's times are recorded; None for nowhere.
        stages: Is called when a step begins and ends; None for nobody.
        spent: The account of what recording costs; None for none.
        owner: Returns what handles the unusual, or None: ``accept_times`` where the points are full,
            ``ends_loop`` where a stop was requested, ``withdraw`` where hooks are to be removed, ``nested``
            where a loop is part of a step, ``leave`` where an exception ended a loop or a step.
        hooks: Calls hooks: ``call(chosen, step)``.
        before: The calls of hooks when a step begins: tuples of a ``Rest`` or None, and what ``hooks`` makes
            of the others.
        after: Likewise when it ends.
        flush: Has everything written soon, ``every`` this many steps; 0 for never.
        stopping: A stop was requested.
        withdrawing: Hooks are to be removed.
        next: Number of the step that begins next.
        done: Steps ended.
        number: Of the step that runs or ran last, or of the first while there is none ...
        has_begun: ... which this tells.
        running: Whether a step has begun and not ended.
        asked: Steady time in seconds at which the data of the running step was requested, or the step began.
        looping: Whether the data of the next step is requested as soon as the running one has ended.
        led: Whether a framework numbers the steps, so that no loop of the user's does.
        on_leave: Called when a loop over data is over, all its steps whole; they must not raise.
    """

    def __init__(self, number: cython.longlong = 0, steady: Callable[[], float] | None = None) -> None:
        self.points: Points | None = None
        self.stages: Stages | None = None
        self.spent: Spent | None = None
        self._steady = steady
        self.owner: Callable[[], Any] = _nobody
        self.hooks: Any = None
        self.before: tuple[tuple[Any, ...], ...] = ()
        self.after: tuple[tuple[Any, ...], ...] = ()
        self.flush: Callable[[], object] | None = None
        self.every = 0
        self.stopping = self.withdrawing = False
        self.next, self.number, self.done = number, number, 0
        self.has_begun = self.running = self.looping = self.led = False
        self._blocks: list[Block] = []
        self.asked, self._waited, self._left_out = 0.0, -1.0, 0.0
        self.on_leave: list[Callable[[], None]] = []
        if not cython.compiled:
            self._numbers, self._seconds, self._waits = [0] * PAST, [0.0] * PAST, [0.0] * PAST

    @property
    def current(self) -> int | None:
        """Number of the step that runs or ran last; None before the first."""
        return self.number if self.has_begun else None

    @current.setter
    def current(self, number: int) -> None:
        self.number, self.has_begun = number, True
        if self.points is not None:
            self.points.step = number

    @property
    def waited(self) -> float | None:
        """Seconds that the running step waited for its data; None if not measured."""
        return None if self._waited < 0 else self._waited

    @waited.setter
    def waited(self, seconds: object) -> None:
        self._wait(-1.0 if seconds is None else seconds)

    def wait_more(self, seconds: cython.double) -> None:
        """Add to what the running step waited for its data."""
        self._wait(max(self._waited, 0.0) + seconds)

    def _wait(self, waited):
        if self.stages is not None and waited > max(self._waited, 0.0) and self.running:
            self.stages.since += waited - max(self._waited, 0.0)
        self._waited = waited
        return 0

    @property
    def last(self) -> tuple[int, float, float | None] | None:
        """Number, seconds and data wait of the last complete step; None before the first."""
        return self._past(self.done - 1) if self.done else None

    def since(self, done: cython.longlong) -> list[tuple[int, float, float | None]]:
        """Return number, seconds and data wait of the steps after the first ``done``, at most ``PAST``."""
        first: cython.longlong = max(done, self.done - PAST, 0)
        return [self._past(step) for step in range(first, self.done)]

    def _past(self, which):
        at: cython.Py_ssize_t = which % PAST
        waited: cython.double = self._waits[at]
        return self._numbers[at], self._seconds[at], None if waited < 0 else waited

    # --- boundaries -----------------------------------------------------------------------------------

    def begin(self, asked: cython.double, waited: object = None) -> int:
        """Begin the next step and return its number.

        Args:
            asked: Steady time in seconds at which its data was asked for, or at which it begins.
            waited: Seconds until the data came; None where nobody measured that.
        """
        self._begin(asked, -1.0 if waited is None else waited)
        return self.number

    def end(self, now: cython.double) -> float:
        """End the running step, record its times and call the hooks; return the time when that is done."""
        return self._end(now)

    def now(self) -> float:
        """Return the steady time in seconds by which steps are measured."""
        return self._now()

    def leave_out(self, seconds: cython.double) -> None:
        """Take time off the running step: its thread did something else meanwhile, such as an evaluation."""
        if self.running and (self.stages is None or self.stages.marks()):
            self._left_out += seconds

    def abandon(self) -> None:
        """Drop the running step unmeasured: it did not complete."""
        self.running = False
        if self.stages is not None:
            self.stages.drop()

    def step(self, number: object = None) -> Step:
        """Begin a step now, and end the one that runs; return its context.

        Args:
            number: Its number; by default the one after the last.
        """
        outer: Block | None = self._enclosing()
        block: Block = Block(False)
        now: cython.double
        if number is None and (self.led or outer is not None):
            if outer is None or not outer.loops or outer.ended or outer.worked or self.led:
                block.counts = False
                self._tell_nested(False)
                return Step(self, block)
            if not outer.taken:  # the step that the loop has begun is the one that is meant
                outer.taken = True
                block.number = self.number
                return Step(self, block)
        now = self._now()
        if self.running:
            now = self._end(now)
        if self.stopping:
            self._stops()
        if number is not None:
            self.next = number
        self._begin(now, -1.0)
        block.number = self.number
        return Step(self, block)

    def loop(
        self, owner: Any, items: Iterator[Any], left: cython.longlong, counts: cython.bint = False
    ) -> Iterator[Any]:
        """Go through items, each being a step, unless all of them are part of one.

        Args:
            owner: Whose loop it is; lives as long as the loop.
            items: The items, of which there are ...
            left: ... so many, or below 0 where that is not known.
            counts: Whether the user says that they are steps, wherever the loop is.
        """
        block: Block = Block(True)
        asked: cython.double
        arrived: cython.double
        looping: cython.bint = self.looping
        nested: cython.bint = not counts and self.nests
        try:
            if self.stopping and self._stops():
                return
            block.counts = not nested
            self.looping = self.looping or not nested
            self._blocks.append(block)
            asked = self._now()
            for item in items:
                left -= 1
                block.left = left
                if block.counts:
                    arrived = self._now()
                    self.looping = left != 0
                    self._begin(asked, arrived - asked)
                    block.number, block.taken = self.number, False
                yield item
                asked = self._now()
                if nested and not block.counts:
                    nested = False
                    self._tell_nested(False)
                elif block.counts and self.number == block.number:
                    block.ended = block.ended or not block.taken
                    asked = self._end(asked)
                if self.stopping and self._stops():
                    return
        except BaseException as error:
            if block.counts:
                self._left(error)
            raise
        finally:
            _ = owner  # lives until here
            self._leave(block)
            if not block.counts:
                self.looping = looping
            else:
                self.looping = False
                if self.running and self.number == block.number:
                    self.running = False
                else:
                    for leave in self.on_leave:
                        leave()

    @property
    def nests(self) -> bool:
        """Whether a loop that begins now would be part of a running step."""
        return self.led or self._enclosing() is not None

    @property
    def rounds(self) -> int:
        """How often the loop that begins now may be gone through, this time included; 0 if unknown."""
        factor: cython.longlong = 1
        for block in self._blocks:
            if not block.counts:
                factor *= block.left + 1
        return factor

    def optimized(self) -> None:
        """Note that an optimizer steps: the loop in which it does is the one whose items are steps."""
        inner: Block
        outer: Block | None
        if not self._blocks:
            return
        inner = self._blocks[len(self._blocks) - 1]
        if inner.counts:
            inner.worked = True
            return
        outer = self._enclosing()
        if outer is not None and outer.loops and not outer.worked and not self.led:
            outer.counts = False
            inner.counts = inner.worked = True
            inner.number = self.number
            self._tell_nested(True)

    def _enclosing(self):
        """Return the block whose step runs; None if there is none."""
        for block in reversed(self._blocks):
            if block.counts:
                return block if self.running and self.number == block.number else None
        return None

    def _tell_nested(self, counts):
        owner = self.owner()
        if owner is not None:
            owner.nested(counts)
        return 0

    def _leave(self, block):
        for at in range(len(self._blocks)):
            if self._blocks[at] is block:
                del self._blocks[at]
                break
        return 0

    def _begin(self, asked, waited):
        spent: cython.double = self._account()
        theirs: cython.double = 0.0 if self.spent is None else self.spent.theirs
        self.number = self.next
        self.next += 1
        self.has_begun = self.running = True
        self.asked, self._waited, self._left_out = asked, waited, 0.0
        if self.stages is not None:
            self.stages._begin(asked if waited < 0 else asked + waited, self.number, waited)
        if self.points is not None:
            self.points.step = self.number
            self.points.stepping = True
        if self.withdrawing:
            self._withdraw()
        if self.before and self._due(self.before):
            self._call(self.before, self.number)
        self._charge(asked if waited < 0 else asked + waited, spent, theirs)
        return 0

    def _end(self, now):
        at: cython.Py_ssize_t
        spent: cython.double
        theirs: cython.double
        seconds: cython.double
        waited: cython.double
        step: cython.longlong
        if not self.running:
            return now
        spent = self._account()
        theirs = 0.0 if self.spent is None else self.spent.theirs
        step, seconds, waited = self.number, now - self.asked - self._left_out, self._waited
        at = self.done % PAST
        self._numbers[at], self._seconds[at], self._waits[at] = step, seconds, waited
        self.done += 1
        self.running = False
        if self.stages is not None:
            self.stages._end(step, now, waited)
        if self.points is not None and self.points.taking:
            self._record(step, 1e3 * seconds, -1.0 if waited < 0 else 1e3 * waited)
        if self.after and self._ended(step, now, seconds):
            self._call(self.after, step)
        if self.spent is not None:
            self.spent.steps += 1
        return self._charge(now, spent, theirs)

    def _record(self, step, step_ms, wait_ms):
        if not self.points.pair(STEP_TIME_NUMBER, step_ms, DATA_WAIT_NUMBER, wait_ms, step):
            owner = self.owner()
            try:
                if owner is not None:
                    owner.accept_times(step, step_ms, wait_ms)
            except MemoryError:
                self.points.lose()
        if self.every and self.flush is not None and self.done % self.every == 0:
            self.flush()
        return 0

    def _call(self, chosen, step):
        try:
            self.hooks.call(chosen, step)
        except MemoryError:  # even telling of a hook's exception takes memory
            if self.points is not None:
                self.points.lose()
        return 0

    def _ended(self, step, now, seconds):
        """Count a step for the hooks that rest, and return whether any hook is due."""
        rest: Rest
        due: cython.bint = False
        for entry in self.after:
            waiting = entry[0]
            if waiting is None:
                due = True
            else:
                rest = waiting
                if not rest._holds(step, now, seconds):
                    due = True
        return due

    def _due(self, chosen):
        """Return whether any hook is due: not all of them rest."""
        rest: Rest
        for entry in chosen:
            waiting = entry[0]
            if waiting is None:
                return True
            rest = waiting
            if not rest.on:
                return True
        return False

    # --- the unusual ----------------------------------------------------------------------------------

    def _stops(self):
        """Raise what a request to stop carries; return whether the loop ends."""
        owner = self.owner()
        return owner is not None and bool(owner.ends_loop())

    def _left(self, error):
        """Pass on the exception that ended a loop or a step."""
        owner = self.owner()
        if owner is not None:
            owner.leave(error)
        return 0

    def _withdraw(self):
        owner = self.owner()
        self.withdrawing = False
        if owner is not None:
            owner.withdraw()
        return 0

    # --- the account ----------------------------------------------------------------------------------

    def _now(self):
        return perf_counter() if self._steady is None else self._steady()

    def _account(self):
        spent: cython.double = 0.0
        if self.spent is not None:
            spent = self.spent.seconds
        if self.points is not None:
            spent += self.points.spent
        return spent

    def _charge(self, begun, spent, theirs):
        """Count the time since then as the run's own, and return the present time.

        What hooks logged meanwhile has been counted already, and the user's functions that they called do not
        count as a cost of the run.
        """
        done: cython.double = self._now()
        if self.spent is not None:
            self.spent.seconds += done - begun - (self._account() - spent) - (self.spent.theirs - theirs)
        return done


@cython.final
@cython.cclass
class Step:
    """One step as a context: it ends with the block, and is not measured where the block raises.

    Args:
        steps: The steps whose running one is meant.
        block: Whether it counts.
    """

    def __init__(self, steps: Steps, block: Block) -> None:
        self._steps, self._block = steps, block

    def __enter__(self) -> int:
        self._steps._blocks.append(self._block)
        return self._steps.number

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        steps: Steps = self._steps
        steps._leave(self._block)
        if not self._block.counts:
            return
        if kind is None:
            steps._end(steps._now())
            if steps.stopping:
                steps._stops()
        else:
            steps.running = False
            steps._left(error)


@cython.cclass
class HotCalls:
    """The two calls of a run that a training loop makes most.

    A run inherits them, so they are found like any other method: a subclass or a patch may replace them.

    Args:
        points: Where points wait.
        steps: The steps of the run.
        unusual: Is called with tag, value, step, wall time and ``rank`` of a point that ``points`` does not
            take.
    """

    def __init__(self, points: Points, steps: Steps, unusual: Callable[..., object]) -> None:
        self._points, self._steps, self._unusual = points, steps, unusual

    def scalar(self, tag: object, value: object, step: object = None, rank: object = None) -> None:
        """Record one number.

        Args:
            tag: Its series, such as ``train/loss``: the part before the slash groups, a unit may end it
                (``_ms``, ``_bytes``, ``_ratio``, ``_per_second``).
            value: A Python number, or a numpy, torch, JAX or TensorFlow array of one element. One on a device
                is copied without waiting for the device: later in-place changes do not affect it, and no
                autograd graph is kept. NaN and infinities are recorded as such.
            step: By default the current step of ``steps()`` or ``step()``; where neither is used, the points
                of a tag are numbered from 0.
            rank: "own" for a value of which every rank of a job keeps its own, in its file; the others are
                recorded by the chief alone, unless the run was made with ``values="all"``.
        """
        if self._points is None:
            raise RuntimeError(NOT_MADE)
        if rank is not None or not self._points.put(tag, value, step):
            try:
                self._unusual(tag, value, step, -1.0, rank)
            except MemoryError:
                self._points.lose()

    def step(self, number: object = None) -> Step:
        """Begin a step by hand, where ``steps`` does not fit. There are two ways.

        As a call at the head of a loop, where a step lasts until the next call::

            while not run.should_stop:
                run.step()

        As a context, so that what lies between two steps, such as an evaluation, belongs to neither::

            with run.step() as number:

        Within a step of ``steps`` the first call means that very step.

        Args:
            number: The step's number, where the training goes on elsewhere; by default the one after the
                last.

        Returns:
            The context, which gives the step's number.

        Raises:
            UsageError: The number is none.
        """
        if self._steps is None:
            raise RuntimeError(NOT_MADE)
        if number is not None:
            owner = self._steps.owner()
            number = None if owner is None else owner.step_number(number)
        return self._steps.step(number)


@cython.cclass
class HotWriter:
    """The call of a drop-in writer that scripts make most.

    A writer inherits it, so that it may be overridden and patched like any other method.

    Attributes:
        _direct: The run that takes ordinary numbers at once; None where each needs a further look.
    """

    def __init__(self) -> None:
        self._direct: HotCalls | None = None

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool | str = False,
        double_precision: bool | str = False,
        display_name: str = "",
        summary_description: str = "",
    ) -> None:
        """Record a number.

        Args:
            tag: Its series.
            scalar_value: The number.
            global_step: Its step.
            walltime: Its time in seconds since the epoch.
            new_style: Store it as a tensor; tensorboardX has ``display_name`` here.
            double_precision: With ``new_style``, as float64; tensorboardX has ``summary_description`` here.
            display_name: Title of the chart.
            summary_description: Markdown.
        """
        if (
            self._direct is not None
            and walltime is None
            and new_style is False
            and double_precision is False
            and not display_name
            and not summary_description
            and self._direct._points.put(tag, scalar_value, 0 if global_step is None else global_step)
        ):
            return
        self._add_unusual(
            tag,
            scalar_value,
            global_step,
            walltime,
            new_style,
            double_precision,
            display_name,
            summary_description,
        )

    def _add_unusual(
        self,
        tag: str,
        value: Any,
        step: Any,
        wall: float | None,
        new_style: bool | str,
        double_precision: bool | str,
        display_name: str,
        summary_description: str,
    ) -> None:
        """Record a number that the points do not take; the arguments are those of ``add_scalar``."""
        raise NotImplementedError
