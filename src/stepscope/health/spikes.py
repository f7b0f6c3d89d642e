"""Values far above what the last ones were: the measure that loss spikes and gradient spikes share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.finding import number
from stepscope.health.gate import Gate
from stepscope.health.ring import Ring, median, pieces, spread
from stepscope.health.rule import At, Rule, Watch, finite

EVERY = 32
"""Points after which the limit is computed anew."""
FEWEST = 32
"""Points before the first limit."""
SMALLEST_RATIO = 1e-3
"""Of the median: a spread below is taken for this; a constant series has none."""


class Spikes(Watch):
    """Opens at a value far above the window before it.

    A value counts in the window at most as the limit that it passed, so that one spike does not blind the
    rule to the next (as ZClip does, arXiv 2504.02507).

    Args:
        rule: Whose findings these are; it has thresholds ``z``, ``ratio``, ``window`` and ``calm``.
        gate: When to open and close.
        least: From the median and the first values to the smallest limit that makes sense.
        what: The series in words.
    """

    def __init__(self, rule: Rule, gate: Gate, least: Callable[[float, float], float], what: str) -> None:
        self._rule, self._gate, self._least, self._what = rule, gate, least, what
        self._ring, self._steps = Ring(rule.limit("window")), Ring(rule.limit("window"))
        self._level = self._median = self._limit = float("inf")
        self._size = self._first = 0

    def take(self, chunk: Chunk) -> None:
        """Judge points; those that are not finite are another rule's."""
        chunk = finite(chunk)
        for rows in pieces(self._ring.count, len(chunk), EVERY):
            if self._ring.count >= FEWEST and self._ring.count % EVERY == 0:
                self._measure()
            self._piece(chunk.part(rows))

    def _measure(self) -> None:
        """Set the limit for the next points."""
        values = self._ring.values
        self._size, self._first = len(values), int(self._steps.values[0])
        middle, z = median(values), self._rule.limits["z"]
        if self._level == float("inf"):
            self._level = middle
        limit = middle + z * max(spread(values, middle), SMALLEST_RATIO * abs(middle))
        if values.min() > 0:
            # Small batches make heavy tails: what is usual in factors is no spike.
            logs = np.log(values)
            center = median(logs)
            limit = max(limit, float(np.exp(min(center + z * spread(logs, center), 700.0))))
        limit = max(limit, middle + (self._rule.limits["ratio"] - 1) * abs(middle))
        self._median, self._limit = middle, max(limit, self._least(middle, self._level))
        self._rule.judged()

    def _piece(self, chunk: Chunk) -> None:
        for index, change in self._gate.run(chunk.values > self._limit):
            if change == "close":
                self._rule.close(At.row(chunk, index))
                continue
            value = float(chunk.values[index])
            self._rule.open(
                At.row(chunk, index, self._first),
                f"{self._what} rose to {number(value)}; the median of the last {self._size} points is "
                f"{number(self._median)}",
                {"value": value, "median": self._median, "limit": self._limit},
            )
        self._ring.push(np.minimum(chunk.values, self._limit))
        self._steps.push(chunk.steps.astype(np.float64))
