"""Points become records of an event file, many at a time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel
from stepscope.kernels import warn_if_uncompiled

warn_if_uncompiled(kernel)

BYTES_PER_POINT = 64
"""Room for a point besides its tag: framing 16, time 9, step 11, lengths and keys 19, value 4."""


class Columns(NamedTuple):
    """Points as columns; only the first ``size`` rows are any."""

    size: int
    tags: array[int]
    values: array[float]
    steps: array[int]
    walls: array[float]

    def after(self, row: int) -> Columns:
        """Return the rows from one on."""
        size, tags, values, steps, walls = self
        return Columns(size - row, tags[row:size], values[row:size], steps[row:size], walls[row:size])


class Encoder:
    """Encodes points.

    Args:
        names: Tags by number; may grow.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._fields = bytearray()
        self._ends = array("i")
        self._longest = 0
        self._out = bytearray()

    def encode(self, columns: Columns, begin: int, end: int) -> tuple[bytes, int, int]:
        """Encode rows from ``begin`` to ``end``.

        It stops early at a value that is finite but no float32. Points that follow each other with the same
        wall time and step share a record.

        Returns:
            The records, the number of rows in them, and how often the step changed between two of these.
        """
        self._learn()
        room = (end - begin) * (BYTES_PER_POINT + self._longest)
        if len(self._out) < room:
            self._out = bytearray(room)
        rows = [memoryview(column)[begin:end] for column in columns[1:]]
        scalars: Any = kernel.scalars
        done, size, changes = scalars(*rows, self._fields, self._ends, self._out)
        return bytes(memoryview(self._out)[:size]), done, changes

    def _learn(self) -> None:
        """Get the fields of the tags that are new."""
        for tag in self._names[len(self._ends) :]:
            # Summary.Value: the tag, then the key of simple_value.
            field = b"\x0a" + length_prefixed(tag.encode()) + b"\x15"
            self._fields += field
            self._ends.append(len(self._fields))
            self._longest = max(self._longest, len(field))
