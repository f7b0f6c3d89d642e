"""The steps of a run: counting them, their stages, the hooks at their boundaries, and requests to stop.

Numbers begin at ``start`` and count on over every loop of the run. A step's time goes from the moment its
data was asked for to its end, so the wait for data is part of it. It is host time: a device that works
asynchronously affects it once its queue is full.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.errors import HaltError, RecordError
from stepscope.kernels.steps import Steps
from stepscope.record.bounded import Call
from stepscope.record.clock import Deadline
from stepscope.record.config import integer
from stepscope.record.endings import Outcome, leaving
from stepscope.record.problems import Problems
from stepscope.record.protocol import Hook, StopRequest

if TYPE_CHECKING:
    from types import TracebackType

    from stepscope.kernels.steps import Rest, Stages, Steps
    from stepscope.record.info import AttemptInfo
    from stepscope.record.intake import Intake
    from stepscope.record.problems import Problems

Called = tuple["Rest | None", Hook, Callable[[int], None]]
"""A hook that may rest, and its method to call."""
MAX_FAILURES = 3
"""Failures in a row after which a hook is switched off."""
WITHDRAW_SECS = 10.0
"""Seconds for a hook that is ended in the middle of the training."""


class Hooks:
    """The hooks of one run, called in the order in which they were added.

    Args:
        run: The run, which may be gone.
        problems: Receives the exceptions of hooks.
        steps: Tells of their boundaries.
    """

    def __init__(self, run: weakref.ref[Any], problems: Problems, steps: Steps) -> None:
        self._run, self._problems, self._steps = run, problems, steps
        self._hooks: list[Hook] = []
        self._failures: dict[tuple[int, str], int] = {}
        self.last: list[Hook] = []
        """The hooks that took part when the run ended."""
        steps.hooks = self

    def __iter__(self) -> Iterator[Hook]:
        return iter(tuple(self._hooks))

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, hook: Hook, run: Any) -> None:
        """Begin a hook and call it from now on."""
        self._hooks.append(hook)
        begin: Callable[..., None] = hook.begin
        try:
            begin(run)
        except HaltError:
            raise
        except Exception as error:  # noqa: BLE001  a hook's own code
            self._tell(hook, "begin", error, "it is switched off")
            self._hooks.remove(hook)
            return
        self._choose()

    def call(self, chosen: tuple[Called, ...], step: int) -> None:
        """Call the hooks that are due at a step boundary, except those that rest."""
        for rest, hook, act in chosen:
            if rest is not None and rest.on:
                continue
            try:
                act(step)
            except HaltError:
                raise
            except Exception as error:  # noqa: BLE001  a hook's own code
                self._failed(hook, act.__name__, error)
            else:
                if self._failures:
                    self._failures.pop((id(hook), act.__name__), None)

    def forget(self) -> None:
        """Call no hook any more, in a forked child: they are the parent's."""
        self._hooks = []
        self._choose()

    def withdraw(self) -> None:
        """End the hooks that are not meant for this rank, if it turned out not to be the chief."""
        run = self._run()
        if run is None:
            return
        for hook in tuple(self._hooks):
            if hook.ranks != "all" and not run.role.writes:
                self._hooks.remove(hook)
                self._end(hook, run, "finished", Deadline.after(WITHDRAW_SECS, run.clock))
        self._choose()

    def end(self, status: str, deadline: Deadline) -> None:
        """End every hook, the last added first; once.

        Args:
            status: How the run ends.
            deadline: Shared by all of them.
        """
        run = self._run()
        if run is None:
            return
        hooks, self._hooks = self._hooks, []
        self.last = hooks
        self._choose()
        for hook in reversed(hooks):
            self._end(hook, run, status, deadline)

    def _end(self, hook: Hook, run: Any, status: str, deadline: Deadline) -> None:
        end: Callable[..., None] = hook.end
        words = (run, status, deadline) if takes_deadline(end) else (run, status)
        try:
            if keeps_deadline(hook):
                end(*words)
            elif not Call(partial(end, *words), "stepscope-hook-end").wait(deadline.left()):
                message = f"{type(hook).__name__}.end has not returned in time; the run is closed without it"
                hint = "give the end more time: run.close(timeout=120); or look what it waits for"
                self._problems.tell("hook", RecordError(message, hint=hint))
        except Exception as error:  # noqa: BLE001  a hook's own code, and the run is to be closed all the same
            self._tell(hook, "end", error, "the run is closed all the same")

    def _choose(self) -> None:
        self._steps.before = tuple(
            (hook._rest, hook, hook.before_step) for hook in self._hooks if _has(hook, "before_step")
        )
        self._steps.after = tuple(
            (hook._rest, hook, hook.after_step) for hook in self._hooks if _has(hook, "after_step")
        )

    def _failed(self, hook: Hook, method: str, error: Exception) -> None:
        key = id(hook), method
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        off = failures >= MAX_FAILURES
        if off:
            self._problems.forgive("hook")
        if off and hook in self._hooks:
            self._hooks.remove(hook)
            self._choose()
        self._tell(hook, method, error, "it is switched off" if off else "training goes on")

    def _tell(self, hook: Hook, method: str, error: Exception, then: str) -> None:
        name = type(hook).__name__
        message = f"{name}.{method} raised {type(error).__name__}: {error}; {then}"
        refusal = RecordError(
            message, hint=f"see where it raises with STEPSCOPE_STRICT=1, or leave out {name}"
        )
        refusal.__cause__ = error
        self._problems.tell("hook", refusal)


def keeps_deadline(hook: Hook) -> bool:
    """Return whether a hook's ``end`` calls no code but this package's, which keeps the deadline by itself.

    Anything else may wait for ever for a disk or for another process, so it gets a thread of its own.
    """
    ends = [kind for kind in type(hook).__mro__ if "end" in vars(kind) and kind is not Hook]
    ours = any(kind.__module__.startswith("stepscope.") for kind in ends)  # a profiler ends where it began
    return not ends or (ours and not hook.calls_user_code)


def takes_deadline(end: Callable[..., Any]) -> bool:
    """Return whether a hook's ``end`` takes a deadline; in earlier versions it took run and status alone."""
    try:
        inspect.signature(end).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _has(hook: Hook, method: str) -> bool:
    """Return whether a class overrides a method, or an instance does."""
    return getattr(getattr(hook, method), "__func__", None) is not getattr(Hook, method)


T = TypeVar("T")
STEP_TIME = "speed/step_time_ms"
DATA_WAIT = "speed/data_wait_ms"


class StepFollower:
    """Keeps the measurements of each step for a hook that rests and looks now and then.

    Args:
        steps: Those that end from now on; the oldest are forgotten if nobody looks for ``PAST`` of them.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps, self._seen = steps, steps.done

    def take(self) -> list[tuple[int, float, float | None]]:
        """Return number, seconds and wait of each step that ended since the last call."""
        durations = self._steps.since(self._seen)
        self._seen = self._steps.done
        return durations


class TrainingLoop:
    """Goes with the training loop: numbers its steps, knows how many there will be, and when to stop.

    The counter itself (``kernels.steps``) is compiled; it calls this in unusual cases.

    Args:
        counter: Counts the steps and times them.
        intake: Takes the times if more points wait than usual.
        withdraw: Ends the hooks that are not meant for this rank.
        info: Told how many steps there will be.
        problems: Told of a stop that other ranks do not know of.
        total_given: Whether the user said how many steps there will be.
        logged: Returns how much was logged so far.

    Attributes:
        withdraw: Called by the counter if this rank turned out not to be the chief.
        stop: The request to stop; None before one.
        shares_stop: Whether a hook lets the other ranks know of a request to stop.
    """

    def __init__(
        self,
        counter: Steps,
        intake: Intake,
        withdraw: Callable[[], None],
        info: AttemptInfo,
        problems: Problems,
        *,
        total_given: bool,
        logged: Callable[[], int],
    ) -> None:
        self.counter, self._intake, self.withdraw = counter, intake, withdraw
        self._info, self._problems = info, problems
        self._total_given = total_given
        self.stop: StopRequest | None = None
        self.shares_stop = self._nested = False
        self._logged = logged
        self._left: tuple[Outcome, int, int] | None = None
        for tag in (STEP_TIME, DATA_WAIT):  # the first of all tags: the kernel knows them by number
            intake.points.admit(tag)

    def steps(self, owner: object, iterable: Iterable[T], start: int | None) -> Iterator[T]:
        """Return a loop over data, each item being one step.

        Args:
            owner: Lives as long as the loop.
            iterable: The data.
            start: Number of the first step; by default the one after the last.
        """
        if start is not None:
            self.counter.next = integer("start", start)
        left = self._length(iterable)
        if left >= 0 and (start is not None or not self.counter.nests):
            rounds = self.counter.rounds if start is None else 1
            self.expect(self.counter.next + left * max(rounds, 1), estimate=True)
        items: Iterator[T] = self.counter.loop(owner, iter(iterable), left, start is not None)
        return items

    def _length(self, iterable: Any) -> int:
        """Return the length of the data, or -1 if it has none."""
        try:
            return len(iterable)
        except Exception:  # noqa: BLE001  iterable data sets raise what they like where they have no length
            return -1

    def expect(self, total_steps: int, *, estimate: bool = False) -> None:
        """Set how many steps the run will take, unless the user did.

        Args:
            total_steps: Their number.
            estimate: A later call may know better.
        """
        if not self._total_given:
            self._total_given = not estimate
            self._info.expect(total_steps)

    # --- stopping -----------------------------------------------------------------------------------

    def request_stop(self, reason: str, error: HaltError | None, *, alone: bool) -> None:
        """Note a request to stop; of several the first counts."""
        if self.stop is None:
            self.stop = StopRequest(reason, error, alone and self._info.role.world_size > 1)
            self.counter.stopping = True

    def stop_together(self) -> None:
        """Stop, as every rank does at this step."""
        if self.stop is None:
            self.stop, self.counter.stopping = StopRequest("another rank requested it"), True
        else:
            self.stop.alone = False

    def left(self) -> tuple[Outcome, int] | None:
        """Return how the last loop was left, and how much was logged by then.

        None unless an exception left it, and no step has begun since.
        """
        left = self._left
        return None if left is None or left[2] != self.counter.next else left[:2]

    # --- called by the counter ----------------------------------------------------------------------

    def leave(self, error: BaseException) -> None:
        """Note the exception that left a step or a loop over steps; ``GeneratorExit`` if that is unknown."""
        outcome = leaving(error)
        self._left = None if outcome is None else (outcome, self._logged(), self.counter.next)

    def ends_loop(self) -> bool:
        """Raise the error of the request to stop, if any; return whether the loop ends."""
        stop = self.stop
        if stop is None:
            return False
        stop.raise_error()
        if stop.alone and not stop.warned and not self.shares_stop:
            stop.warned = True
            message = f"a stop was requested ({stop.reason}), but the other ranks do not know of it"
            hint = "add StopTogetherHook, or ask run.should_stop and share the answer; training goes on"
            self._problems.tell("stop", RecordError(message, hint=hint), points=0)
        return not stop.alone

    def nested(self, counts: bool) -> None:
        """Say once that of two loops within each other one counts the steps.

        Args:
            counts: Whether it is the inner one.
        """
        if self._nested:
            return
        self._nested = True
        step = self.counter.current
        if counts:
            self._problems.warn(
                f"run.steps within run.steps: since step {step} the steps are those of the inner loop, in "
                "which the optimizer steps; loop over epochs without run.steps"
            )
            return
        around = "a training whose steps a framework numbers" if self.counter.led else "a step"
        message = (
            f"run.steps or run.step within {around} (step {step}): what it goes through belongs to that "
            "step and is not counted"
        )
        hint = "evaluate in a plain loop; if these are steps of the training, say so with start=…"
        self._problems.tell("steps", RecordError(message, hint=hint), points=0)

    def step_number(self, number: object) -> int:
        """Return the number that a user gave a step."""
        return integer("number", number)

    def accept_times(self, step: int, step_ms: float, wait_ms: float) -> None:
        """Record a step's times if more points wait than usual."""
        self._intake.accept_or_refuse(STEP_TIME, step_ms, step)
        if wait_ms >= 0:
            self._intake.accept_or_refuse(DATA_WAIT, wait_ms, step)


class Stage:
    """A stage that lasts as long as a block; the earlier stage goes on after it. May be entered again.

    Args:
        stages: Of the run.
        name: Its name.
    """

    def __init__(self, stages: Stages, name: str) -> None:
        self._stages, self._number = stages, stages.number(name)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(self._stages.mark(self._number))
        self._stages.held += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stages.held -= 1
        self._stages.mark(self._before.pop())


def spend(stages: Stages, number: int, seconds: float) -> None:
    """Give the last seconds of the running stage to another one.

    Args:
        stages: Of a step that runs on this thread.
        number: Of the other stage.
        seconds: No more than the running stage has lasted.
    """
    before = stages.mark(number)
    if before != number:
        stages.since -= seconds
        stages.mark(before)
        stages.since += seconds


class Pause(Stage):
    """A block of the loop that is no part of the step that runs: an evaluation, a checkpoint.

    Within another pause, the time counts for the outer one alone.

    Args:
        steps: The steps of the run.
        name: Name of the work done meanwhile.
        ended: Is told how many seconds the block took.
    """

    def __init__(self, steps: Steps, name: str, ended: Callable[[float], object]) -> None:
        assert steps.stages is not None
        super().__init__(steps.stages, name)
        if self._number:  # 0 where there are too many stages
            steps.stages.pauses.add(self._number)
        self._steps, self._ended = steps, ended
        self._begun: list[tuple[float, tuple[int, bool, float]]] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._begun.append((self._steps.now(), self._place))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun, place = self._begun.pop()
        super().__exit__(kind, error, trace)
        seconds = self._steps.now() - begun
        if place == self._place and self._stages.running not in self._stages.pauses:
            self._steps.leave_out(seconds)
        if kind is None:
            self._ended(seconds)

    @property
    def _place(self) -> tuple[int, bool, float]:
        """The running step, by its beginning: one that was dropped left its number to the next."""
        return self._steps.done, self._steps.running, self._steps.asked
