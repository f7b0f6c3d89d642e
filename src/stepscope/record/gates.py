"""``record_if``: decides which logged values are recorded, by steps, seconds, chance, or a condition."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from stepscope.errors import RecordError, UsageError
from stepscope.kernels.points import Points
from stepscope.kernels.steps import Steps
from stepscope.record.clock import Clock
from stepscope.record.info import AttemptInfo
from stepscope.record.problems import Problems

Condition = bool | Callable[[], Any] | Callable[[int], Any]
Decide = Callable[[int | None], bool]
_HINT = "give one of condition, every_n_steps, every_secs and probability"


class Gate:
    """The decision to record, made once per step, so that the summaries of a step go together.

    A context: what its thread logs to the run within is recorded or not. As a truth value it decides for what
    follows, which then need not be computed.

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
        info: Says whether this process writes what is logged; else its telemetry gets all of it.
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
            line: What names the line.
            condition: As for ``decision``, like the rest.
            every_n_steps: Likewise.
            every_secs: Likewise.
            probability: Likewise.
        """
        given = condition, every_n_steps, every_secs, probability
        if condition is not None:
            return Gate(self, decision(*given, self._clock.steady))
        key = line, *given
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Gate(self, decision(*given, self._clock.steady))
        return found

    def entered(self, change: int) -> None:
        """Make logging ask while any thread is in a context, and not otherwise."""
        with self._lock:
            self._open += change
            self._points.gated = self._open > 0 and self._info.role.writes

    def wanted(self, step: Any) -> bool:
        """Return whether points of a step are recorded; a condition that raises is reported, and records."""
        gate = next((each for each in reversed(_gates.get()) if each.belongs_to(self)), None)
        if gate is None:
            return True
        try:
            return gate.allows(step if isinstance(step, int) else None)
        except Exception as error:  # noqa: BLE001  the user's own condition
            found = f"not recorded: the condition of record_if raised {type(error).__name__}: {error}"
            self._problems.tell("record_if", RecordError(found, hint="it decides with True or False"))
            return True


def decision(
    condition: Condition | None,
    every_n_steps: int | None,
    every_secs: float | None,
    probability: float | None,
    now: Callable[[], float],
) -> Decide:
    """Return what decides.

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
    if sum(each is not None for each in given) != 1:
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
