"""Which steps are captured: a pure rule over step numbers and seconds.

A schedule decides whether a capture begins with the next step. By steps, the first capture comes after
``skip_first`` steps and the later ones at the multiples of ``save_steps``, so that all ranks of a job, and a
run that resumes, agree on them. By seconds, the first comes after ``skip_first`` steps and the later ones the
given time after the previous one. By predicate, exactly the steps it names.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from enum import Enum
from statistics import median

from stepscope.errors import UsageError
from stepscope.kernels.steps import MOST

NEVER = (MOST, -MOST, MOST, math.inf)
"""Result of ``Schedule.rest`` where nothing will ever be due."""
SKIP_FIRST = 5
"""The first steps compile, tune and fill caches, so they do not show what training costs."""


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
            raise UsageError(
                f"give save_steps or save_secs, got both: {save_steps!r} and {save_secs!r}",
                hint="ProfilerHook(save_steps=500)",
            )
        for name, value in (("save_steps", save_steps), ("save_secs", save_secs)):
            if value is not None and not (
                isinstance(value, int | float) and value > 0 and math.isfinite(value)
            ):
                raise UsageError(
                    f"{name} must be above 0, got {value!r}", hint=f"leave out {name} to do without it"
                )
        if save_steps is not None and (isinstance(save_steps, bool) or int(save_steps) != save_steps):
            raise UsageError(
                f"save_steps must be a whole number, got {save_steps!r}",
                hint="pass save_steps=100, or save_secs for a time",
            )
        if isinstance(skip_first, bool) or not isinstance(skip_first, int) or skip_first < 0:
            raise UsageError(
                f"skip_first must be 0 or more, got {skip_first!r}",
                hint="pass skip_first=0 to begin with the first step",
            )
        self.save_steps, self.save_secs, self.predicate = save_steps, save_secs, predicate
        self.skip_first = skip_first
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
            return self.skip_first - self._asked, -MOST, MOST, math.inf
        if self.predicate is not None or self._first:
            return 0, 0, 0, now
        if self.save_steps is not None:
            low = self._mark * self.save_steps
            return MOST, low, low + self.save_steps, math.inf
        return MOST, -MOST, MOST, self._next_secs

    def _due(self, step: int, now: float) -> bool:
        if self._first:
            return self.save_steps is not None or self.save_secs is not None
        if self.save_steps is not None:
            return step // self.save_steps != self._mark
        return self.save_secs is not None and now >= self._next_secs


WINDOW, FEWEST, EVERY = 64, 16, 16


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
        if self._seen % EVERY == 0 and len(self._last) >= FEWEST:
            self._median = median(self._last)
            self._limit = self.factor * self._median
        return slow

    @property
    def rest(self) -> tuple[int, float]:
        """Number of steps for which the same limit holds, and the limit in seconds."""
        if self.factor is None:
            return MOST, math.inf
        return EVERY - self._seen % EVERY, self._limit

    def reason(self, step: int, seconds: float) -> str:
        """Say what was found."""
        return f"step {step} took {1e3 * seconds:.1f} ms, the median is {1e3 * self._median:.1f} ms"
