"""Keras: ``fit`` gets our callback."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch import printed
from stepscope.launch.process import process


def install(module: ModuleType) -> None:
    """Add the callback to every ``fit``.

    Args:
        module: ``keras`` or ``tf_keras``.
    """
    printed.install()
    model = module.Model
    original = model.fit

    @wraps(original)
    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        run = None if process.led else process.run()
        if run is None:
            return original(self, *arguments, **options)
        from stepscope.integrations.keras import StepscopeCallback

        callbacks = options.get("callbacks")
        given = [] if callbacks is None else callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        if not any(isinstance(each, StepscopeCallback) for each in given) and len(arguments) < MAX_POSITIONAL:
            options["callbacks"] = [*given, StepscopeCallback(run)]
        with process.leading():
            return original(self, *arguments, **options)

    model.fit = fit


MAX_POSITIONAL = 6
"""Arguments of ``fit`` before the callbacks: x, y, batch size, epochs, verbosity, callbacks."""
