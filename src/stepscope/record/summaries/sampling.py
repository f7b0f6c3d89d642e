"""Which summaries are recorded: by steps, seconds, chance, or a condition."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from stepscope.errors import UsageError

Condition = bool | Callable[[], Any] | Callable[[int], Any]
Decide = Callable[[int | None], bool]
_HINT = "give one of condition, every_n_steps, every_secs and probability"


class Gate:
    """Whether to record, decided once per step, so that the summaries of a step go together.

    A context: what its thread logs to the run within is recorded or not. As a truth value it decides for what
    follows, which then need not be computed.

    Args:
        run: Whose summaries.
        decide: Says of a step, or None where none is known, whether it is recorded.
        current: Gives the running step.
    """

    def __init__(self, run: Any, decide: Decide, current: Callable[[], int | None]) -> None:
        self._run, self._decide, self._current = run, decide, current
        self._tokens: list[Token[tuple[Gate, ...]]] = []
        self._last: tuple[int, bool] | None = None

    def allows(self, step: int | None = None) -> bool:
        """Whether a summary of a step, by default of the running one, is recorded."""
        step = self._current() if step is None else step
        if step is None:
            return self._decide(None)
        last = self._last
        if last is None or last[0] != step:
            self._last = last = (step, self._decide(step))
        return last[1]

    def belongs_to(self, run: object) -> bool:
        """Whether it is one of this run."""
        return self._run is run

    def __bool__(self) -> bool:
        return self.allows()

    def __enter__(self) -> Gate:
        self._tokens.append(_gates.set((*_gates.get(), self)))
        self._run._close_gate(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _gates.reset(self._tokens.pop())
        self._run._close_gate(-1)


_gates: ContextVar[tuple[Gate, ...]] = ContextVar("stepscope_gates", default=())
"""Those that the present thread, or task, is within."""


def innermost(run: object) -> Gate | None:
    """Return the gate that counts here: the innermost, as with ``tf.summary.record_if``."""
    return next((gate for gate in reversed(_gates.get()) if gate.belongs_to(run)), None)


class Gates:
    """The gates of one run: those of one line share what they know, so a loop may make one each round."""

    def __init__(self) -> None:
        self._known: dict[object, Gate] = {}
        self.closed = 0
        self.usual: dict[str, Callable[..., Any] | None] = {}
        """What ``scalar`` and ``scalars`` are while no thread is within a context."""
        self.lock = threading.Lock()

    def get(self, key: object, make: Callable[[], Gate]) -> Gate:
        """Return the gate of a line."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        return found


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
        every_n_steps: At multiples of it; where no step is known, each so many calls.
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
            raise UsageError(f"probability={probability!r:.40} is none", hint="a number from 0 to 1")
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
