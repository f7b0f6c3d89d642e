"""StopAtStepHook: so many steps and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.errors import UsageError
from stepscope.kernels.steps import MOST, Rest
from stepscope.record.arguments import positive
from stepscope.record.hooks.hook import Hook

if TYPE_CHECKING:
    from stepscope.record.run import Run


class StopAtStepHook(Hook):
    """Asks the run to stop after a step. Every rank counts for itself, so all stop after the same one.

    Args:
        last_step: Number of steps done, those before a resume included; where they are done already, no step
            begins.
        num_steps: Steps from where the run begins, instead.

    Raises:
        UsageError: Both are given, or neither, or one is not 1 or more.
    """

    ranks = "all"

    def __init__(self, last_step: int | None = None, *, num_steps: int | None = None) -> None:
        if (last_step is None) == (num_steps is None):
            found = "both" if num_steps is not None else "neither"
            raise UsageError(f"give either last_step or num_steps, got {found}", hint="last_step=10_000")
        self._last = positive("last_step", last_step) or 0
        self._steps = positive("num_steps", num_steps)
        self._rest: Rest = Rest()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the last step, and say it where nothing else says how long the run is."""
        self._run = run
        begun = run.step_counter.next
        if self._steps is not None:
            self._last = begun + self._steps
        run.expect_steps(self._last)
        if begun >= self._last:
            self._stop()

    def after_step(self, step: int) -> None:
        """Stop after the last one."""
        if step + 1 >= self._last:
            self._stop()
        self._rest.until(MOST, high=self._last - 1)

    def _stop(self) -> None:
        self._run.request_stop(f"{self._last} steps are done")
