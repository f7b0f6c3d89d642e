"""Measures what the layers of a Keras model put out in training, for an ``ActivationHook``, on any backend.

On PyTorch, layers are observed as they are called. On TensorFlow, a branch of the step's graph measures and
leaves its result in variables. On JAX, the batch of a sampled step goes through the model once more in a
separate function, with the same weights and seeds: the training itself is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from stepscope.errors import RecordError
from stepscope.integrations.keras.taps import Taps
from stepscope.record import Run
from stepscope.record.protocol import Hook
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.hooks import ActivationReport
from stepscope.record.statistics.sampling import ReadyPace, Sampling, SamplingBudget
from stepscope.record.statistics.table import Round, Rounds, StatisticsTable

OFF, FULL, HISTOGRAMS = range(3)
"""Statistics that a step measures."""
KINDS = ("norm", "full", "histograms")
"""Their names for the pace."""


class ActivationMeter(Hook):
    """Decides what to measure in each step of a run, and records it.

    Args:
        run: The run.
        hook: Says what and when.
        taps: The layers.
    """

    ranks = "all"

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps) -> None:
        self.hook, self.taps, self.level, self.part = hook, taps, OFF, 0
        self._run, self._sampling = run, hook.sampling()
        self._report = ActivationReport(run, hook.stats, hook.window)
        self._rounds = Rounds(lambda round_: round_.done and round_.done(), failed=self._post)
        self._opened = ExitStack()
        self._pace, self._budget = ReadyPace(), self.budget(self._sampling)
        self.timed = False

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return what keeps samples within their share of the time: here one process decides for all."""
        return SamplingBudget(self.hook, sampling)

    def before_step(self, step: int) -> None:
        """Choose what to measure."""
        self.level, self.timed = OFF, False
        self._budget.asked(step)
        if self._budget.shared or (self._run.role.writes and not self._rounds.full):
            if self._sampling.due(step):
                self.level = HISTOGRAMS if self._sampling.histogram_due(step) else FULL
                self.part = self._sampling.turn(step, self.hook.rotate)
            self.timed = self.level != OFF or self._budget.near(step)

    def in_turn(self, name: str) -> bool:
        """Return whether a layer is in the part that is measured."""
        return self.taps.rows[name] % self.hook.rotate == self.part

    def hand_on(
        self, step: int, wait: Callable[[], Any], write: Callable[[ActivationReport], None] | None
    ) -> None:
        """Record a sample, on the thread that may wait for the device.

        Args:
            step: Which.
            wait: Returns when it is done.
            write: Records it; None for a step that is only timed.
        """
        if self._rounds.full:
            return
        kind = KINDS[self.level]
        program, sampled = f"{kind}:{self.part}", self.level != OFF

        def take() -> None:
            wait()
            self._pace.ready(step, kind, program if sampled else kind)
            if sampled:
                self._budget.spent(step, self._pace.sample_seconds, self._pace.step_seconds)
            if write is not None and self._run.role.writes:
                write(self._report)

        round_ = Round(step, StatisticsTable(0), sampled)
        round_.done = take
        self._rounds.put(round_)

    def finish(self, timeout: float) -> None:
        """Record what is measured already, and stop measuring."""
        self.level, self.timed = OFF, False
        self._budget.close()
        self._opened.close()
        self._rounds.close(timeout)

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        error = RecordError(f"activation statistics: {words}", hint=hint or "the training is not affected")
        self._run.report(reason, error, later=True)
