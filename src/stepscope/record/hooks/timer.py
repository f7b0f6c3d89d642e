"""When a hook acts: every so many steps, or every so many seconds.

By steps, it is due at each multiple of N that is reached or passed, whatever its own history: the ranks of a
job agree, a resumed run goes on in the same rhythm, and steps that are numbered in leaps or begin again still
make it due. By seconds, it is due the given time after it was last due, on a clock that never goes back;
after a long pause only once. Ranks never agree on seconds: work that needs all of them must go by steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from stepscope.kernels.steps import MAX_STEP, Rest
from stepscope.record.config import check_either, positive, seconds

EVERY_STEPS = 100


class Timer:
    """Says of each step whether it is time.

    Args:
        every_n_steps: Steps between two times.
        every_secs: Seconds between two times; exactly one of the two.
        first: Whether the first step that is asked about is due, whatever its number. If not, the first time
            comes with the first multiple above 0, or once the seconds have passed.
        now: Steady time in seconds.

    Raises:
        UsageError: Both are given, or none, or one is out of range.
    """

    def __init__(
        self,
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        first: bool = True,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        check_either(f"every_n_steps={EVERY_STEPS}", every_n_steps=every_n_steps, every_secs=every_secs)
        self.every_n_steps = positive("every_n_steps", every_n_steps)
        self.every_secs = None if every_secs is None else seconds("every_secs", every_secs)
        self._first, self.now = first, now
        self._mark: int | None = None
        self._last: int | None = None
        self._next = float("-inf") if first else None

    def start(self, step: int, now: Callable[[], float] | None = None) -> None:
        """Begin to count, before the first step; has no effect on a timer that is due at its first step.

        Args:
            step: Number from which steps count.
            now: Steady time in seconds, from now on.
        """
        self.now = now or self.now
        if self._first:
            return
        if self.every_n_steps is not None:
            self._mark = step // self.every_n_steps
        else:
            self._next = self.now() + (self.every_secs or 0)

    def rest(self, rest: Rest, ahead: int = 0, steps: int = MAX_STEP) -> None:
        """Let a hook rest until it can be due.

        Args:
            rest: The hook's own.
            ahead: The hook adds this to the step number when it asks whether it is due.
            steps: For how many steps at most.
        """
        if self.every_n_steps is not None and self._mark is not None:
            low = self._mark * self.every_n_steps - ahead
            rest.until(steps, low, low + self.every_n_steps)
        elif self.every_secs is not None and self._next is not None:
            rest.until(steps, when=self._next)

    def due(self, step: int) -> bool:
        """Return whether it is time at this step; a step is due once.

        Args:
            step: Its number; any that grows will do, such as the number of steps done.
        """
        if self.every_n_steps is not None:
            mark = step // self.every_n_steps
            if mark == self._mark:
                return False
            begun, self._mark = self._mark is not None, mark
            return begun or self._first or (step > 0 and step % self.every_n_steps == 0)
        return step != self._last and self._due_by_time(step)

    def _due_by_time(self, step: int) -> bool:
        now, period = self.now(), self.every_secs or 0
        if self._next is None:
            self._next = now + period
            return False
        if now < self._next:
            return False
        self._next, self._last = now + period, step
        return True


def default_steps(every_n_steps: int | None, every_secs: float | None) -> int | None:
    """Return ``every_n_steps``, or the default if neither is given."""
    return EVERY_STEPS if every_n_steps is None and every_secs is None else every_n_steps
