"""JAX: the batch of a sampled step goes through the model once more, in a separate function.

It is given the weights, and the state of seeds and moving means, that the step is about to be given: so it
computes what the step computes. The step itself is compiled and run as it would be without.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import keras

from stepscope.integrations.jax.gradients import record_activations
from stepscope.integrations.jax.statistics import MeasuredTree, measure
from stepscope.integrations.jax.store import budget
from stepscope.integrations.keras.activations import HISTOGRAMS, OFF, ActivationMeter
from stepscope.integrations.keras.taps import Taps
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.sampling import Sampling, SamplingBudget


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
        self._look = jax.jit(self._forward, static_argnames=("level", "part"))
        self._found: MeasuredTree | None = None
        self._result: Any = None

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return a budget on which the processes of the job agree: all run the same programs."""
        return budget(self.hook, sampling, failed=self._post)

    def given(self, state: Any, batch: Any) -> None:
        """Look at the arguments of a step.

        Args:
            state: Of the trainer: trainable variables, others, and what is of no interest here.
            batch: Inputs, and what belongs to them.
        """
        if self.level == OFF or self._found is not None:
            return
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        self._found = self._look(list(state[0]), list(state[1]), x, level=self.level, part=self.part)

    def taken(self, logs: Any) -> None:
        """Note what a step returned, which is available once it is done."""
        if self.timed:
            self._result = min(jax.tree.leaves(logs), key=lambda one: one.size, default=None)

    def after_step(self, step: int) -> None:
        """Record it."""
        found, self._found = self._found, None
        result, self._result = self._result, None
        if found is None and result is None:
            return
        write = None if found is None else partial(record_activations, measured=found, step=step)
        self.hand_on(step, partial(jax.block_until_ready, found if result is None else result), write)

    def _forward(self, trainable: Any, other: Any, x: Any, *, level: int, part: int) -> MeasuredTree | None:
        outputs: dict[str, Any] = {}

        def see(name: str, out: Any) -> None:
            if self.taps.rows[name] % self.hook.rotate == part:
                outputs[name] = out

        with self.taps.open(see):
            self._model.stateless_call(trainable, other, x, training=True)
        word = "histograms" if level == HISTOGRAMS else "full"
        return measure(word, activations=outputs, kinds=self.taps.kinds, saturated=self.hook.saturated)
