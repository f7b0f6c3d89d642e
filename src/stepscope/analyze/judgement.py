"""Two sides of runs compared by one metric: how much they differ, and whether that is more than chance.

The page, ``stepscope ask``, agents and ``stepscope check`` all ask here, so that none denies what another
says.

Both sides are read at the same steps, the last half of those that they share, so that a loss that falls on
both is not a spread. Between groups of runs the means of the runs must differ beyond chance by Welch's test
(1947); a single run beside several is taken to be spread as they are. Other programs only make steps longer,
so of their times the undisturbed ones count, by the lower quarters of the runs where there are enough.

Between two single runs one must lie above the other at every place. A test that takes their steps for
independent would not do: by ranks, 39 % of 600 pairs of runs of one program are called different, by this
rule none (``tests/data/step_times``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analyze.rank_test import LEAST_RATIO, LEVEL, lower_mean, lower_quarter_test
from stepscope.analyze.regression import lacking_runs, undisturbed
from stepscope.text import counted

LEAST_PLACES = 8
"""Of eight places all lie on one side by chance in less than 1 % of cases."""
MOST_PLACES = 16
"""Places at which two single runs are compared: of more, noise alone would let the curves cross."""
ALIKE = 5e-4
"""A difference of a smaller part is none: half of the last of four digits."""
Floats = NDArray[np.float64]
Verdict = Literal["better", "worse", "changed", "same", "noise", "unknown"]
"""Of B: ``changed`` if neither end is better, ``noise`` within chance, ``unknown`` of too few values."""
Chance = Literal["runs", "steps", "seeds"]
BEYOND: tuple[Verdict, ...] = ("better", "worse", "changed")


class Curve(NamedTuple):
    """The points of a metric of one run, by step."""

    step: NDArray[np.int64]
    value: Floats


@dataclass(frozen=True, slots=True)
class SideValues:
    """One side of a judgement.

    Attributes:
        mean: Over its runs; None if no value is finite.
        spread: The sample's standard deviation of its runs; None with fewer than two.
        count: Runs that are compared.
        bad: Runs that end without a finite value.
    """

    mean: float | None
    spread: float | None
    count: int
    bad: int


WORDS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "changed": "",
    "same": "the same",
    "unknown": "too few values to tell",
}
NOISE: dict[Chance, str] = {
    "runs": "within the runs' spread",
    "steps": "within the steps' noise",
    "seeds": "may be chance between seeds",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The one verdict on a metric.

    Attributes:
        difference: B - A; None if a side has no finite value, or ends without one alone.
        ratio: The difference as a part of A's size; None if that is 0.
        low: Of two single runs the least B - A, of groups the lower end of its interval at 95 %.
        high: The largest, or the upper end; None, as ``low``, if it is unknown.
        window: The value that is compared, and the steps that it is of; empty if they share none.
        chance: What the difference does not exceed, or was compared with; None if that is unknown.
        word: The verdict as people read it; empty for ``changed``.
        why: The reason for the verdict.
    """

    a: SideValues
    b: SideValues
    difference: float | None
    ratio: float | None
    low: float | None
    high: float | None
    window: str
    verdict: Verdict
    chance: Chance | None
    word: str
    why: str

    @property
    def leads(self) -> bool:
        """Whether the difference is worth a sentence: beyond chance, and not small."""
        small = self.ratio is not None and abs(self.ratio) < LEAST_RATIO
        return self.verdict in BEYOND and (self.loses or not small)

    @property
    def loses(self) -> bool:
        """Whether only one side has runs that end without a finite value."""
        return bool(self.a.bad) != bool(self.b.bad)

    def told(self, verdict: Verdict, chance: Chance | None, why: str) -> Judgement:
        """Return the same figures with a verdict."""
        word = NOISE[chance or "runs"] if verdict == "noise" else WORDS[verdict]
        return replace(self, verdict=verdict, chance=chance, word=word, why=why)

    def by_seeds(self) -> Judgement:
        """Return the verdict on one seed a side of one configuration: how they learn differs by chance."""
        if self.verdict not in BEYOND or self.chance != "steps":
            return self
        return self.told("noise", "seeds", "both sides are one configuration with other seeds")


def judge(
    a: Sequence[Curve],
    b: Sequence[Curve],
    *,
    lower: bool | None,
    times: bool = False,
    disturbed: bool = False,
) -> Judgement | None:
    """Compare a metric over the last half of the steps that two sides share; None if a side has no value.

    Runs that end early, as those that crash do, are left out where that keeps more points of the others.

    Args:
        a: A curve of each run that has the metric, by ascending steps.
        b: Likewise.
        lower: Whether less is better; None: neither end is.
        times: Whether it is how long steps take, of which the undisturbed ones count between groups.
        disturbed: Whether other programs make the values worse, and never better.
    """
    sides = [[one for one in side if len(one.step)] for side in (a, b)]
    if not all(sides):
        return None
    bad = [sum(not math.isfinite(one.value[-1]) for one in side) for side in sides]
    # Runs that are lost are counted, and have no part in the figures if others are left.
    known = [
        [
            one
            for one in map(_finite, [one for one in side if math.isfinite(one.value[-1])] or side)
            if len(one.step)
        ]
        for side in sides
    ]
    if not all(known):
        return judge_runs(*([float(one.value[-1]) for one in side] for side in known), bad=bad, lower=lower)
    window = _window(known)
    if window is None:
        newest = [[float(one.value[-1]) for one in side] for side in known]
        return _with_lost(_figures(newest, bad).told("unknown", None, "they share no steps"), lower)
    kept = [[one for one in side if one.step[-1] >= window.end] for side in known]
    tables = [[_at(one, window.places) for one in side] for side in kept]
    if max(map(len, kept)) == 1:
        judged = _by_places(tables[0][0], tables[1][0], bad, window.text(), lower)
    else:
        values = [[_value(row, times) for row in table] for table in tables]
        judged = judge_runs(*values, bad=bad, window=window.text(times), lower=lower, disturbed=disturbed)
    left = sum(map(len, known)) - sum(map(len, kept))
    if left:
        judged = replace(
            judged, why=f"{judged.why}; {counted(left, 'run')} that ended before step {window.end:,} left out"
        )
    return judged


def judge_runs(
    a: Sequence[float],
    b: Sequence[float],
    *,
    bad: Sequence[int] = (0, 0),
    window: str = "",
    lower: bool | None,
    disturbed: bool = False,
) -> Judgement:
    """Compare one finite value for each run.

    Args:
        a: Of the runs of A; empty only if runs are ``bad``.
        b: Likewise.
        bad: Runs of each side that end without a finite value.
        window: The value that it is.
        lower: Whether less is better; None: neither end is.
        disturbed: Whether other programs make the values worse, and never better.
    """
    judged = _figures((a, b), bad, window)
    counts = f"chance between {len(a):,} and {counted(len(b), 'run')}"
    if disturbed and lower is not None and a and b and not lacking_runs(len(a), len(b)):
        sign = 1.0 if lower else -1.0
        sides = [sign * np.array(side, np.float64) for side in (a, b)]
        best = [[sign * float(lower_mean(side))] for side in sides]
        quarters = _figures(best, bad, f"{window}, best quarter of the runs")
        judged = replace(quarters, a=replace(judged.a, mean=best[0][0]), b=replace(judged.b, mean=best[1][0]))
        p_value = 2 * min(lower_quarter_test(*pair).p_value for pair in (sides, sides[::-1]))
        test, apart = "a permutation test of the best quarters", p_value < LEVEL
    else:
        test, margin = "Welch's test", welch_margin(a, b)
        if judged.difference is None or margin is None:
            few = judged.told("unknown", None, "one run per side, so chance is not known")
            return _with_lost(_alike(judged) or few, lower)
        judged = replace(judged, low=judged.difference - margin, high=judged.difference + margin)
        apart = abs(judged.difference or 0.0) > margin
    verdict, how = (_beyond(judged, lower), "more than") if apart else ("noise", "within")
    told = judged.told(verdict, "runs", f"{how} {counts} ({test} at 5 %)")
    return _with_lost(_alike(judged) or told, lower)


def last_half(curve: Curve, *, times: bool = False) -> tuple[float, tuple[int, int]]:
    """Return the value of a run by itself, and the ends of its steps.

    Args:
        curve: Not empty.
        times: Whether it is how long steps take.
    """
    value = shared_half([curve], times=times)[0][0]
    assert value is not None
    return value, (int(curve.step[0]), int(curve.step[-1]))


def shared_half(
    curves: Sequence[Curve | None], *, times: bool = False
) -> tuple[list[float | None], Window | None]:
    """Return the value of each run over the last half of the steps that most of them share.

    Args:
        curves: Of each run; None or empty: it has no value.
        times: Whether it is how long steps take.

    Returns:
        The values, NaN of runs that end without a finite one and None of those that end before the others,
        and what they are; None: no run has a finite value, or they share no steps.
    """
    ends = {at: one for at, one in enumerate(curves) if one is not None and len(one.step)}
    known = {at: _finite(one) for at, one in ends.items() if math.isfinite(one.value[-1])}
    window = _window([list(known.values())]) if known else None
    values: list[float | None] = [math.nan if at in ends else None for at in range(len(curves))]
    for at, one in known.items():
        inside = window is not None and one.step[-1] >= window.end
        values[at] = _value(_at(one, window.places), times) if window is not None and inside else None
    return values, window


def welch_margin(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return how far two means must be apart so that it is no chance between runs, at 5 % on both sides.

    A single run beside several is taken to be spread as they are. None: of two single runs nothing tells.
    """
    sizes = len(a), len(b)
    if min(sizes) < 1 or max(sizes) < 2:
        return None
    variances = [float(np.var(side, ddof=1)) if len(side) > 1 else None for side in (a, b)]
    parts = [
        (own if own is not None else other or 0.0) / size
        for own, other, size in zip(variances, variances[::-1], sizes, strict=True)
    ]
    if not sum(parts):
        return 0.0
    if min(sizes) == 1:
        free = float(max(sizes) - 1)
    else:
        free = sum(parts) ** 2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    return student_quantile(free) * math.sqrt(sum(parts))


def student_quantile(free: float) -> float:
    """Return the size beyond which 5 % of Student's distribution lie on both sides.

    The integral is taken over the angle whose tangent is t / √free, by trapezia: correct to 1e-3.

    Args:
        free: Degrees of freedom, at least 1.
    """
    angle = np.linspace(0.0, np.pi / 2, 4001)
    weight = np.cos(angle) ** (free - 1)
    area = np.concatenate(([0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)))
    return math.tan(float(np.interp((1 - LEVEL) * area[-1], area, angle))) * math.sqrt(free)


def _by_places(a: Floats, b: Floats, bad: Sequence[int], window: str, lower: bool | None) -> Judgement:
    """Compare two single runs by their values at the same steps."""
    chosen = np.unique(np.linspace(0, len(a) - 1, min(MOST_PLACES, len(a))).astype(int))
    gap = (b - a)[chosen]
    judged = _figures(([float(a.mean())], [float(b.mean())]), bad, window)
    judged = replace(judged, low=float(gap.min()), high=float(gap.max()))
    if len(gap) < LEAST_PLACES:
        told = judged.told("unknown", None, f"only {counted(len(gap), 'shared point')}")
    elif not ((gap > 0).all() or (gap < 0).all()):
        told = judged.told("noise", "steps", "the curves cross")
    else:
        side = "above" if gap[0] > 0 else "below"
        why = f"B {side} A at all {len(gap)} places compared; one run per side, so other seeds may differ"
        told = judged.told(_beyond(judged, lower), "steps", why)
    return _with_lost(_alike(judged) or told, lower)


def _figures(values: Sequence[Sequence[float]], bad: Sequence[int], window: str = "") -> Judgement:
    """Return what is compared, without a verdict."""
    a, b = (
        SideValues(
            float(np.mean(side)) if side else None,
            float(np.std(side, ddof=1)) if len(side) > 1 else None,
            len(side),
            lost,
        )
        for side, lost in zip(values, bad, strict=True)
    )
    difference = None if a.mean is None or b.mean is None else b.mean - a.mean
    ratio = difference / abs(a.mean) if difference is not None and a.mean else None
    return Judgement(a, b, difference, ratio, None, None, window, "unknown", None, WORDS["unknown"], "")


def _alike(judged: Judgement) -> Judgement | None:
    """Return the verdict that both sides are the same to the digits that are shown; None: they are not."""
    a, b, difference = judged.a.mean, judged.b.mean, judged.difference
    if a is None or b is None or difference is None or abs(difference) > ALIKE * max(abs(a), abs(b)):
        return None
    return judged.told("same", None, "less than 0.05 %" if difference else "the values are equal")


def _beyond(judged: Judgement, lower: bool | None) -> Verdict:
    if lower is None:
        return "changed"
    return "better" if ((judged.difference or 0.0) < 0) == lower else "worse"


def _with_lost(judged: Judgement, lower: bool | None) -> Judgement:
    """Return the verdict where only one side has runs that end without a finite value: they are lost."""
    if not judged.loses:
        return judged
    verdict: Verdict = "better" if judged.a.bad else "worse"
    name, side = ("A", judged.a) if judged.a.bad else ("B", judged.b)
    end = f"{counted(side.bad, 'run')} of {name} {'ends' if side.bad == 1 else 'end'} without a finite value"
    why = f"{end}, and none of {'B' if name == 'A' else 'A'} does"
    judged = replace(judged, difference=None, ratio=None, low=None, high=None)
    return judged.told("changed" if lower is None else verdict, "runs", why)


def _finite(curve: Curve) -> Curve:
    """Return the finite values, the newest of each step."""
    good = np.isfinite(curve.value)
    step, value = (curve.step, curve.value) if good.all() else (curve.step[good], curve.value[good])
    newest = np.append(step[1:] != step[:-1], True)[: len(step)]
    return Curve(step, value) if newest.all() else Curve(step[newest], value[newest])


class Window(NamedTuple):
    """The steps at which runs are read.

    Attributes:
        places: Those of the sparsest curve: between its points lies a line, which is no further evidence.
        end: The last one; runs that end before it are left out.
    """

    places: NDArray[np.int64]
    end: int

    def text(self, times: bool = False) -> str:
        """Return the value that is read, and the steps that it is of."""
        first, last = f"{int(self.places[0]):,}", f"{int(self.places[-1]):,}"
        steps = f"step {last}" if first == last else f"steps {first}\N{EN DASH}{last}"
        return f"{'undisturbed' if times else 'mean of'} {steps}"


def _window(sides: Sequence[Sequence[Curve]]) -> Window | None:
    """Return the last half of the steps that the runs of all sides share; None: they share none."""
    end = min(_end([int(one.step[-1]) for one in side]) for side in sides)
    kept = [one for side in sides for one in side if one.step[-1] >= end]
    begin = max(int(one.step[0]) for one in kept)
    if end < begin:
        return None
    middle = begin + (end - begin) / 2
    places = min((one.step[(one.step >= middle) & (one.step <= end)] for one in kept), key=len)
    return Window(places if len(places) else np.array([end]), end)


def _value(values: Floats, times: bool) -> float:
    return undisturbed(values) if times else float(values.mean())


def _end(lasts: Sequence[int]) -> int:
    """Return the step up to which runs have most points together: those that end before it are left out."""
    ends = sorted(lasts)
    return max(((len(ends) - before) * (end + 1), end) for before, end in enumerate(ends))[1]


def _at(curve: Curve, places: NDArray[np.int64]) -> Floats:
    begin = int(np.searchsorted(curve.step, places[0]))
    own = slice(begin, begin + len(places))
    if np.array_equal(curve.step[own], places):
        return curve.value[own]
    return np.interp(places, curve.step, curve.value)
