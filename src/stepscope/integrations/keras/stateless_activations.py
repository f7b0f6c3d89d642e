"""JAX: the batch of a sampled step goes through the model once more, in a function of its own.

It is given the weights, and the state of seeds and moving means, that the step is about to be given: so it
computes what the step computes. The step itself is compiled and run as it would be without.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import keras

from stepscope.integrations.jax.gradients import record_activations
from stepscope.integrations.jax.statistics import Measured, measure
from stepscope.integrations.keras.activations import HISTOGRAMS, OFF, ActivationMeter
from stepscope.integrations.keras.taps import Taps
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook


class StatelessActivations(ActivationMeter):
    """Measures the batches that a jitted step is given.

    Args:
        run: The run.
        hook: Says what and when.
        taps: The layers.
        model: The model.
    """

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps, model: Any) -> None:
        super().__init__(run, hook, taps)
        self._model = model
        self._look = jax.jit(self._forward, static_argnames="level")
        self._found: Measured | None = None

    def given(self, state: Any, batch: Any) -> None:
        """Look at what a step is given.

        Args:
            state: Of the trainer: trainable variables, others, and what is of no interest here.
            batch: Inputs, and what belongs to them.
        """
        if self.level == OFF or self._found is not None:
            return
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        self._found = self._look(list(state[0]), list(state[1]), x, level=self.level)

    def after_step(self, step: int) -> None:
        """Record it."""
        found, self._found = self._found, None
        if found is not None:
            self.hand_on(step, partial(record_activations, measured=found, step=step))

    def _forward(self, trainable: Any, other: Any, x: Any, *, level: int) -> Measured | None:
        outputs: dict[str, Any] = {}
        with self.taps.open(outputs.__setitem__):
            self._model.stateless_call(trainable, other, x, training=True)
        word = "histograms" if level == HISTOGRAMS else "full"
        return measure(word, activations=outputs, kinds=self.taps.kinds, saturated=self.hook.saturated)
