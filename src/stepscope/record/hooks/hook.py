"""The protocol of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stepscope.kernels.steps import Rest
    from stepscope.record.clock import Deadline
    from stepscope.record.run import Run


class Hook:
    """Takes part in a run: ``Run(hooks=[...])`` or ``run.add_hook(hook)``.

    Only methods that a subclass overrides are called. What one raises never reaches the training loop: it is
    reported once, and a hook that fails three times in a row is switched off. ``HaltError`` alone passes, for
    hooks that are meant to end the training.

    Attributes:
        ranks: "chief" to be called on the rank that writes summaries only, "all" to be called on every rank.
    """

    ranks: Literal["chief", "all"] = "chief"
    _rest: Rest | None = None
    """How long it need not be called at the boundaries of steps; None for one that never rests."""

    def begin(self, run: Run) -> None:
        """Prepare, once, in the thread that made the run or added the hook.

        Args:
            run: The run to log with.
        """

    def before_step(self, step: int) -> None:
        """Act when the step's data is there and its own work has not begun.

        Args:
            step: Its number.
        """

    def after_step(self, step: int) -> None:
        """Act after a step that came to its end; ``run.last_step`` has its times.

        Args:
            step: Its number.
        """

    def end(self, run: Run, status: str, deadline: Deadline) -> None:
        """Finish, while the run can still be logged to.

        What was recorded before is on disk by then. A method of two arguments is called without the deadline.

        Args:
            run: The run.
            status: "finished", "failed" or "stopped".
            deadline: By when to be done, ``deadline.left()`` seconds from now: what comes later a scheduler
                may cut off, as it does soon after SIGTERM.
        """
