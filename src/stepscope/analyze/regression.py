"""A test that the runs of one side are worse than those of another; its units are runs.

Steps of a run depend on each other, and so does all that a machine does meanwhile: of two starts of one
program on a busy machine, one is slower at almost every step. A test of steps would believe that. A run is
therefore one value, and the values of the runs are compared by :mod:`~stepscope.analyze.rank_test`. With
five runs against five the least p is 0.4 %, so a regression can be found; with fewer it cannot.

Other programs only ever make a step longer. The value of a run's step times is therefore a low quantile,
the time of a step that nothing disturbed, and sides are compared by the quarter of their runs that was
disturbed least. What slows down some steps only is seen by their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscope.analyze.rank_test import (
    LEAST_RATIO,
    SAME_RATIO,
    Floats,
    lower_mean,
    lower_quarter_test,
    rank_test,
)
from stepscope.text import counted, share

ALARM = 0.01
"""Chance that runs of one program are called a regression; the figure that the tests hold."""
UNDISTURBED = 2
"""Percentile of the step times of a run: the time of an undisturbed step."""
Verdict = Literal["worse", "not worse", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Regression:
    """The comparison of the values of runs.

    Attributes:
        verdict: ``not worse`` if a regression of 3 % would have been seen, or there is none at all.
        a: Median of the runs before; of disturbed values the mean of the best quarter.
        b: Likewise after.
        change_ratio: How much worse B is, as a part of A; negative if it is better.
        high_ratio: Below which it lies with 95 %; None if there are too few runs for a bound.
        p_value: How often equal sides would differ as clearly in this direction; None without a test.
        missing: What a verdict would take; empty if there is one.
    """

    verdict: Verdict
    a: float
    b: float
    change_ratio: float
    high_ratio: float | None
    p_value: float | None
    missing: str


def undisturbed(values: Floats) -> float:
    """Return the time of a run's step that nothing disturbed."""
    return float(np.percentile(values, UNDISTURBED))


def regression(
    a: Sequence[float],
    b: Sequence[float],
    *,
    larger_is_worse: bool = True,
    disturbed: bool = False,
    bounded: bool = True,
) -> Regression:
    """Compare the values of runs; neither side may be empty.

    Args:
        a: Before.
        b: After.
        larger_is_worse: Which end is worse.
        disturbed: Whether other programs make values worse and never better, as they do with times.
        bounded: Whether a bound is wanted, which takes a dozen tests. Without it the verdict on disturbed
            values is ``worse`` in the same cases, and else ``cannot tell``.
    """
    sign = 1.0 if larger_is_worse else -1.0
    before, after = (sign * np.array(side, np.float64) for side in (a, b))
    middle = lower_mean if disturbed else np.median
    middle_a, middle_b = (float(middle(side)) for side in (before, after))
    shown_a, shown_b = sign * middle_a, sign * middle_b
    whole = abs(middle_a) or 1.0
    if before.min() == before.max() == after.min() == after.max():
        return Regression("not worse", shown_a, shown_b, 0.0, 0.0, None, "")
    if lacking := lacking_runs(len(before), len(after)):
        change = (middle_b - middle_a) / whole
        return Regression("cannot tell", shown_a, shown_b, change, None, None, lacking)
    if disturbed:
        change, high, p_value = _by_lower_quarters(before, after, least=LEAST_RATIO * whole, bounded=bounded)
    else:
        change, high, p_value = _by_ranks(before, after)
    change, high = change / whole, None if high is None else high / whole
    verdict: Verdict = "cannot tell"
    if p_value <= ALARM and change > LEAST_RATIO:
        verdict = "worse"
    elif high is not None and high <= SAME_RATIO:
        verdict = "not worse"
    missing = ""
    if verdict == "cannot tell":
        bound = "" if high is None else f": {share(high)} worse is possible"
        missing = f"more runs of each side, or a quieter machine{bound}"
    return Regression(verdict, shown_a, shown_b, change, high, p_value, missing)


def _by_lower_quarters(
    a: Floats, b: Floats, *, least: float, bounded: bool
) -> tuple[float, float | None, float]:
    test = lower_quarter_test(a, b, bound_above=ALARM if bounded else 1.0)
    if (
        bounded and test.high is None and test.shift <= least
    ):  # certain, and too small: only the bound can tell
        test = lower_quarter_test(a, b)
    return test.shift, test.high, test.p_value


def _by_ranks(a: Floats, b: Floats) -> tuple[float, float | None, float]:
    test = rank_test(a, b)
    longer = test.effect > 0 and b.mean() > a.mean()
    p_value = test.p_value / 2 if longer else 1 - test.p_value / 2
    return test.shift, None if test.inner is None else test.inner[1], p_value


def lacking_runs(a: int, b: int) -> str:
    """Return how many runs a test lacks to find anything at :data:`ALARM`; empty if there are enough."""
    if _least_p(a, b) <= ALARM:
        return ""
    more = next((count for count in range(b + 1, 2 * a + 5) if _least_p(a, count) <= ALARM), None)
    if more is not None:
        return f"{counted(more - b, 'more run')} of the candidate ({a} and {b} runs cannot show a regression)"
    enough = next(count for count in range(1, 100) if _least_p(count, count) <= ALARM)
    return f"{enough} runs of each side ({a} and {b} runs cannot show a regression)"


def _least_p(a: int, b: int) -> float:
    return 1 / math.comb(a + b, b)
