"""Measures what the layers of a Keras model put out in training, for an ``ActivationHook``, on any backend.

On PyTorch layers are looked at as they are called. On TensorFlow a branch of the step's graph measures, and
leaves its result in variables. On JAX the batch of a sampled step goes through the model once more, with the
same weights and seeds, in a function of its own: what trains is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from stepscope.errors import RecordError
from stepscope.integrations.keras.taps import Taps
from stepscope.record import Run
from stepscope.record.hooks.hook import Hook
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.activations import ActivationReport
from stepscope.record.statistics.rounds import Round, Rounds
from stepscope.record.statistics.table import Table

OFF, FULL, HISTOGRAMS = range(3)
"""What is measured in a step."""


def measure_activations(run: Run, model: Any) -> list[Any]:
    """Have the run's ``ActivationHook`` measure a model that is trained by ``fit``.

    Returns:
        What measures, for ``finish``.
    """
    found = []
    for hook in run.hooks:
        if isinstance(hook, ActivationHook) and not hook.parts:
            meter = made(run, hook, model)
            hook.parts.append(meter)
            run.add_hook(meter)
            found.append(meter)
    return found


def made(run: Run, hook: ActivationHook, model: Any) -> Any:
    """Return what measures on this backend."""
    backend = keras.backend.backend()
    if backend == "torch":
        from stepscope.integrations.keras.eager_activations import EagerActivations

        return EagerActivations(run, hook, Taps(model, hook))
    if backend == "jax":
        from stepscope.integrations.keras.stateless_activations import StatelessActivations

        return StatelessActivations(run, hook, Taps(model, hook), model)
    from stepscope.integrations.keras.graph_activations import GraphActivations

    return GraphActivations(run, hook, Taps(model, hook), model)


class ActivationMeter(Hook):
    """Says of each step of a run what to measure, and records it.

    Args:
        run: The run.
        hook: Says what and when.
        taps: The layers.
    """

    ranks = "all"

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps) -> None:
        self.hook, self.taps, self.level = hook, taps, OFF
        self._run, self._sampling = run, hook.sampling()
        self._report = ActivationReport(run, hook.stats, hook.window)
        self._rounds = Rounds(lambda round_: round_.done and round_.done(), failed=self._post)
        self._opened = ExitStack()

    def before_step(self, step: int) -> None:
        """Choose what to measure."""
        self.level = OFF
        if not self._rounds.full and self._run.role.writes and self._sampling.due(step):
            self.level = HISTOGRAMS if self._sampling.histogram_due(step) else FULL

    def hand_on(self, step: int, write: Callable[[ActivationReport], None]) -> None:
        """Have a sample recorded, on the thread that may wait for the device."""
        round_ = Round(step, Table(0), True)
        round_.done = lambda: write(self._report)
        self._rounds.put(round_)

    def finish(self, timeout: float) -> None:
        """Record what is measured already, and measure no more."""
        self.level = OFF
        self._opened.close()
        self._rounds.close(timeout)

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        error = RecordError(f"activation statistics: {words}", hint=hint or "the training is not affected")
        self._run._recorder.problems.post(reason, error)
