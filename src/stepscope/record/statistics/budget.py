"""Keeps what samples cost within a hook's share of the time: the distances between them are multiplied."""

from __future__ import annotations

from stepscope.record.statistics.hooks import StatisticsHook
from stepscope.record.statistics.sampling import Sampling, stretch_for


class Budget:
    """The time that a hook may take, of a process alone or with costs on which the ranks agree already.

    Args:
        hook: Says which share of the time: ``max_overhead``, None for no bound.
        samplings: Whose distances are stretched.
    """

    shared = False
    """Whether ranks that record nothing must measure costs, too."""

    def __init__(self, hook: StatisticsHook, *samplings: Sampling) -> None:
        self._hook, self._samplings = hook, samplings

    @property
    def bounded(self) -> bool:
        """Whether there is a bound."""
        return self._hook.max_overhead is not None

    def asked(self, step: int) -> None:
        """Note on the training thread that a step comes, before it is asked whether it is due."""

    def spent(self, step: int, cost_seconds: float, step_seconds: float) -> None:
        """Note on any thread what sampling costs, after a sample.

        Args:
            step: Of the sample.
            cost_seconds: What one costs; 0 where that is not known.
            step_seconds: How long a step takes; 0 where that is not known.
        """
        if not self.bounded:
            return
        factor = self.factor(cost_seconds, step_seconds)
        for sampling in self._samplings:
            # From the next sample on but one: by then every rank has heard of it.
            sampling.stretch_from(step + sampling.every_n_steps * sampling.stretch(step) + 1, factor)

    def factor(self, cost_seconds: float, step_seconds: float) -> int:
        """Return by what to multiply the distances."""
        hook = self._hook
        return stretch_for(cost_seconds, step_seconds, hook.every_n_steps, hook.max_overhead or 1.0)

    def near(self, step: int) -> bool:
        """Whether one must know how long a step takes, to compare it with a sample that comes next."""
        return self.bounded and any(
            sampling.ahead(step + further) for sampling in self._samplings for further in (1, 2)
        )

    def close(self) -> None:
        """Agree on nothing more."""
