"""Keras: ``fit`` gets our callback."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch import printed
from stepscope.launch.process import process

CALLBACKS = 5
"""Arguments of ``fit`` before the callbacks: x, y, batch size, epochs, verbosity."""


def install(module: ModuleType) -> None:
    """Add the callback to every ``fit``, and see the updates of loops of the user's own in TensorFlow.

    Args:
        module: ``keras`` or ``tf_keras``.
    """
    printed.install()
    if module.backend.backend() == "tensorflow":
        from stepscope.launch.tensorflow import updates

        updates.of(module.optimizers.Optimizer)
    model = module.Model
    original = model.fit

    @wraps(original)
    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        run = None if process.led else process.run()
        if run is None:
            return original(self, *arguments, **options)
        with process.apart():
            from stepscope.integrations.keras import StepscopeCallback

            positional = len(arguments) > CALLBACKS
            callbacks = arguments[CALLBACKS] if positional else options.get("callbacks")
            given = (
                list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []
            )
            if not any(isinstance(callback, StepscopeCallback) for callback in given):
                given.append(StepscopeCallback(run))
            if positional:
                arguments = (*arguments[:CALLBACKS], given, *arguments[CALLBACKS + 1 :])
            else:
                options["callbacks"] = given
        with process.leading():
            return original(self, *arguments, **options)

    model.fit = fit
    for name in ("evaluate", "predict"):
        process.lead(model, name)
