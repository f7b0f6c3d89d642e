"""Drawing a trace: visible lanes, a window and a width in pixels give merged rectangles.

Nothing disappears: events narrower than a pixel are merged with their neighbours in the same pixel and
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscope.errors import UsageError
from stepscope.kernels import rectangles
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints

DEEPEST = 127
"""Depth beyond which events are drawn on top of each other."""


@dataclass(frozen=True, slots=True)
class Rectangles:
    """Rectangles by lane, depth and start."""

    lane: Ints
    depth: Ints
    start_ns: Ints
    end_ns: Ints
    row: Ints
    """The event itself, or the longest of those merged."""
    count: Ints
    """Number of events; more than 1 were each narrower than a pixel."""
    busy_ns: Ints
    """Time that the events took; less than the rectangle's width if there are gaps between them."""

    def __len__(self) -> int:
        return len(self.row)


class Timeline:
    """An index over a trace for :meth:`query`: 30 bytes per event, built once.

    Args:
        trace: The trace.
    """

    def __init__(self, trace: Trace) -> None:
        n, lanes = len(trace), len(trace.lanes)
        self.trace = trace
        bounds = np.searchsorted(trace.lane, np.arange(lanes + 1))
        depths = np.array(
            [
                min(int(trace.depth[first:last].max()), DEEPEST) + 1 if last > first else 0
                for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
            ],
            np.int64,
        )
        self.first_track = np.concatenate([[0], np.cumsum(depths)]).astype(np.int32)
        """First track of each lane, and the number of tracks; a lane's depths are consecutive tracks."""
        tracks = int(self.first_track[-1])
        number = self.first_track[trace.lane] + np.minimum(trace.depth, DEEPEST)
        self.begins = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=tracks))]).astype(np.int64)
        del number
        self.order = np.empty(n, np.int32)
        rectangles.tracks(
            trace.lane, trace.depth, self.first_track, DEEPEST, self.begins[:-1].copy(), self.order
        )
        self.start = trace.start_ns[self.order]  # by position: it is searched, and rows lie far apart
        self.reach, self.busy = np.empty(n, np.int64), np.empty(n, np.int64)
        rectangles.accumulate(
            self.order, trace.start_ns, trace.duration_ns, self.begins, self.reach, self.busy
        )
        self.longest: list[Ints] = []
        """Position of the longest event of each 16, 256 and 4096 positions, then their durations."""
        below, lengths = np.zeros(0, np.int32), []
        for size in (16, 256, 4096):
            level = np.empty(-(-n // size), np.int32)
            lengths.append(np.empty(len(level), np.int64))
            rectangles.longest(self.order, trace.duration_ns, below, level, lengths[-1])
            self.longest.append(level)
            below = level
        self.longest += lengths

    def depth(self, lane: int) -> int:
        """Return how many rows high a lane is."""
        return int(self.first_track[lane + 1] - self.first_track[lane])

    def query(
        self,
        start_ns: int,
        end_ns: int,
        *,
        pixels: int,
        lanes: Sequence[int] | None = None,
        deepest: int = DEEPEST,
    ) -> Rectangles:
        """Return the rectangles between two times.

        Args:
            start_ns: Start of the window, since the trace's origin.
            end_ns: End of the window.
            pixels: Width of the window on the screen.
            lanes: Lanes to draw, all if not given.
            deepest: Depths beyond it are left out, as in a collapsed lane.

        Raises:
            UsageError: An empty window, no pixels, or a lane that is not there.
        """
        if end_ns <= start_ns or pixels < 1:
            raise UsageError(
                f"nothing to draw: window {start_ns} to {end_ns} ns on {pixels} pixels",
                hint="ask for a window that ends after it begins, on at least one pixel",
            )
        wanted = self._tracks(range(len(self.trace.lanes)) if lanes is None else lanes, deepest)
        pixel = max(1, (end_ns - start_ns) // pixels)
        events = wanted[:, 1] - wanted[:, 0]
        room = int(np.minimum(events, 2 * ((end_ns - start_ns) // pixel + 2)).sum())
        drawn = self._draw(wanted, (start_ns, end_ns, pixel), room)
        if len(drawn) == room < events.sum():  # siblings that overlap may be more than two to a pixel
            drawn = self._draw(wanted, (start_ns, end_ns, pixel), int(events.sum()))
        return drawn

    def _draw(self, wanted: Ints, window: tuple[int, int, int], room: int) -> Rectangles:
        row, count = np.empty(room, np.int32), np.empty(room, np.int32)
        left, right, busy = (np.empty(room, np.int64) for _ in range(3))
        trace = self.trace
        draw: Any = rectangles.draw
        index = (self.order, self.start, trace.duration_ns, self.reach, self.busy, *self.longest)
        used = draw(*index, wanted, *window, left, right, row, count, busy)
        row = row[:used]
        return Rectangles(
            lane=trace.lane[row], depth=np.minimum(trace.depth[row], DEEPEST), start_ns=left[:used],
            end_ns=right[:used], row=row, count=count[:used], busy_ns=busy[:used],
        )  # fmt: skip

    def _tracks(self, lanes: Sequence[int], deepest: int) -> Ints:
        """Return first position and end of every track of some lanes."""
        parts = []
        for lane in lanes:
            if not 0 <= lane < len(self.trace.lanes):
                raise UsageError(
                    f"no lane {lane}: the trace has {len(self.trace.lanes)}",
                    hint="lanes are counted from 0 in trace.lanes",
                )
            height = min(self.depth(lane), deepest + 1)
            parts.append(np.arange(self.first_track[lane], self.first_track[lane] + height))
        numbers = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return np.ascontiguousarray(
            np.stack([self.begins[numbers], self.begins[numbers + 1]], axis=1).astype(np.int64)
        )
