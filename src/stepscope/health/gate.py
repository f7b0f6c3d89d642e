"""Hysteresis: when a finding opens and when it closes, so that it never flaps."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Change = tuple[int, Literal["open", "close"]]


class AlarmGate:
    """Opens after enough bad samples, closes only after a stretch of good ones.

    Args:
        opens: Bad samples that open it.
        within: The number of samples within which they must occur; by default they must be consecutive.
        closes: Good samples in a row that close it, at least 1.

    Attributes:
        bad: Number of bad samples so far.
        since: Step of the first of the bad samples that opened it, if steps are given.
    """

    def __init__(self, *, opens: int = 1, within: int | None = None, closes: int = 1) -> None:
        self.opens, self.closes = opens, closes
        self._within = opens if within is None else max(within, opens)
        self.is_open = False
        self.bad = self.since = 0
        self._recent: list[
            tuple[int, int]
        ] = []  # numbers and steps of the bad samples that may still open it
        self._good = self._count = 0

    def require(self, opens: int) -> None:
        """Require more consecutive bad samples before it opens."""
        self.opens, self._within = opens, opens

    def see(self, bad: bool, step: int = 0) -> Literal["open", "close"] | None:
        """Take one sample and return its effect."""
        self._count += 1
        if bad:
            self.bad += 1
            self._good = 0
            if self.is_open:
                return None
            self._recent = [entry for entry in self._recent if entry[0] > self._count - self._within]
            self._recent.append((self._count, step))
            if len(self._recent) >= self.opens:
                self.since = self._recent[0][1]
                self.is_open, self._recent = True, []
                return "open"
            return None
        if self.is_open:
            self._good += 1
            if self._good >= self.closes:
                self.is_open = False
                return "close"
        return None

    def run(self, bad: NDArray[np.bool_], steps: NDArray[np.int64] | None = None) -> list[Change]:
        """Take many samples and return their effects, each with its index."""
        if not self.is_open and not bad.any():
            self._count += len(bad)
            return []
        changes: list[Change] = []
        for index, is_bad in enumerate(bad.tolist()):
            change = self.see(is_bad, 0 if steps is None else int(steps[index]))
            if change is not None:
                changes.append((index, change))
        return changes
