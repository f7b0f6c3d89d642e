"""Algebra of time: sets of disjoint intervals.

All intervals are half-open, ``start <= t < end``, in integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.kernels import intervals

Times = npt.NDArray[np.int64]
Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Spans:
    """Disjoint intervals in ascending order that do not touch: the union of their sources."""

    start: Times
    end: Times

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Spans:
        """Unite intervals in any order; those without length vanish."""
        start, end = np.asarray(start, np.int64), np.asarray(end, np.int64)
        if len(start) > 1 and np.any(start[1:] < start[:-1]):
            # Rows of a trace are stretches in ascending order, which a stable sort merges in little time.
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        out_start, out_end = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
        count = intervals.merge(np.ascontiguousarray(start), np.ascontiguousarray(end), out_start, out_end)
        return cls(out_start[:count].copy(), out_end[:count].copy())

    @classmethod
    def window(cls, start: int, end: int) -> Spans:
        """One interval."""
        return cls.of(np.array([start]), np.array([end]))

    @classmethod
    def empty(cls) -> Spans:
        """No time at all."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def measure_ns(self) -> int:
        """Length of all intervals together."""
        return int((self.end - self.start).sum())

    def within(self, start: Ints, end: Ints) -> Times:
        """Return how much of each window is covered; windows may overlap and be in any order."""
        whole = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.end - self.start)])
        return self._before(np.asarray(end, np.int64), whole) - self._before(
            np.asarray(start, np.int64), whole
        )

    def holds(self, time: Ints) -> npt.NDArray[np.bool_]:
        """Return whether each time lies in one of the intervals."""
        time = np.asarray(time, np.int64)
        at = np.searchsorted(self.start, time, side="right")
        return np.asarray(at > 0) & (np.append(self.end, 0)[at - 1] > time)

    def _before(self, time: Times, whole: Times) -> Times:
        """Return how much lies before each time, by the sums of the intervals before each."""
        if not len(self):
            return np.zeros(len(time), np.int64)
        at = np.searchsorted(self.start, time, side="right")
        inside = np.maximum(0, self.end[at - 1] - time)
        return np.where(at > 0, whole[at] - inside, 0)

    def union(self, *others: Spans) -> Spans:
        """Return the union of the sets."""
        sets = (self, *others)
        return Spans.of(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets]))

    def minus(self, other: Spans) -> Spans:
        """Return the parts of this set that the other does not cover."""
        return self._with(other, intervals.subtract)

    def intersect(self, other: Spans) -> Spans:
        """Return the intersection of both sets."""
        return self._with(other, intervals.intersect)

    def _with(self, other: Spans, fill: Callable[..., int]) -> Spans:
        start, end = (np.empty(len(self) + len(other), np.int64) for _ in range(2))
        count = fill(
            np.ascontiguousarray(self.start), np.ascontiguousarray(self.end),
            np.ascontiguousarray(other.start), np.ascontiguousarray(other.end), start, end,
        )  # fmt: skip
        return Spans(start[:count], end[:count])

    def closed(self, gap_ns: int) -> Spans:
        """Return these with the gaps that are no longer than the given time."""
        if len(self) < 2:
            return self
        near = self.start[1:] - self.end[:-1] <= gap_ns
        return self.union(Spans.of(self.end[:-1][near], self.start[1:][near]))

    def gaps(self, start: int, end: int) -> Spans:
        """Return the parts of a window that this set does not cover."""
        return Spans.window(start, end).minus(self)

    def clip(self, start: int, end: int) -> Spans:
        """Return the part that lies in a window."""
        return self.intersect(Spans.window(start, end))
