"""SummarySaverHook: the user's own summaries, every so often."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stepscope.kernels.steps import Rest
from stepscope.record.hooks.functions import needed
from stepscope.record.hooks.hook import Hook
from stepscope.record.hooks.timer import Timer, default_steps

if TYPE_CHECKING:
    from stepscope.record.run import Run


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
