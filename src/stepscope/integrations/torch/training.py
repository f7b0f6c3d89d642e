"""A training by a trainer of PyTorch: its steps, what is watched of it, and whether it is to end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscope.errors import UsageError
from stepscope.integrations.stepper import Stepper
from stepscope.integrations.torch.attach import Watch, watch
from stepscope.integrations.torch.stop import Stop
from stepscope.record import Run


class Training:
    """Connects a trainer's callbacks to a run, from the first step to the last.

    Args:
        run: The run.
        every_n_steps: How often ranks look whether one of them was asked to stop.
    """

    def __init__(self, run: Run, every_n_steps: int) -> None:
        self.run, self.stepper, self._stop = run, Stepper(run), Stop(run, every_n_steps)
        self._watch: Watch | None = None

    def attach(self, model: Any, optimizers: Any, options: Mapping[str, Any], *, scaler: Any = None) -> None:
        """Watch a model; optimizers that are none of PyTorch's step by themselves, as DeepSpeed's.

        Args:
            model: The model.
            optimizers: As for ``watch``.
            options: The user's, for ``watch``.
            scaler: As for ``watch``.

        Raises:
            UsageError: The options cannot be right.
        """
        try:
            self._watch = watch(model, optimizers, self.run, **{"scaler": scaler, **options})
        except UsageError:
            if options:
                raise
            self._watch = watch(None, None, self.run)  # what the trainer logs is recorded all the same

    def end_step(self, step: int) -> bool:
        """End the step; return whether the training is to end with it.

        Args:
            step: Its number, the same on all ranks.
        """
        self.stepper.end()
        stop = self._stop
        return (stop.shared or self.run.step_counter.stopping) and stop.after(step)

    def take_off(self) -> None:
        """Measure no more; a step that runs did not come to its end."""
        self.stepper.abandon()
        if self._watch is not None:
            self._watch.remove()
