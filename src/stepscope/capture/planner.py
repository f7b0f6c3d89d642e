"""Decides which capture begins with the next step: what was asked for, what is due, what prevents it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.capture.budget import CaptureBudget
from stepscope.capture.capture import Order
from stepscope.capture.due import FURTHEST, Due, undisturbed
from stepscope.capture.schedule import NEVER, BeginVerdict, Schedule
from stepscope.capture.writing import Writing

if TYPE_CHECKING:
    from stepscope.record.run import Run

AHEAD = 64
"""Number of steps before a step requested by number in which the schedule leaves the profiler free."""
MOST_STEPS = 100
"""Steps in one piece of the capture of a predicate that stays true, so that memory is bounded."""


@dataclass(frozen=True)
class Limits:
    """How much a capture takes, and what bounds it.

    Attributes:
        num_steps: Steps in one capture.
        warmup_steps: Steps before each in which nothing is kept.
        max_profiles: Profiles kept; schedule and alerts end once something refers to twice as many.
        held: True if the schedule, too, is limited by the budget.
        exact: True if a capture costs so little to begin that the schedule never moves one.
    """

    num_steps: int
    warmup_steps: int
    max_profiles: int
    held: bool
    exact: bool = False

    def holds(self, order: Order) -> bool:
        """Return whether the budget limits a capture of this order."""
        return (order.cause == "schedule" and self.held) or order.cause == "slow step"


class Planner:
    """Decides for one run, step by step.

    Args:
        run: Whose other hooks measure steps, too.
        schedule: The rhythm or predicate; one without either where this rank follows none.
        orders: What was asked for and waits; other threads append to it.
        limits: What bounds a capture.
        budget: The share of the run's time that captures took.
        writing: Writes profiles, and says what failed.
        due: Told of captures that are skipped or moved.
        ready: Says whether a capture may begin that does not wait for the analysis of the one before.
        free: Says whether nothing is written or analysed at all.
        missed: Receives an order whose step is past.
        now: Steady time in seconds.
    """

    def __init__(
        self,
        run: Run,
        schedule: Schedule,
        orders: deque[Order],
        limits: Limits,
        budget: CaptureBudget,
        writing: Writing,
        due: Due,
        *,
        ready: Callable[[], bool],
        free: Callable[[], bool],
        missed: Callable[[Order, int], None],
        now: Callable[[], float],
    ) -> None:
        self._run, self._schedule, self._orders, self._limits = run, schedule, orders, limits
        self._budget, self._writing, self._due = budget, writing, due
        self._ready, self._free, self._missed, self._now = ready, free, missed, now
        self.follows = schedule.captures
        """True if captures come by rhythm or predicate."""

    def rest(self, now: float) -> tuple[int, int, int, float]:
        """Return how long nothing will be due by the schedule, in the form of ``Schedule.rest``."""
        return self._schedule.rest(now) if self.follows else NEVER

    def choose(self, step: int) -> Order | None:
        """Return what begins with the step that comes next; None for nothing."""
        for order in tuple(self._orders) if self._orders else ():
            if order.at_step is not None and step > order.at_step:
                self._orders.remove(order)
                self._missed(order, step)
            elif (
                order.at_step is None or step == order.at_step - self._limits.warmup_steps
            ) and self._ready():
                self._orders.remove(order)
                if self._has_room(order, step):
                    return order
        return self._scheduled(step) if self.follows else None

    def still_wanted(self, order: Order, step: int) -> bool:
        """Return whether the predicate that began a capture names a later step, too."""
        predicate = self._schedule.predicate
        if order.cause != "predicate" or predicate is None:
            return True
        try:
            return bool(predicate(step))
        except Exception as error:  # noqa: BLE001  the user's predicate
            self._switch_off(f"the step predicate raised {type(error).__name__}: {error}")
            return False

    def _has_room(self, order: Order, step: int) -> bool:
        """Return whether there is room for what an alert or a slow step asks for; report if not."""
        if order.cause == "alert" and self._writing.full:
            self._writing.failed(
                order, step, self._many(), "delete some in the run's folder, or raise max_profiles"
            )
            return False
        if self._limits.holds(order) and not self._budget.allows(self._now()):
            self._due.skip(order, step, f"after a {order.cause}, {self._over()}")
            return False
        return True

    def _scheduled(self, step: int) -> Order | None:
        """Return what is due by schedule or predicate and may begin with this step."""
        if self._schedule.predicate is None:
            order = Order("schedule", self._limits.num_steps)
        else:
            order = Order("predicate", MOST_STEPS)
        try:
            due = self._schedule.begins(
                step, self._now(), lambda now, at: self._verdict(order, step, at, now)
            )
        except Exception as error:  # noqa: BLE001  the user's predicate
            self._switch_off(f"the step predicate raised {type(error).__name__}: {error}")
            return None
        return order if due else None

    def _verdict(self, order: Order, step: int, due: int, now: float) -> BeginVerdict:
        """Decide about a capture that is due by schedule or predicate; report if it does not begin."""
        if order.cause == "predicate":
            if self._ready():
                return BeginVerdict.NOW
            self._due.skip(order, step, "the previous profile is still being written")
            return BeginVerdict.SKIP
        if self._writing.full:
            self._due.skip(order, due, f"{self._many()}; delete some, or raise max_profiles")
            return BeginVerdict.SKIP
        wanted = [each.at_step for each in tuple(self._orders) if each.at_step is not None]
        ahead = self._limits.warmup_steps + self._limits.num_steps if self._limits.exact else AHEAD
        if any(0 <= at - step < ahead for at in wanted):
            self._due.wait(order, due, f"a profile of step {min(wanted)} was asked for")
            return BeginVerdict.LATER
        if self._limits.holds(order):
            return self._bounded(order, step, due, now)
        return self._free_to_begin(order, step, due)

    def _bounded(self, order: Order, step: int, due: int, now: float) -> BeginVerdict:
        """Decide within ``max_overhead``, which also requires that the last profile has been analysed."""
        allowed = self._budget.allows(now)
        if allowed and self._free():
            return self._free_to_begin(order, step, due)
        self._due.skip(
            order, due, "the previous profile is still being analysed" if allowed else self._over()
        )
        return BeginVerdict.SKIP

    def _free_to_begin(self, order: Order, step: int, due: int) -> BeginVerdict:
        if not self._ready():
            self._due.wait(order, due, "the previous profile was still being written")
            return BeginVerdict.LATER
        if self._limits.exact:
            return BeginVerdict.NOW
        count = self._limits.warmup_steps + self._limits.num_steps
        near = step - self._due.waiting_since(order, due) < FURTHEST
        if near and undisturbed(self._run.hooks, step, count, self._run.total_steps) != step:
            self._due.wait(order, due, "gradients or activations are measured in steps between", quiet=True)
            return BeginVerdict.LATER
        return BeginVerdict.NOW

    def _many(self) -> str:
        return f"{2 * self._limits.max_profiles} or more profiles are kept because something refers to them"

    def _over(self) -> str:
        budget = self._budget
        took = f"profiles took {100 * budget.ratio(self._now()):.2g} % of the run's time"
        return f"{took}, and max_overhead allows {100 * budget.max_overhead:.3g} %"

    def _switch_off(self, why: str) -> None:
        """Capture no more by schedule, and say why."""
        self.follows = False
        self._writing.failed(Order("predicate", 0), self._run.current_step or 0, why, "fix the predicate")
