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
            from stepscope.integrations.transformers import StepscopeCallback

            if not any(isinstance(each, StepscopeCallback) for each in self.callback_handler.callbacks):
                run = process.measured()
                if run is not None:
                    self.add_callback(StepscopeCallback(run))
        with process.leading():
            return original(self, *arguments, **options)

    trainer.train = train
