"""StopTogetherHook: every rank stops at the same step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stepscope.record.arguments import positive
from stepscope.record.hooks.functions import needed
from stepscope.record.hooks.hook import Hook

if TYPE_CHECKING:
    from stepscope.record.run import Run


class StopTogetherHook(Hook):
    """Lets the ranks of a job agree to stop: where one was asked to, all do after the same step.

    A rank that left the loop alone would leave the others waiting for it in their next collective operation.

    Args:
        any_of: Called on every rank, at the same steps, with whether this rank wants to stop; returns whether
            any does, by a collective of the user's own framework.
        every_n_steps: Steps between two such questions.

    Raises:
        UsageError: ``any_of`` is no function, or the interval is out of range.
    """

    ranks = "all"

    def __init__(self, any_of: Callable[[bool], bool], every_n_steps: int = 1) -> None:
        self._any_of = needed("any_of", any_of)
        self._every = positive("every_n_steps", every_n_steps) or 1
        self._run: Run

    def begin(self, run: Run) -> None:
        """Let ``steps()`` leave the question to this hook."""
        self._run = run
        run.share_stops()

    def after_step(self, step: int) -> None:
        """Ask the other ranks."""
        if step % self._every == 0 and self._run.cost.call(self._any_of, self._run.should_stop):
            self._run.stop_together()
