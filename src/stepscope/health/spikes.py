"""Values far above those just before them: the measure shared by loss spikes and gradient spikes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.gate import AlarmGate
from stepscope.health.noise import Floats, tail_limit, trailing_median
from stepscope.health.ring import Ring, Steps, median, pieces
from stepscope.health.rule import At, Rule, StreamWatch, finite
from stepscope.text import number

EVERY = 32
"""Points after which the limits are computed again."""
LOCAL = 8
"""Number of points before a value with whose median it is compared: few, so that a trend does not count."""
FEWEST = 32
"""Comparisons before the first limit."""
REPEATED = 4
"""Single spikes at equal distances that are no chance."""
UNEQUAL = 0.02
"""Share by which these distances may differ."""
FAR = 3.0
"""Multiple of the points before it that such a spike has to reach."""
LEAP = 3.0
"""Factor over the largest of the three previous points that makes a leap."""


REPEATED_ACTION = (
    "look at what these steps have in common: a shard or a batch that comes again with each epoch, the last "
    "and smallest batch of an epoch, a step that also evaluates or saves; if it is a task of its own, record "
    "its loss separately"
)


class _Distances(NamedTuple):
    """Points against the median of those before them: one row each.

    Attributes:
        values: The points, after the ``LOCAL`` before them.
        factors: Logarithm of their ratio; infinite if that makes no sense.
        may: Whether they are far enough apart to be a spike if the limits say so.
    """

    values: Floats
    middle: Floats
    apart: Floats
    factors: Floats
    may: NDArray[np.bool_]


class Spikes(StreamWatch):
    """Opens at a value far above the points just before it, compared with earlier such distances.

    The distance of each point to the median of the 8 before it is compared with the tail of the last 128 such
    distances, in values and in logarithms: usual values of the series are no spike, trend or heavy tail.
    A distance counts at most as the limit that it passed, so that one spike does not blind the rule to the
    next (as ZClip does, arXiv 2504.02507).

    Args:
        rule: Whose findings these are; it has thresholds ``ratio``, ``window`` and ``calm``.
        gate: When to open and close.
        least: Turns the first values into the smallest distance that makes sense.
        what: The series in words.
        leaps: Whether the value must also be far above the three before it.
        repeats: Whether to report single values that do not open the gate but come again at equal distances.
    """

    def __init__(
        self,
        rule: Rule,
        gate: AlarmGate,
        least: Callable[[float], float],
        what: str,
        *,
        leaps: bool = False,
        repeats: bool = False,
    ) -> None:
        self._rule, self._gate, self._least, self._what, self._leaps = rule, gate, least, what, leaps
        self._before, self._steps = Ring(LOCAL), Steps(LOCAL)
        self._apart, self._factors = Ring(rule.limit("window")), Ring(rule.limit("window"))
        self._limit = self._factor = inf
        self._level: float | None = None
        self._repeats = repeats
        self._singles: list[tuple[int, int]] = []
        """Numbers and steps of the newest single spikes."""
        self._period = 0

    def take(self, chunk: Chunk) -> None:
        """Judge points; those that are not finite belong to another rule."""
        chunk = finite(chunk)
        if self._before.count < LOCAL:
            begin = min(LOCAL - self._before.count, len(chunk))
            self._push(chunk.part(slice(begin)))
            chunk = chunk.part(slice(begin, None))
        if not len(chunk):
            return
        distances = self._distances(chunk)
        for rows in pieces(self._apart.count, len(chunk), EVERY):
            if self._apart.count >= FEWEST and self._apart.count % EVERY == 0:
                self._measure(distances.values[rows.start : rows.start + LOCAL])
            self._piece(chunk, distances, rows)
        self._push(chunk.part(slice(-LOCAL, None)))

    def _distances(self, chunk: Chunk) -> _Distances:
        """Compare each point with those just before it."""
        values = np.concatenate([self._before.values, chunk.values])
        middle = trailing_median(values, LOCAL)
        factors = np.log(chunk.values / middle)
        factors[~((chunk.values > 0) & (middle > 0))] = inf
        apart = chunk.values - middle
        may = apart > (self._rule.limits["ratio"] - 1) * np.abs(middle)
        if self._leaps:
            recent = np.lib.stride_tricks.sliding_window_view(values[-len(chunk) - 3 : -1], 3).max(axis=1)
            may &= (chunk.values > LEAP * recent) & (middle > 0)  # where most are 0 nothing is a multiple
        return _Distances(values, middle, apart, factors, may)

    def _push(self, chunk: Chunk) -> None:
        self._before.push(chunk.values)
        self._steps.push(chunk.steps)

    def _measure(self, before: Floats) -> None:
        """Set the limits for the next points, given those just before them."""
        if self._level is None:
            self._level = abs(median(before))
        self._limit = max(tail_limit(np.abs(self._apart.values)), self._least(self._level))
        known = self._factors.values
        # Upward only: in logarithms the dips of a small loss reach further than what rises above its noise.
        self._factor = tail_limit(np.maximum(known, 0.0)) if len(known) >= FEWEST else inf
        self._rule.judged()

    def _piece(self, chunk: Chunk, distances: _Distances, rows: slice) -> None:
        apart, factors = distances.apart[rows], distances.factors[rows]
        known = factors < inf
        bad = distances.may[rows] & (apart > self._limit) & (~known | (factors > self._factor))
        for index, change in self._gate.run(bad, chunk.steps[rows]):
            at = rows.start + index
            if change == "close":
                self._rule.close(At.row(chunk, at))
            else:
                self._tell(chunk, at, float(distances.middle[at]))
        if self._repeats and (self._period or bad.any()):
            values = chunk.values[rows]
            far = bad & (values > FAR * distances.middle[rows])
            self._repeat(chunk, rows.start, far, distances)
        self._apart.push(np.minimum(apart, self._limit))
        self._factors.push(np.minimum(factors[known], self._factor))

    def _repeat(self, chunk: Chunk, begin: int, far: NDArray[np.bool_], distances: _Distances) -> None:
        """Look for single spikes at equal distances, as of a bad shard that comes again with each epoch."""
        count = self._apart.count
        # One after the other: a spike puts off the end of the period, but only if it comes before that end.
        for index in [*np.flatnonzero(far).tolist(), len(far)]:
            over = self._singles[-1][0] + 2 * self._period - count if self._period else len(far)
            if over <= index and over < len(far):
                self._rule.close(At.row(chunk, begin + max(over, 0)), about="repeated")
                self._period = 0
            if index == len(far):
                break
            at = begin + index
            self._singles = [*self._singles, (count + index, int(chunk.steps[at]))][-REPEATED:]
            between = np.diff([place for place, _ in self._singles])
            apart = float(between.mean()) if len(between) else 0.0
            equal = len(between) == REPEATED - 1 and np.ptp(between) <= max(1.0, UNEQUAL * apart)
            if self._period or not equal or apart < 2 * LOCAL:
                continue
            self._period = round(apart)
            self._tell_repeated(chunk, at, float(distances.middle[at]))

    def _tell_repeated(self, chunk: Chunk, index: int, middle: float) -> None:
        value, steps = float(chunk.values[index]), [step for _, step in self._singles]
        every = round((max(steps) - min(steps)) / (REPEATED - 1))
        self._rule.open(
            At.row(chunk, index, min(steps)),
            f"single points of {self._what} rise far above the others every {every:,} steps, at last to "
            f"{number(value)}; the median of the {LOCAL} points before is {number(middle)}",
            {"value": value, "median": middle, "every_n_steps": every},
            severity="low",
            about="repeated",
            since_step=min(steps),
            action=REPEATED_ACTION,
        )

    def _tell(self, chunk: Chunk, index: int, middle: float) -> None:
        value, now = float(chunk.values[index]), int(chunk.steps[index])
        steps = [*self._steps.values.tolist(), *chunk.steps[:index].tolist()]
        usual = f"the median of the {LOCAL} points before is {number(middle)}"
        self._rule.open(
            At.row(chunk, index, int(min(steps[-LOCAL:]))),
            f"{self._what} rose to {number(value)}; {usual}",
            {"value": value, "median": middle, "limit": middle + self._limit},
            since_step=min(self._gate.since, now),
        )
