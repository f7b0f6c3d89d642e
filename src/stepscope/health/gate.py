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
        back: How many samples before the one that opened it the first of those bad ones came.
    """

    def __init__(self, *, opens: int = 1, within: int | None = None, closes: int = 1) -> None:
        self.opens, self.closes = opens, closes
        self._within = opens if within is None else max(within, opens)
        self.is_open = False
        self.back = 0
        self._recent: list[int] = []  # numbers of the bad samples that may still open it
        self._good = self._count = 0

    def require(self, opens: int) -> None:
        """Require more consecutive bad samples before it opens."""
        self.opens, self._within = opens, opens

    def see(self, bad: bool) -> Literal["open", "close"] | None:
        """Take one sample and return what it changed."""
        self._count += 1
        if bad:
            self._good = 0
            if self.is_open:
                return None
            self._recent = [at for at in self._recent if at > self._count - self._within]
            self._recent.append(self._count)
            if len(self._recent) >= self.opens:
                self.back = self._count - self._recent[0]
                self.is_open, self._recent = True, []
                return "open"
            return None
        if self.is_open:
            self._good += 1
            if self._good >= self.closes:
                self.is_open = False
                return "close"
        return None

    def run(self, bad: NDArray[np.bool_]) -> list[Change]:
        """Take many samples and return what they changed, each with its index."""
        if not self.is_open and not bad.any():
            self._count += len(bad)
            return []
        changes: list[Change] = []
        for index, each in enumerate(bad.tolist()):
            change = self.see(each)
            if change is not None:
                changes.append((index, change))
        return changes
