"""Arrays as they are."""

from __future__ import annotations

from typing import Any

from stepscope.events.messages import DataClass, Metadata, Value
from stepscope.events.tensors import tensor
from stepscope.record.summaries.snapshot import snapshot
from stepscope.record.summary_encoder import Prepared, bounded

PLUGIN = "tensor"
"""The name that torch's ``add_tensor`` gives."""


def prepare(values: Any) -> Prepared:
    """Return an array of any shape and type that TensorFlow has."""
    held = snapshot(values)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        metadata = Metadata.of(PLUGIN, data_class=int(DataClass.TENSOR))
        return [Value(tag, tensor=tensor(held.fetch()), metadata=metadata)]

    return Prepared(make, held.nbytes)
