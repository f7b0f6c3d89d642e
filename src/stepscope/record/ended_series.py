"""The series that ended while the training went on, from the steps of their points as they arrive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ENOUGH = 10
"""Points from which the usual distance of a series is known."""
TIMES = 10
"""Distances without a point after which a series has ended."""
SAMPLED = ("gradients/", "weights/", "updates/", "activations/", "optimizer/left_out/", "stepscope/")
"""Prefixes of series that hooks sample at changing distances; the hooks report their own gaps."""
MAX_NAMED = 256
"""Series that are named."""


class EndedSeries:
    """Keeps the first and last step and the number of points of each series; used by the writer's thread.

    Series that are not numbered by the steps of the run, as those by epoch, are not judged: their points lie
    outside the steps that the run took since the last look.

    Args:
        names: Tags by number; may grow.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._first, self._last, self._counts = (np.zeros(0, np.int64) for _ in range(3))
        self._others = np.zeros(0, bool)
        self._before = 0
        self._now = 0

    def take(self, tags: npt.NDArray[np.int32], steps: npt.NDArray[np.int64], now: int) -> None:
        """Take points.

        Args:
            tags: Their series, by number.
            steps: Their steps, in the order of recording.
            now: The step that the run is at.
        """
        if now != self._now:
            self._before, self._now = self._now, now
        known, size = len(self._counts), len(self._names)
        if known < size:
            self._first, self._last, self._counts = (
                np.append(array, np.zeros(size - known, np.int64))
                for array in (self._first, self._last, self._counts)
            )
            judged = [not name.startswith(SAMPLED) for name in self._names[known:size]]
            self._others = np.append(self._others, ~np.array(judged, bool))
        new = self._counts[tags] == 0
        if new.any():
            self._first[tags[new][::-1]] = steps[new][::-1]  # of several points the first is written last
        self._last[tags] = steps
        self._counts += np.bincount(tags, minlength=size)
        outside = (steps < self._before) | (steps > now)
        if outside.any():
            self._others[tags[outside]] = True

    def ended(self, now: int) -> dict[str, int]:
        """Return the last step of each series that had no point for many times its usual distance.

        Args:
            now: The step that the run is at.
        """
        usual = np.maximum(self._last - self._first, 1) / np.maximum(self._counts - 1, 1)
        quiet = now - self._last > TIMES * np.maximum(usual, 1)
        over = np.flatnonzero(quiet & (self._counts >= ENOUGH) & ~self._others)[:MAX_NAMED]
        return {self._names[at]: int(self._last[at]) for at in over.tolist()}
