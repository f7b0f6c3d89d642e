"""Hooks, and what they and integrations may use of a run besides the methods that users log with.

Nobody needs more than this, and nothing with an underscore: a test ensures that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from stepscope.errors import HaltError, StepscopeError
from stepscope.record.problems import Reporter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.kernels.steps import Rest, Steps
    from stepscope.record.clock import Clock, Deadline
    from stepscope.record.cost import Cost
    from stepscope.record.info import Rewind
    from stepscope.record.roles import Role
    from stepscope.record.run import Run
    from stepscope.record.summaries.encoder import Made, Prepared


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

    def begin(self, run: Run) -> None:
        """Prepare, once, in the thread that created the run or added the hook.

        Args:
            run: The run to log with.
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

    def end(self, run: Run, status: str, deadline: Deadline) -> None:
        """Finish, while the run can still be logged to.

        What was recorded before is on disk by then. A method of two arguments is called without the deadline.
        It runs on a thread of its own, which is not waited for once the deadline has passed; the thread that
        closes the run waits meanwhile.

        Args:
            run: The run.
            status: "finished", "failed" or "stopped".
            deadline: By when to be done, ``deadline.left()`` seconds from now: whatever takes longer may be
                cut off by a scheduler, as happens soon after SIGTERM.
        """


class HookRun(Reporter, Protocol):
    """A run as hooks and integrations see it; ``Run`` has all of it.

    Attributes:
        log_dir: The run's directory.
        clock: Readings of time, in seconds.
        step_counter: Numbers and times of the steps; ``begin`` and ``end`` are for integrations that have
            their own loop.
        cost: The account of what recording costs; ``call`` runs a function of the user's without counting its
            time.
        rewind: The checkpoints that were saved, and what the last steps were computed from.
    """

    log_dir: str
    clock: Clock
    step_counter: Steps
    cost: Cost
    rewind: Rewind

    @property
    def role(self) -> Role:
        """Which process of its job this is."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""

    @property
    def recording(self) -> bool:
        """True if the run takes what is logged."""

    @property
    def current_step(self) -> int | None:
        """Number of the step that runs or ran last."""

    @property
    def last_step(self) -> StepFacts | None:
        """Times of the last step that came to its end."""

    @property
    def total_steps(self) -> int | None:
        """How many steps the run will take."""

    @property
    def stop_request(self) -> StopRequest | None:
        """The request to stop."""

    def report(self, reason: str, error: StepscopeError, *, points: int = 1, later: bool = False) -> None:
        """Count what went wrong, and warn once."""

    def warn(self, text: str, *, later: bool = False) -> None:
        """Warn of what the run shows."""

    def unmeasured(self, what: str, why: str, since: int | None = None) -> None:
        """State that something that was to be measured is not."""

    def measured_again(self, what: str, step: int) -> None:
        """State that something is measured again."""

    def note_loss(self, loss: float, step: int) -> None:
        """Give the loss of a step to this rank's telemetry alone."""

    def record(
        self,
        numbers: Mapping[str, Any],
        step: Any = None,
        *,
        wall: float | None = None,
        background: bool = False,
    ) -> None:
        """Record numbers."""

    def event(
        self,
        make: Callable[[], Made],
        step: int | None = None,
        *,
        nbytes: int = 0,
        tag: str = "",
        wall: float | None = None,
        background: bool = False,
    ) -> None:
        """Record what a function makes later."""

    def summary(
        self, tag: Any, step: Any, prepare: Callable[[], Prepared], wall: float | None = None
    ) -> None:
        """Record a summary of a kind of its own."""

    def listen(self, take: Take, tags: Wanted = None) -> None:
        """Receive every number that is recorded."""

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to the configuration of the run."""

    def expect_steps(self, total_steps: int, *, estimate: bool = False) -> None:
        """Set how many steps the run will take."""

    def request_stop(self, reason: str, *, error: HaltError | None = None, alone: bool = False) -> None:
        """Ask for the training to end."""

    def share_stops(self) -> None:
        """Leave it to a hook, instead of ``steps()``, to tell the other ranks of a request to stop."""

    def stop_together(self) -> None:
        """Stop, as every rank does at this step."""

    def flush(self, *, timeout: float = 30.0, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system."""

    def flush_soon(self) -> None:
        """Have everything logged so far written now, without waiting for it."""
