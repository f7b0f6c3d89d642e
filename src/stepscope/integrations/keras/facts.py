"""Facts of a model for the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from stepscope.integrations.keras import rates


def facts_of(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return names and sizes of a model and its training, for the run's configuration.

    Args:
        model: A compiled model.
        params: What ``fit`` tells its callbacks.
    """
    optimizer = getattr(model, "optimizer", None)
    rate = rates.readings(optimizer)
    found = {
        "framework": f"keras {keras.__version__} on {keras.backend.backend()}",
        "model": getattr(model, "name", type(model).__name__),
        "parameters": parameters(model),
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "learning_rate": rate.get("optimizer/lr"),
        "epochs": params.get("epochs"),
        "steps_per_epoch": params.get("steps"),
    }
    return {key: value for key, value in found.items() if value is not None}


def parameters(model: Any) -> int | None:
    """Return how many numbers are trained; None for a model that has no weights before its first batch."""
    if not getattr(model, "built", False):
        return None
    return sum(size(weight) for weight in model.trainable_weights)


def size(weight: Any) -> int:
    """Return how many numbers a weight holds."""
    count = 1
    for length in weight.shape:
        count *= int(length)
    return count
