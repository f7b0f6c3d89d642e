"""Settings of the optimizer: learning rates and the loss scale, by tag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from stepscope.integrations.keras.arrays import number


def readings(optimizer: Any, step: int | None = None) -> dict[str, float]:
    """Return the learning rate and, with mixed precision, the loss scale.

    Several optimizers each have a learning rate of their own, under their name.

    Args:
        optimizer: The model's; None if it is not compiled with one.
        step: Updates done, where only schedules are wanted: on JAX variables cannot be read within an epoch.
    """
    found = {}
    if step is None and (scale := getattr(optimizer, "dynamic_scale", None)) is not None:
        found["gradients/loss_scale"] = number(scale)
    for path, one in each(optimizer):
        schedule = getattr(one, "_learning_rate", None)
        rate: Any = None
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            rate = schedule(updates(one) if step is None else step)
        elif step is None:
            rate = getattr(one, "learning_rate", None)
        if rate is not None:
            found[f"{path}/lr"] = number(rate)
    return found


def each(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the optimizers that one is made of, with what distinguishes them."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(optimizer, "optimizers", None)
    if several:
        for one in several:
            yield f"optimizer/{one.name}", one
    elif optimizer is not None:
        yield "optimizer", optimizer


def updates(optimizer: Any) -> int:
    """Return how many updates an optimizer has made; 0 if it does not say."""
    iterations = getattr(optimizer, "iterations", None)
    return 0 if iterations is None else int(number(iterations))


def batches_per_call(model: Any) -> int:
    """Return how many batches one call of a model's ``train_function`` trains."""
    batches = getattr(model, "steps_per_execution", None)
    return 1 if batches is None else max(int(number(batches)), 1)
