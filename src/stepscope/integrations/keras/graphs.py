"""TensorFlow: measured in a branch of the step's graph, kept in variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.integrations.keras.sampled import Left, SampledSteps
from stepscope.integrations.tensorflow.gradients import Statistics
from stepscope.record.statistics import GradientHook


class GraphMeter(SampledSteps):
    """Measures in ``tf.function``, under any strategy of one variable per replica.

    Args:
        hook: Says what, when and of which parameters.
        reduces: Whether the optimizer adds up the replicas' gradients only after clipping: Keras 3.
    """

    def __init__(self, hook: GradientHook, *, reduces: bool) -> None:
        super().__init__(hook)
        self._reduces = reduces
        self._statistics: Statistics | None = None
        self._unclipped: Sequence[Any] | None = None

    def make(self) -> None:
        """Make the variables."""
        like = [value(each) for each in self.trained]
        self._statistics = Statistics(
            self.sizes,
            like,
            self.hook.of,
            histograms=bool(self.hook.histograms_every),
            parts=self.hook.rotate,
            level=self.level,
            part=self.part,
        )

    def told(self, level: int, part: int) -> None:
        """Set the level of the next step's measurement, and the part that is measured."""
        if self._statistics is not None:
            self._statistics.tell(level, part)

    def left(self, level: int) -> Left | None:
        """Return what the last step left."""
        return None if self._statistics is None else self._statistics.read(level)

    def before(
        self, unclipped: Sequence[Any] | None, clipped: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Look at the weights; at the gradients where they are reduced already."""
        if self._statistics is None:
            return
        self._statistics.before([value(each) for each in self.trained])
        self._unclipped = unclipped
        if not self._reduces:
            self._measure(clipped, variables)

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Look at the reduced gradients."""
        if self._reduces and self._statistics is not None:
            self._measure(gradients, variables)

    def after(self, variables: Sequence[Any]) -> None:
        """Look at the weights after the step."""
        if self._statistics is not None:
            self._statistics.after([value(each) for each in self.trained])

    def _measure(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        if self._statistics is not None:
            before, self._unclipped = self._unclipped, None
            if self._reduces and replicas() > 1:
                before = None  # each replica clips its own before the sum: there is no whole one
            self._statistics.gradients(gradients, self.in_rows(variables, gradients), before)


def value(variable: Any) -> Any:
    """Return TensorFlow's variable of one of Keras's."""
    return getattr(variable, "_value", variable) if hasattr(variable, "path") else variable


def replicas() -> int:
    """Return how many replicas there are."""
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)
