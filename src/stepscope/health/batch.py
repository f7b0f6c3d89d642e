"""Points of many series in one order, however they were divided into portions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stepscope.health.series import Stream


@dataclass(frozen=True)
class Chunk:
    """Points of one stream, in recorded order.

    Attributes:
        steps: int64.
        values: float64; in seconds, ratios or bytes if the role has a unit.
        walls: float64, seconds since the epoch, never falling within a stream.
    """

    stream: Stream
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    walls: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    def part(self, rows: slice | NDArray[np.bool_]) -> Chunk:
        """Return some of the points."""
        return Chunk(self.stream, self.steps[rows], self.values[rows], self.walls[rows])


def rising_times(walls: NDArray[np.float64], before: float = float("-inf")) -> NDArray[np.float64]:
    """Return times that never fall within a stream: clocks may be set back, but recorded order counts.

    Args:
        walls: Times as recorded; a value that is not finite counts as the time before it.
        before: The last of the earlier times.
    """
    if len(walls) and walls[0] >= before and walls[-1] < float("inf") and (walls[1:] >= walls[:-1]).all():
        return walls
    good = np.where(np.isfinite(walls), walls, float("-inf"))
    times: NDArray[np.float64] = np.maximum(np.maximum.accumulate(good), before)
    return times


Point = tuple[Stream, int, float, float]
"""Stream, step, value, wall."""


@dataclass(frozen=True)
class StreamBatch:
    """All points of a stretch of time, one chunk for each stream that has any.

    The chunks are in the order in which their streams began, so that state by stream has this order too,
    whichever stream was handed over first.
    """

    chunks: list[Chunk]

    def of(self, roles: Collection[str]) -> list[Chunk]:
        """Return the chunks whose stream has one of these roles."""
        return [chunk for chunk in self.chunks if chunk.stream.role in roles]

    def points(self, roles: Collection[str]) -> Iterator[Point]:
        """Return the points of some roles by time, step, tag and rank, each stream in recorded order."""
        chunks = sorted(self.of(roles), key=lambda chunk: stream_order(chunk.stream))
        return merged(chunks) if chunks else iter(())

    @cached_property
    def walls(self) -> NDArray[np.float64]:
        """The time of every point, ascending."""
        return np.sort(np.concatenate([chunk.walls for chunk in self.chunks])) if self.chunks else np.empty(0)


def rank_order(stream: Stream) -> int:
    """Return the place of a stream's rank in an order: no rank comes first."""
    return -1 if stream.rank is None else stream.rank


def stream_order(stream: Stream) -> tuple[str, str, int, str]:
    """Return the place of a stream among others, which nothing but its names decides."""
    return stream.run, stream.tag, rank_order(stream), stream.split or ""


def merged(chunks: list[Chunk]) -> Iterator[Point]:
    """Return the points of several chunks by time, then step, then the order of the chunks."""
    wall = np.concatenate([chunk.walls for chunk in chunks])
    step = np.concatenate([chunk.steps for chunk in chunks])
    rising = np.concatenate([rising_steps(chunk) for chunk in chunks])
    source = np.repeat(np.arange(len(chunks)), [len(chunk) for chunk in chunks])
    value = np.concatenate([chunk.values for chunk in chunks])
    order = np.lexsort((source, rising, wall))
    streams = [chunk.stream for chunk in chunks]
    for at, number, reading, time in zip(
        source[order].tolist(), step[order].tolist(), value[order].tolist(), wall[order].tolist(), strict=True
    ):
        yield streams[at], number, reading, time


def rising_steps(chunk: Chunk) -> NDArray[np.int64]:
    """Return steps that do not fall among points of one time: within a stream recorded order counts."""
    steps, walls = chunk.steps, chunk.walls
    if (steps[1:] >= steps[:-1]).all():
        return steps
    times = np.concatenate([[0], np.cumsum(walls[1:] != walls[:-1])])
    known, place = np.unique(steps, return_inverse=True)
    rising = np.maximum.accumulate(times * len(known) + place.ravel()) - times * len(known)
    ordered: NDArray[np.int64] = known[rising]
    return ordered
