"""Hysteresis: when a finding opens and when it closes, so that it never flaps."""

from __future__ import annotations

from typing import Literal


class AlarmGate:
    """Opens after enough bad samples in a row, closes only after a stretch of good ones.

    Args:
        opens: Bad samples in a row that open it.
        closes: Good samples in a row that close it, at least 1.

    Attributes:
        since: Step of the first of the bad samples that opened it, if steps are given.
    """

    def __init__(self, *, opens: int = 1, closes: int = 1) -> None:
        self._opens, self._closes = opens, closes
        self.is_open = False
        self.since = 0
        self._bad = self._good = 0

    def see(self, bad: bool, step: int = 0) -> Literal["open", "close"] | None:
        """Take one sample and return its effect."""
        self._bad, self._good = (self._bad + 1, 0) if bad else (0, self._good + 1)
        if self._bad == 1 and not self.is_open:
            self.since = step
        if not self.is_open and self._bad >= self._opens:
            self.is_open = True
            return "open"
        if self.is_open and not bad and self._good >= self._closes:
            self.is_open = False
            return "close"
        return None
