"""What a hook and an integration may use of a run, beside what users log with.

Whoever takes part in a run needs no more than this, and nothing with an underscore: a test holds that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from stepscope.errors import HaltError, StepscopeError
from stepscope.record.problems import Reporter

if TYPE_CHECKING:
    from stepscope.kernels.steps import Steps
    from stepscope.record.clock import Clock
    from stepscope.record.cost import Cost
    from stepscope.record.listeners import Take, Wanted
    from stepscope.record.roles import Role
    from stepscope.record.steps import StepFacts, StopRequest
    from stepscope.record.summaries.prepared import Prepared
    from stepscope.record.summary_encoder import Made


class HookRun(Reporter, Protocol):
    """A run as hooks and integrations see it; ``Run`` has all of it.

    Attributes:
        log_dir: The run's directory.
        clock: Readings of time, in seconds.
        step_counter: Numbers and times of the steps; ``begin`` and ``end`` for who has a loop of its own.
        cost: The account of what recording costs: ``call`` runs a function of the user's, whose time is none
            of it.
    """

    log_dir: str
    clock: Clock
    step_counter: Steps
    cost: Cost

    @property
    def role(self) -> Role:
        """Which process of its job this is."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""

    @property
    def recording(self) -> bool:
        """Whether the run takes what is logged."""

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
        """Hear of every number that is recorded."""

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to what the run is made of."""

    def expect_steps(self, total_steps: int, *, estimate: bool = False) -> None:
        """Know how many steps the run will take."""

    def request_stop(self, reason: str, *, error: HaltError | None = None, alone: bool = False) -> None:
        """Ask for the training to end."""

    def share_stops(self) -> None:
        """Have ``steps()`` leave it to a hook to let the other ranks know of a request to stop."""

    def stop_together(self) -> None:
        """Stop, as every rank does at this step."""

    def flush(self, *, timeout: float = 30.0, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system."""

    def flush_soon(self) -> None:
        """Have everything logged so far written now, without waiting for it."""
