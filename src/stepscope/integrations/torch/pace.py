"""How long steps take, and how long measuring does."""

from __future__ import annotations

from collections import deque
from statistics import median

KEPT = 15
"""Steps whose median is taken: an evaluation or a checkpoint between two of them counts for nothing."""


class Pace:
    """How long steps took of late, and samples.

    Attributes:
        sample_seconds: Running mean of a full sample; 0 before the first.
    """

    def __init__(self) -> None:
        self.sample_seconds = 0.0
        self._begun: tuple[int, float] | None = None
        self._periods: deque[float] = deque(maxlen=KEPT)

    @property
    def step_seconds(self) -> float:
        """Median of the last steps; 0 before the second."""
        return median(self._periods) if self._periods else 0.0

    def begin(self, step: int, now: float) -> None:
        """Note that a step has come."""
        if self._begun is not None and step > self._begun[0]:
            self._periods.append((now - self._begun[1]) / (step - self._begun[0]))
        self._begun = (step, now)

    def took(self, seconds: float) -> None:
        """Note what a full sample took."""
        self.sample_seconds += (seconds - self.sample_seconds) * (0.3 if self.sample_seconds else 1)
