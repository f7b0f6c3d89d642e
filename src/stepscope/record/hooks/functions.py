"""LambdaHook and SummarySaverHook: hooks made of the user's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from stepscope.errors import UsageError
from stepscope.kernels.steps import Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.hook import Hook
from stepscope.record.hooks.timer import Timer, default_steps
from stepscope.record.problems import shown

if TYPE_CHECKING:
    from stepscope.record.run import Run


class LambdaHook(Hook):
    """Calls functions instead of methods. Their time counts as yours, not as Stepscope's.

    Args:
        begin: Called with the run.
        before_step: Called with the step's number.
        after_step: Called with the step's number.
        end: Called with the run and its status.
        ranks: "chief" or "all".

    Raises:
        UsageError: One of them cannot be called, or ``ranks`` is neither.
    """

    def __init__(
        self,
        *,
        begin: Callable[[Run], Any] | None = None,
        before_step: Callable[[int], Any] | None = None,
        after_step: Callable[[int], Any] | None = None,
        end: Callable[[Run, str], Any] | None = None,
        ranks: Literal["chief", "all"] = "chief",
    ) -> None:
        if ranks not in ("chief", "all"):
            raise UsageError(f"ranks must be 'chief' or 'all', got {shown(ranks)}", hint="ranks='all'")
        self.ranks = ranks
        self._begin = callable_or_none("begin", begin)
        self._end = callable_or_none("end", end)
        self._run: Run
        # As attributes, so that only what is given is called in the loop.
        if callable_or_none("before_step", before_step) is not None:
            self.before_step = self._caller(before_step)  # type: ignore[assignment]
        if callable_or_none("after_step", after_step) is not None:
            self.after_step = self._caller(after_step)  # type: ignore[assignment]

    def begin(self, run: Run) -> None:
        """Call ``begin``."""
        self._run = run
        if self._begin is not None:
            run.cost.call(self._begin, run)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Call ``end``."""
        if self._end is not None:
            run.cost.call(self._end, run, status)

    def _caller(self, function: Any) -> Callable[[int], None]:
        def call(step: int) -> None:
            self._run.cost.call(function, step)

        return call


def callable_or_none(name: str, function: Any) -> Any:
    """Return a function as it is.

    Raises:
        UsageError: It is something else.
    """
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, got {shown(function)}", hint=f"{name}=lambda …: …")
    return function


def needed(name: str, function: Any) -> Any:
    """Return a function that a hook cannot do without.

    Raises:
        UsageError: It is something else.
    """
    if function is None:
        raise UsageError(f"{name} must be a function, got None", hint=f"{name}=lambda …: …")
    return callable_or_none(name, function)


class SummarySaverHook(Hook):
    """Calls a function that logs what is too much for every step, such as images and histograms.

    It is called at the end of the first step and of every N-th after it: 0, N, 2N …, where what it logs
    belongs to that step.

    Args:
        save: Called with the step's number, in the training thread.
        every_n_steps: By default 100.
        every_secs: Seconds between two calls, instead.
        first: Whether the first step counts.

    Raises:
        UsageError: ``save`` is no function, or both intervals are given.
    """

    def __init__(
        self,
        save: Callable[[int], Any],
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        first: bool = True,
    ) -> None:
        self._save = needed("save", save)
        self._timer = Timer(default_steps(every_n_steps, every_secs), every_secs, first=first)
        self._rest: Rest = Rest()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count."""
        self._run = run
        self._timer.start(run.step_counter.next, run.clock.steady)

    def after_step(self, step: int) -> None:
        """Call the function when it is time."""
        due = self._timer.due(step)
        self._timer.rest(self._rest)
        if due:
            self._run.cost.call(self._save, step)
