"""Transformers: its Trainer gets our callback."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stepscope.launch.process import process


def install(module: ModuleType) -> None:
    """Add the callback to every Trainer that trains.

    Args:
        module: ``transformers.trainer``.
    """
    process.lead(module.Trainer, "train", _add)


def _add(trainer: Any) -> None:
    from stepscope.integrations.transformers import StepscopeCallback

    if any(isinstance(callback, StepscopeCallback) for callback in trainer.callback_handler.callbacks):
        return

    class Counted(StepscopeCallback):
        """Counts on from where another Trainer of this process has ended: each counts from 0."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            run = process.opened
            if run is not None and not state.global_step:
                self.before = max(run.step_counter.next - 1, 0)  # its first step is 1
            super().on_train_begin(args, state, control, **more)
            if self._training is not None:
                process.fetched = self._training.stepper.fetched

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            super().on_log(args, state, control, logs=logs, **more)
            process.sources.news("transformers", logs or {}, state.global_step)

    run = process.measured()
    if run is not None:
        trainer.add_callback(Counted(run))
