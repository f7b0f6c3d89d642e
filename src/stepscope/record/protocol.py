"""Hooks, and the facts that a run gives them.

Hooks and integrations use a run's public members, nothing with an underscore: a test ensures that. A run is
not imported here, even for its type, because a run is made of parts that call hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepscope.errors import HaltError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.kernels.steps import Rest
    from stepscope.record.clock import Deadline


Take = Callable[[str, "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"], Any]
"""Called with a tag and its steps, values and wall times in seconds, in the order of recording."""
Wanted = Collection[str] | Callable[[str], bool] | None


class StepFacts(NamedTuple):
    """The measured times of a step.

    Attributes:
        step: Its number.
        seconds: How long it took.
        waited: How much of that it waited for data; None if nobody measured it.
    """

    step: int
    seconds: float
    waited: float | None


@dataclass
class StopRequest:
    """A request to stop.

    Attributes:
        reason: Why.
        error: To be raised in the training's own thread, once.
        alone: The other ranks of the job do not know of it.
        warned: The user knows that it is alone.
    """

    reason: str
    error: HaltError | None = None
    alone: bool = False
    warned: bool = False

    def take_error(self) -> HaltError | None:
        """Return the error, the first time."""
        error, self.error = self.error, None
        return error

    def raise_error(self) -> None:
        """Raise the error, the first time."""
        error = self.take_error()
        if error is not None:
            raise error


class Hook:
    """Takes part in a run: ``Run(hooks=[...])`` or ``run.add_hook(hook)``.

    Only methods that a subclass overrides are called. Their exceptions never reach the training loop: they
    are reported once, and a hook that fails three times in a row is switched off. Only ``HaltError`` passes,
    for hooks that are meant to end the training.

    Attributes:
        ranks: "chief" to be called only on the rank that writes summaries, "all" to be called on every rank.
    """

    ranks: Literal["chief", "all"] = "chief"
    calls_user_code = False
    """For hooks of this package: whether ``end`` calls a function of the user's."""
    _rest: Rest | None = None
    """How long the hook need not be called at step boundaries; None for one that never rests."""

    def begin(self, run: Any) -> None:
        """Prepare, once, in the thread that created the run or added the hook.

        Args:
            run: The ``Run`` to log with.
        """

    def before_step(self, step: int) -> None:
        """Act when the step's data has arrived and its own work has not begun.

        Args:
            step: Its number.
        """

    def after_step(self, step: int) -> None:
        """Act after a step that came to its end; ``run.last_step`` has its times.

        Args:
            step: Its number.
        """

    def end(self, run: Any, status: str, deadline: Deadline) -> None:
        """Finish, while the run can still be logged to.

        Values recorded before are on disk by then. A method of two arguments is called without the deadline.
        It runs on a thread of its own, which is not waited for once the deadline has passed; the thread that
        closes the run waits meanwhile.

        Args:
            run: The ``Run``.
            status: "finished", "failed" or "stopped".
            deadline: By when to be done, ``deadline.left()`` seconds from now: whatever takes longer may be
                cut off by a scheduler, as happens soon after SIGTERM.
        """
