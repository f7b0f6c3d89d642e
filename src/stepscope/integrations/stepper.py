"""Steps of a run that a trainer's callbacks begin and end, if the user has no loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscope.kernels.marks import StepMarks


class Stepper(StepMarks):
    """The compiled calls, in a class whose methods can be replaced."""


def examples(batch: Any) -> int:
    """Return the first dimension of the first tensor or array of a batch, 0 if there is none.

    Args:
        batch: A batch from a data loader: tensors in lists, tuples, dicts and objects that are such.
    """
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if isinstance(batch, Mapping):
        parts: Any = batch.values()
    elif isinstance(batch, list | tuple):
        parts = batch
    else:
        return 0
    for part in parts:
        if count := examples(part):
            return count
    return 0
