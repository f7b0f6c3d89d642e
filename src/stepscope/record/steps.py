"""The steps of a run: what counts them, the hooks at their boundaries, and requests to stop.

Numbers begin at ``start`` and count on over every loop of the run. A step's time goes from the moment its
data was asked for to its end, so the wait for data is part of it. It is time of the host: a device that works
asynchronously is seen through it once its queue is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stepscope.errors import HaltError, RecordError
from stepscope.kernels.steps import Steps
from stepscope.record.arguments import integer

if TYPE_CHECKING:
    from stepscope.record.info import RunInfo
    from stepscope.record.intake import Intake
    from stepscope.record.problems import Problems

T = TypeVar("T")
STEP_TIME = "speed/step_time_ms"
DATA_WAIT = "speed/data_wait_ms"


class StepFacts(NamedTuple):
    """What was measured of a step.

    Attributes:
        step: Its number.
        seconds: How long it took.
        waited: How much of that it waited for data; None where nobody measured it.
    """

    step: int
    seconds: float
    waited: float | None


class Follower:
    """Tells a hook that rests, and looks now and then, what was measured of each step.

    Args:
        steps: Those that end from now on; the oldest are forgotten where nobody looks for ``PAST`` of them.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps, self._seen = steps, steps.done

    def take(self) -> list[tuple[int, float, float | None]]:
        """Return number, seconds and wait of each step that ended since the last call."""
        found = self._steps.since(self._seen)
        self._seen = self._steps.done
        return found


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


class TrainingLoop:
    """Goes with the training loop: numbers its steps, knows how many there will be, and when to stop.

    The counter itself (``kernels.steps``) is compiled; it calls this where something is unusual.

    Args:
        counter: Counts the steps and times them.
        intake: Takes the times where more points wait than usual.
        withdraw: Ends the hooks that are not meant for this rank.
        info: Told how many steps there will be.
        problems: Told of a stop that other ranks do not know of.
        total_given: Whether the user said how many steps there will be.

    Attributes:
        withdraw: Called by the counter where this rank turned out not to be the chief.
        stop: The request to stop; None before one.
        shares_stop: Whether a hook lets the other ranks know of a request to stop.
    """

    def __init__(
        self,
        counter: Steps,
        intake: Intake,
        withdraw: Callable[[], None],
        info: RunInfo,
        problems: Problems,
        *,
        total_given: bool,
    ) -> None:
        self.counter, self._intake, self.withdraw = counter, intake, withdraw
        self._info, self._problems = info, problems
        self._total_given = total_given
        self.stop: StopRequest | None = None
        self.shares_stop = False
        for tag in (STEP_TIME, DATA_WAIT):  # the first of all tags: the kernel knows them by number
            intake.points.admit(tag)

    def steps(self, owner: object, iterable: Iterable[T], start: int | None) -> Iterator[T]:
        """Return what loops over data, each item being one step.

        Args:
            owner: Lives as long as the loop.
            iterable: The data.
            start: Number of the first step; by default the one after the last.
        """
        if start is not None:
            self.counter.next = integer("start", start)
        items: Iterator[T] = self.counter.loop(owner, iter(iterable), self._expect(iterable))
        return items

    def _expect(self, iterable: Any) -> int:
        """Know the number of steps from the length of the data; return that, -1 where it has none."""
        try:
            length = len(iterable)
        except Exception:  # noqa: BLE001  iterable data sets raise what they like where they have no length
            return -1
        self.expect(self.counter.next + length, estimate=True)
        return length

    def expect(self, total_steps: int, *, estimate: bool = False) -> None:
        """Know how many steps the run will take, unless the user said it.

        Args:
            total_steps: Their number.
            estimate: A later call may know better.
        """
        if not self._total_given:
            self._total_given = not estimate
            self._info.expect(total_steps)

    # --- stopping -----------------------------------------------------------------------------------

    def request_stop(self, reason: str, error: HaltError | None, *, alone: bool) -> None:
        """Note a request to stop; of several the first counts."""
        if self.stop is None:
            self.stop = StopRequest(reason, error, alone and self._info.role.world_size > 1)
            self.counter.stopping = True

    def stop_together(self) -> None:
        """Stop, as every rank does at this step."""
        if self.stop is None:
            self.stop, self.counter.stopping = StopRequest("another rank requested it"), True
        else:
            self.stop.alone = False

    # --- called by the counter ----------------------------------------------------------------------

    def ends_loop(self) -> bool:
        """Raise what the request to stop carries; say whether the loop ends."""
        stop = self.stop
        if stop is None:
            return False
        stop.raise_error()
        if stop.alone and not stop.warned and not self.shares_stop:
            stop.warned = True
            found = f"a stop was requested ({stop.reason}), but the other ranks do not know of it"
            hint = "add StopTogetherHook, or ask run.should_stop and share the answer; training goes on"
            self._problems.tell("stop", RecordError(found, hint=hint), points=0)
        return not stop.alone

    def accept_times(self, step: int, step_ms: float, wait_ms: float) -> None:
        """Record a step's times where more waits than usual."""
        self._intake.accept_or_refuse(STEP_TIME, step_ms, step)
        if wait_ms >= 0:
            self._intake.accept_or_refuse(DATA_WAIT, wait_ms, step)
