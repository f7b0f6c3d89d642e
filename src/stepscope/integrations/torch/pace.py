"""The durations of steps and of measuring."""

from __future__ import annotations


class Pace:
    """Running means of both.

    Attributes:
        step_seconds: Running mean; 0 before the second step.
        sample_seconds: Running mean of a full sample; 0 before the first.
    """

    def __init__(self) -> None:
        self.step_seconds = self.sample_seconds = 0.0
        self._begun: tuple[int, float] | None = None

    def begin(self, step: int, now: float) -> None:
        """Note that a step has come."""
        if self._begun is not None and step > self._begun[0]:
            period = (now - self._begun[1]) / (step - self._begun[0])
            self.step_seconds += (period - self.step_seconds) * (0.1 if self.step_seconds else 1)
        self._begun = (step, now)

    def took(self, seconds: float) -> None:
        """Note what a full sample took."""
        self.sample_seconds += (seconds - self.sample_seconds) * (0.3 if self.sample_seconds else 1)
