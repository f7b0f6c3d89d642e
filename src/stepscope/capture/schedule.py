"""Decides which capture begins with the next step: requests, due captures, obstacles.

A line on the console and a mark in the run for the first due capture that is skipped; those that follow it
are counted, and the next profile says how many. A capture that is moved says so on the console and in its
notes, with the steps of the captures that it also stands for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING

from stepscope.capture.budget import CaptureBudget
from stepscope.capture.capture import Order
from stepscope.capture.writing import Writing
from stepscope.errors import UsageError
from stepscope.kernels.steps import MAX_STEP
from stepscope.record.config import check_either, integer, positive, seconds
from stepscope.record.messages import write_above_bars
from stepscope.record.protocol import Hook
from stepscope.record.statistics.hooks import StatisticsHook

if TYPE_CHECKING:
    from stepscope.record.run import Run

NEVER = (MAX_STEP, -MAX_STEP, MAX_STEP, math.inf)
"""Result of ``Schedule.rest`` if nothing will ever be due."""
SKIP_FIRST = 5
"""The first steps compile, tune and fill caches, so they do not show the cost of training."""


class BeginVerdict(Enum):
    """The decision about a capture that is due."""

    NOW = "now"
    LATER = "later"
    """As soon as possible: something that will pass prevents it."""
    SKIP = "skip"
    """Not at all; or, if it is due by seconds or for the first time, once the limit allows it."""


class Schedule:
    """Decides for one run; steps are asked about once, in order.

    Args:
        save_steps: Steps between two captures.
        save_secs: Seconds between two captures; at most one of the two.
        predicate: Names the steps instead.
        skip_first: Steps of this process that are never captured by the schedule.

    Raises:
        UsageError: Two rhythms at once, or a number out of range.
    """

    def __init__(
        self,
        *,
        save_steps: int | None = None,
        save_secs: float | None = None,
        predicate: Callable[[int], object] | None = None,
        skip_first: int = SKIP_FIRST,
    ) -> None:
        if save_steps is not None and save_secs is not None:
            check_either("save_steps=500", save_steps=save_steps, save_secs=save_secs)
        self.save_steps = positive("save_steps", save_steps)
        self.save_secs = None if save_secs is None else seconds("save_secs", save_secs)
        self.predicate, self.skip_first = predicate, integer("skip_first", skip_first)
        self._asked = 0
        self._first = True
        self._mark = 0
        self._next_secs = float("-inf")

    @property
    def captures(self) -> bool:
        """True if it ever captures anything."""
        return (self.save_steps, self.save_secs, self.predicate) != (None, None, None)

    def begins(self, step: int, now: float, verdict: Callable[[float, int], BeginVerdict]) -> bool:
        """Return whether a capture begins with this step; asking notes that the step came.

        By steps, a skipped capture comes at the next multiple, and a postponed one as soon as possible. By
        predicate there is no later: a step that is past is past.

        Args:
            step: Number of the step that comes next.
            now: Steady time in seconds.
            verdict: Says, given the time and the step at which the capture was due, whether it begins; called
                only when one is due.

        Raises:
            Exception: Whatever the user's predicate raises.
        """
        asked, self._asked = self._asked, self._asked + 1
        if asked < self.skip_first:
            return False
        if self.predicate is not None:
            return bool(self.predicate(step)) and verdict(now, step) is BeginVerdict.NOW
        if not self._due(step, now):
            return False
        answer = verdict(now, self._due_at(step))
        if answer is BeginVerdict.NOW:
            self._first = False
            if self.save_secs is not None:
                self._next_secs = now + self.save_secs
        if answer is not BeginVerdict.LATER and not self._first and self.save_steps is not None:
            self._mark = step // self.save_steps
        return answer is BeginVerdict.NOW

    def _due_at(self, step: int) -> int:
        """Return the step at which the capture that is due now became due."""
        return step if self._first or self.save_steps is None else step // self.save_steps * self.save_steps

    def skip(self, steps: int) -> None:
        """Note a number of steps that, according to ``rest``, need not be asked about."""
        self._asked += steps

    def rest(self, now: float) -> tuple[int, int, int, float]:
        """Return how long nothing will be due.

        Args:
            now: Steady time in seconds.

        Returns:
            For how many steps at most; the least number of the step that comes next for which that holds, and
            the number at which it ends; the time at which it does.
        """
        if not self.captures:
            return NEVER
        if self._asked < self.skip_first:
            return self.skip_first - self._asked, -MAX_STEP, MAX_STEP, math.inf
        if self.predicate is not None or self._first:
            return 0, 0, 0, now
        if self.save_steps is not None:
            low = self._mark * self.save_steps
            return MAX_STEP, low, low + self.save_steps, math.inf
        return MAX_STEP, -MAX_STEP, MAX_STEP, self._next_secs

    def _due(self, step: int, now: float) -> bool:
        if self._first:
            return self.save_steps is not None or self.save_secs is not None
        if self.save_steps is not None:
            return step // self.save_steps != self._mark
        return self.save_secs is not None and now >= self._next_secs


WINDOW, MIN_STEPS, EVERY = 64, 16, 16


class SlowSteps:
    """Compares each step with the median of those before.

    After a slow one, no other is reported for a window, so that a run that has become slow is captured once.

    Args:
        factor: How many times the median; None for never.

    Raises:
        UsageError: A factor that every step would exceed.
    """

    def __init__(self, factor: float | None) -> None:
        if factor is not None and not (isinstance(factor, int | float) and 1 < factor < math.inf):
            raise UsageError(f"slow_step is a factor above 1, got {factor!r}", hint="slow_step=3")
        self.factor = factor
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._seen = 0
        self._limit = math.inf
        self._quiet = 0
        self._median = math.nan

    def found(self, seconds: float) -> bool:
        """Take note of a step and return whether it was slow."""
        if self.factor is None:
            return False
        slow = seconds > self._limit and not self._quiet
        self._last.append(seconds)
        self._seen += 1
        self._quiet = WINDOW if slow else max(self._quiet - 1, 0)
        if self._seen % EVERY == 0 and len(self._last) >= MIN_STEPS:
            self._median = median(self._last)
            self._limit = self.factor * self._median
        return slow

    @property
    def rest(self) -> tuple[int, float]:
        """Number of steps for which the same limit holds, and the limit in seconds."""
        if self.factor is None:
            return MAX_STEP, math.inf
        return EVERY - self._seen % EVERY, self._limit

    def reason(self, step: int, seconds: float) -> str:
        """Return the sentence about the slow steps."""
        return f"step {step} took {1e3 * seconds:.1f} ms, the median is {1e3 * self._median:.1f} ms"


FURTHEST = 24
"""Most steps by which a capture is moved, to steps at which nothing is measured."""


def on_console(text: str) -> None:
    """Print a line above any progress bar."""
    write_above_bars(f"stepscope: {text}")


class Due:
    """Captures of one run that were due and did not begin.

    Args:
        mark: Leaves a mark in the run: order, step, why.
        every: Steps between two captures of the schedule; None if it does not go by steps.
    """

    def __init__(self, mark: Callable[[Order, int, str], None], every: int | None = None) -> None:
        self._mark, self._every = mark, every
        self._waits: tuple[Order, int, str, bool] | None = None
        self._skipped: tuple[str, int] | None = None
        self._more = 0

    def skip(self, order: Order, step: int, why: str) -> None:
        """Note a capture that is not made; the first of several is reported."""
        if self._skipped is not None and self._skipped[0] == order.cause:
            self._more += step != self._skipped[1]
            return
        self._skipped, self._more = (order.cause, step), 0
        on_console(f"no profile of step {step}: {why}")
        self._mark(order, step, f"skipped: {why}")

    def wait(self, order: Order, step: int, why: str, *, quiet: bool = False) -> None:
        """Note a capture that waits; with ``quiet``, print no line on the console."""
        if self._waits is None or (self._waits[3] and not quiet):
            self._waits = order, self._waits[1] if self._waits else step, why, quiet

    def waiting_since(self, order: Order, due: int) -> int:
        """Return the step at which the waiting capture was due, or ``due`` if none waits."""
        waits = self._waits
        return waits[1] if waits is not None and waits[0].cause == order.cause else due

    def begun(self, step: int, order: Order) -> list[str]:
        """Return the notes on earlier captures for one that begins with a step."""
        notes = []
        if self._waits is not None and order.cause == self._waits[0].cause:
            (_, due, why, quiet), self._waits = self._waits, None
            if due != step:
                others = self._passed(due, step)
                notes.append(f"due at step {due}, begun at step {step}{others}: {why}")
                if not quiet:
                    on_console(f"the profile due at step {due} begins at step {step}{others}: {why}")
        if self._skipped is not None and order.cause == self._skipped[0]:
            (_, first), self._skipped = self._skipped, None
            several = f"those of step {first} and of {self._more} later ones were" if self._more else ""
            notes.append(f"{several or f'that of step {first} was'} skipped before this one")
        return notes

    def _passed(self, due: int, step: int) -> str:
        """Return in words at which further steps captures were due meanwhile."""
        if self._every is None:
            return ""
        steps = list(range((due // self._every + 1) * self._every, step, self._every))
        if not steps:
            return ""
        if len(steps) > 2:
            return f", also in place of those of steps {steps[0]} to {steps[-1]}"
        of_steps = (
            f"that of step {steps[0]}" if len(steps) == 1 else f"those of steps {steps[0]} and {steps[1]}"
        )
        return f", also in place of {of_steps}"

    def close(self) -> None:
        """Report requests that still wait when the run ends."""
        if self._waits is not None:
            (order, due, why, _), self._waits = self._waits, None
            self.skip(order, due, f"{why}, until the run ended")


def measured(hooks: Iterable[Hook], steps: range) -> list[int]:
    """Return which of the steps to come other hooks of the run measure: they take longer than usual."""
    numbers: set[int] = set()
    for hook in hooks:
        if isinstance(hook, StatisticsHook):
            numbers.update(hook.sampled(steps))
    return sorted(numbers)


def measured_inside(steps: list[int], measured: list[int]) -> list[str]:
    """Return the note for the page on captured steps that other hooks measured."""
    inside = [step for step in measured if step in steps]
    if not inside:
        return []
    numbers = ", ".join(map(str, inside[:5])) + (", …" if len(inside) > 5 else "")
    which = f"step {numbers}, which takes" if len(inside) == 1 else f"steps {numbers}, which take"
    return [f"gradients or activations were measured in {which} longer because of that"]


def undisturbed(hooks: Iterable[Hook], step: int, count: int, total: int | None) -> int:
    """Return the first step, from the given one on, that begins a stretch without other measurements.

    Args:
        hooks: Of the run.
        step: The first that may be.
        count: Steps in a row.
        total: How many steps the run takes; None if that is not known.

    Returns:
        The step itself if there is none within ``FURTHEST`` steps, or none before the run ends.
    """
    last = step + FURTHEST if total is None else min(step + FURTHEST, total - count)
    busy = measured(hooks, range(step, max(last, step) + count))
    for first in range(step, last + 1):
        if not any(first <= step < first + count for step in busy):
            return first
    return step


AHEAD = 64
"""Number of steps before a step requested by number in which the schedule leaves the profiler free."""
MOST_STEPS = 100
"""Steps in one piece of the capture of a predicate that stays true, so that memory is bounded."""


@dataclass(frozen=True)
class Limits:
    """The size of a capture, and its bounds.

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
        schedule: The rhythm or predicate; one without either if this rank follows none.
        orders: Waiting requests; other threads append to it.
        limits: The bounds of a capture.
        budget: The share of the run's time that captures took.
        writing: Writes profiles, and reports failures.
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
        """Return the capture that begins with the next step; None for nothing."""
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
        """Return whether there is room for the capture of an alert or a slow step; report if not."""
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
        """Return the capture that is due by schedule or predicate and may begin with this step."""
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
        wanted = [order.at_step for order in tuple(self._orders) if order.at_step is not None]
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
