"""Points become records of an event file, many at a time."""

from __future__ import annotations

from array import array
from typing import Any

from stepscope.events.wire import length_prefixed
from stepscope.kernels import encode as kernel

BYTES_PER_POINT = 64
"""Room for a point besides its tag: framing 16, time 9, step 11, lengths and keys 19, value 4."""


class Encoder:
    """Encodes points for one file; remembers the tags it has seen."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._fields = bytearray()
        self._ends = array("i")
        self._longest = 0
        self._out = bytearray()

    def encode(self, points: list[tuple[str, float, int, float]]) -> tuple[bytes, int]:
        """Return records for points in their order, and how many of them are in there.

        It stops at a value that is finite but no float32. Points that follow each other with the same wall
        time and step share a record.

        Args:
            points: Tag, value, step, wall time in seconds.
        """
        tags, values, steps, walls = zip(*points, strict=True)
        numbers = array("i", [self._number(tag) for tag in tags])
        room = len(points) * (BYTES_PER_POINT + self._longest)
        if len(self._out) < room:
            self._out = bytearray(room)
        columns = numbers, array("d", values), array("q", steps), array("d", walls)
        scalars: Any = kernel.scalars
        done, size = scalars(*columns, self._fields, self._ends, self._out)
        return bytes(memoryview(self._out)[:size]), done

    def _number(self, tag: str) -> int:
        number = self._numbers.get(tag)
        return self._add(tag) if number is None else number

    def _add(self, tag: str) -> int:
        # Summary.Value: the tag, then the key of simple_value.
        field = b"\x0a" + length_prefixed(tag.encode()) + b"\x15"
        self._fields += field
        self._ends.append(len(self._fields))
        self._longest = max(self._longest, len(field))
        number = self._numbers[tag] = len(self._numbers)
        return number
