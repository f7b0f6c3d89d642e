"""Two series that are judged together, joined by their steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk, StreamBatch, stream_order
from stepscope.health.layers import Place
from stepscope.health.rule import Rule
from stepscope.health.series import Stream

Rows = NDArray[np.int64]
MOST_WAITING = 10_000
"""Most points of one series that wait for the other; beyond it, the oldest are dropped."""


@dataclass
class _Sides:
    """The points of both series that have found no partner yet."""

    streams: list[Stream | None] = field(default_factory=lambda: [None, None])
    waiting: list[Chunk | None] = field(default_factory=lambda: [None, None])


class Paired(Rule):
    """A rule over two series that judges their points of one step together.

    Both are walked through in recorded order, and a step that only one of them has is left out. So the pairs
    depend on the two series alone, not on the portions in which they come.
    """

    pair: ClassVar[tuple[str, str]]
    """The roles; of several series of one role, the first one counts."""

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._sides: dict[Place, _Sides] = {}

    @abstractmethod
    def pairs(self, first: Chunk, second: Chunk) -> None:
        """Judge points of both series, those of a step in the same row."""

    def look(self, batch: StreamBatch) -> None:
        """Pair new points with waiting ones."""
        chunks = sorted(batch.of(self.pair), key=lambda chunk: (chunk.walls[0], *stream_order(chunk.stream)))
        places = []
        for chunk in chunks:
            place = chunk.stream.run, chunk.stream.rank
            sides, side = self._sides.setdefault(place, _Sides()), self.pair.index(chunk.stream.role)
            if sides.streams[side] is None:
                sides.streams[side] = chunk.stream
            if sides.streams[side] is chunk.stream:
                before = sides.waiting[side]
                sides.waiting[side] = chunk if before is None else joined(before, chunk)
                places.append(place)
        for place in dict.fromkeys(places):
            self._pair(self._sides[place])

    def _pair(self, sides: _Sides) -> None:
        first, second = sides.waiting
        if first is None or second is None:
            sides.waiting = [last(first), last(second)]
            return
        count = min(len(first), len(second))
        if (first.steps[:count] == second.steps[:count]).all():
            rows = others = np.arange(count, dtype=np.int64)
            begin = end = count
        else:
            rows, others, begin, end = matched(first.steps.tolist(), second.steps.tolist())
        if len(rows):
            self.pairs(first.part(rows), second.part(others))
        sides.waiting = [last(first.part(slice(begin, None))), last(second.part(slice(end, None)))]


def matched(first: list[int], second: list[int]) -> tuple[Rows, Rows, int, int]:
    """Return the rows of equal steps, and how far either side is done."""
    rows: list[int] = []
    others: list[int] = []
    at = to = 0
    while at < len(first) and to < len(second):
        if first[at] == second[to]:
            rows.append(at)
            others.append(to)
            at, to = at + 1, to + 1
        elif first[at] < second[to]:
            at += 1
        else:
            to += 1
    return np.array(rows, np.int64), np.array(others, np.int64), at, to


def joined(before: Chunk, more: Chunk) -> Chunk:
    """Return two portions of a stream as one."""
    return Chunk(
        more.stream,
        np.concatenate([before.steps, more.steps]),
        np.concatenate([before.values, more.values]),
        np.concatenate([before.walls, more.walls]),
    )


def last(chunk: Chunk | None) -> Chunk | None:
    """Return the points that wait: not none, and not too many."""
    return None if chunk is None or not len(chunk) else chunk.part(slice(-MOST_WAITING, None))
