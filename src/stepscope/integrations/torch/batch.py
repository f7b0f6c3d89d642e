"""The number of examples in a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def examples(batch: Any) -> int:
    """Return the first dimension of the first tensor or array of a batch, 0 if there is none.

    Args:
        batch: What a data loader gave: tensors in lists, tuples, dicts and objects that are such.
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
    return next((found for part in parts if (found := examples(part))), 0)
