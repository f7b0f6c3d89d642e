"""Transformers: its Trainer gets our callback."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch.process import process


def install(module: ModuleType) -> None:
    """Add the callback to every Trainer that trains.

    Args:
        module: ``transformers.trainer``.
    """
    trainer = module.Trainer
    original = trainer.train

    @wraps(original)
    def train(self: Any, *arguments: Any, **options: Any) -> Any:
        if not process.off:
            with process.apart():
                _add(self)
        with process.leading():
            return original(self, *arguments, **options)

    trainer.train = train


def _add(trainer: Any) -> None:
    from stepscope.integrations.transformers import StepscopeCallback

    if any(isinstance(callback, StepscopeCallback) for callback in trainer.callback_handler.callbacks):
        return
    run = process.measured()
    if run is not None:
        counts = StepscopeCallback(run)
        trainer.add_callback(counts)
        process.fetched = counts.fetched
