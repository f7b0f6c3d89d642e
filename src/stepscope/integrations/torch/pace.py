"""The durations of steps and of measuring."""

from __future__ import annotations

import math

FOR_SAMPLES = 0.25
"""Least share of the budget that is left for samples, whatever the norms take."""


class Pace:
    """Running means of both.

    Attributes:
        step_seconds: Running mean; 0 before the second step.
        sample_seconds: Running mean of a full sample; 0 before the first.
        norm_seconds: Running mean of the norm's time in a step with nothing else; 0 before the first.
    """

    def __init__(self) -> None:
        self.step_seconds = self.sample_seconds = self.norm_seconds = 0.0
        self._begun: tuple[int, float] | None = None
        self._distance = 1

    def begin(self, step: int, now: float) -> None:
        """Note that a step has come, at a time in seconds."""
        if self._begun is not None and step > self._begun[0]:
            period = (now - self._begun[1]) / (step - self._begun[0])
            self.step_seconds += (max(period, 0.0) - self.step_seconds) * (0.1 if self.step_seconds else 1)
        self._begun = (step, now)

    def took(self, seconds: float) -> None:
        """Note the time of a full sample."""
        self.sample_seconds += (seconds - self.sample_seconds) * (0.3 if self.sample_seconds else 1)

    def normed(self, seconds: float) -> None:
        """Note the time of a step's norm."""
        self.norm_seconds += (seconds - self.norm_seconds) * (0.1 if self.norm_seconds else 1)

    def norm_distance(self, max_overhead: float | None) -> int:
        """Return in every how many steps the norm is measured, so that it leaves ``FOR_SAMPLES`` of a budget.

        Args:
            max_overhead: The share of the time for both; None for no bound.
        """
        if max_overhead and self.step_seconds:
            share = max_overhead * (1.0 - FOR_SAMPLES)
            self._distance = max(math.ceil(self.norm_seconds / (self.step_seconds * share)), 1)
        return self._distance

    def cost_seconds(self, max_overhead: float | None) -> float:
        """Return the cost of a full sample, so that samples and norms together stay within a budget.

        A budget of which norms take a half buys half as many samples, as if each cost twice as much.

        Args:
            max_overhead: The share of the time that both may take; None for no bound.
        """
        if not max_overhead or not self.step_seconds:
            return self.sample_seconds
        spent = self.norm_seconds / (self.step_seconds * max_overhead * self._distance)
        return self.sample_seconds / max(1.0 - spent, FOR_SAMPLES)
