"""A series in blocks of equally many finite values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.rule import finite
from stepscope.health.series import Stream


@dataclass(frozen=True)
class Block:
    """Some values that follow each other.

    Attributes:
        step: Of the last.
        wall: Of the last.
    """

    stream: Stream
    first_step: int
    step: int
    wall: float
    values: NDArray[np.float64]

    @cached_property
    def mean(self) -> float:
        """Mean of the values, without overflow for very large ones."""
        return float((self.values / len(self.values)).sum())


class ValueBlocks:
    """Gathers the finite values of one stream.

    Attributes:
        done: Blocks so far.
    """

    def __init__(self, size: int) -> None:
        self._size, self.done = max(size, 1), 0
        self._part: list[float] = []
        self._first = 0

    def parts(self, chunk: Chunk) -> Iterator[Chunk]:
        """Cut points so that a block ends only where a part ends, whatever portions they came in."""
        begin, left = 0, self._size - len(self._part)
        ends = np.flatnonzero(np.isfinite(chunk.values)) + 1
        for end in ends[left - 1 :: self._size].tolist():
            yield chunk.part(slice(begin, end))
            begin = end
        if begin < len(chunk):
            yield chunk.part(slice(begin, None))

    def take(self, chunk: Chunk) -> Iterator[Block]:
        """Return the blocks that these points complete."""
        chunk = finite(chunk)
        begin, count = 0, len(chunk)
        while begin < count:
            if not self._part:
                self._first = int(chunk.steps[begin])
            end = min(count, begin + self._size - len(self._part))
            self._part += chunk.values[begin:end].tolist()
            if len(self._part) == self._size:
                self.done += 1
                values = np.array(self._part)
                self._part = []
                last = int(chunk.steps[end - 1])
                yield Block(chunk.stream, min(self._first, last), last, float(chunk.walls[end - 1]), values)
            begin = end
