"""The meters for the backend that Keras runs on: gradients of an optimizer, activations of a model."""

from __future__ import annotations

from typing import Any

import keras

from stepscope.errors import UsageError
from stepscope.integrations.keras.taps import Taps
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook, GradientHook

KERAS3 = not keras.__version__.startswith("2.")


def gradient_meter(hook: GradientHook) -> Any:
    """Return what measures on this backend."""
    backend = keras.backend.backend()
    if backend == "torch":
        from stepscope.integrations.keras.eager import EagerMeter

        return EagerMeter(hook)
    if backend == "jax":
        from stepscope.integrations.keras.stateless import StatelessMeter

        return StatelessMeter(hook)
    if backend == "tensorflow":
        from stepscope.integrations.keras.graphs import GraphMeter

        return GraphMeter(hook, reduces=KERAS3)
    raise UsageError(
        f"gradients are not measured on {backend}", hint="KERAS_BACKEND=torch, jax or tensorflow"
    )


def measure_activations(run: Run, model: Any) -> list[Any]:
    """Have the run's ``ActivationHook`` measure a model that is trained by ``fit``.

    Returns:
        What measures, for ``finish``.
    """
    found = []
    for hook in run.hooks:
        if isinstance(hook, ActivationHook) and not hook.parts:
            meter = activation_meter(run, hook, model)
            hook.parts.append(meter)
            run.add_hook(meter)
            found.append(meter)
    return found


def activation_meter(run: Run, hook: ActivationHook, model: Any) -> Any:
    """Return what measures on this backend."""
    backend = keras.backend.backend()
    if backend == "torch":
        from stepscope.integrations.keras.eager_activations import EagerActivations

        return EagerActivations(run, hook, Taps(model, hook, run))
    if backend == "jax":
        from stepscope.integrations.keras.stateless_activations import StatelessActivations

        return StatelessActivations(run, hook, Taps(model, hook, run), model)
    from stepscope.integrations.keras.graph_activations import GraphActivations

    return GraphActivations(run, hook, Taps(model, hook, run), model)
