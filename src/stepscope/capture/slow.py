"""Tells a step that took much longer than usual."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from stepscope.errors import UsageError
from stepscope.kernels.steps import MOST

WINDOW, FEWEST, EVERY = 64, 16, 16


class SlowSteps:
    """Compares each step with the median of those before.

    After a slow one, no other is told for a window, so that a training that has become slow is captured once.

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
        """For how many steps a step is slow by the same limit, and that in seconds."""
        if self.factor is None:
            return MOST, math.inf
        return EVERY - self._seen % EVERY, self._limit

    def reason(self, step: int, seconds: float) -> str:
        """Say what was found."""
        return f"step {step} took {1e3 * seconds:.1f} ms, the median is {1e3 * self._median:.1f} ms"
