"""The one verdict on two sides of runs: at the same steps, and no claim beyond what they show."""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepscope.analyze.judgement import Curve, Judgement, judge, judge_runs, last_half, welch_margin

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import check

STEPS = np.arange(0, 320, 10)


def curve(value: Callable[[int], float], steps: np.ndarray = STEPS) -> Curve:
    return Curve(np.asarray(steps), np.array([value(int(step)) for step in steps], float))


def level(value: float) -> Curve:
    return curve(lambda _: value)


def noisy(mean: float, by: float) -> Curve:
    return curve(lambda step: mean + (by if step % 20 else -by))


def verdict(a: list[Curve], b: list[Curve], *, lower: bool | None = True) -> Judgement:
    found = judge(a, b, lower=lower)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("a", "b", "lower", "word"),
    [
        ([level(2)], [level(1)], True, "better"),
        ([level(2)], [level(1)], False, "worse"),
        ([level(2)], [level(1)], None, ""),
        ([level(1)], [level(1.0004)], True, "the same"),
        ([noisy(1.02, 0.1)], [noisy(1, 0.2)], True, "within the steps' noise"),
        ([curve(lambda step: 2 / (1 + step))], [curve(lambda step: 1 / (1 + step))], True, "better"),
        ([level(1), level(1.1), level(0.9)], [level(3), level(3.1), level(2.9)], True, "worse"),
        ([level(10), level(20)], [level(16), level(22)], True, "within the runs' spread"),
        ([level(1), level(1.2), level(0.8)], [level(1.3)], True, "within the runs' spread"),
        ([level(1), level(1.2), level(0.8)], [level(2)], True, "worse"),
        ([curve(lambda _: 1, np.array([0, 10]))], [level(9)], True, "too few values to tell"),
        (
            [curve(lambda _: 1, np.arange(5))],
            [curve(lambda _: 3, np.arange(9, 20))],
            True,
            "too few values to tell",
        ),
    ],
)
def test_the_verdict(a: list[Curve], b: list[Curve], lower: bool | None, word: str) -> None:
    assert verdict(a, b, lower=lower).word == word


def test_it_says_at_which_steps_and_how_it_is_known() -> None:
    one = verdict([noisy(12, 1)], [noisy(36, 2)])
    assert one.window == "mean of steps 160\N{EN DASH}310"
    assert one.why == "B above A at all 16 places compared; one run per side, so other seeds may differ"
    assert (one.low, one.high) == (23.0, 25.0)
    few = verdict([curve(lambda _: 1, np.array([0, 10]))], [level(9)])
    assert few.window == "mean of step 10"
    assert few.why == "only 1 shared point"
    assert verdict([curve(lambda _: 1, np.arange(5))], [curve(lambda _: 3, np.arange(9, 20))]).window == ""


def test_a_side_without_a_value_is_not_judged() -> None:
    assert judge([], [level(1)], lower=True) is None
    assert judge([curve(lambda _: 1, np.array([], int))], [level(1)], lower=True) is None


def test_a_side_that_alone_ends_without_a_finite_value_loses() -> None:
    falls = curve(lambda step: 1 / (step + 1))
    diverges = curve(lambda step: 1 if step < 100 else math.nan)
    recovers = curve(lambda step: math.nan if step == 100 else 1)
    for a, b, word in ((falls, diverges, "worse"), (diverges, falls, "better")):
        one = verdict([a], [b])
        assert (one.word, one.loses, one.leads) == (word, True, True)
        assert (one.difference, one.ratio, one.low) == (None, None, None), "what is left says nothing"
        assert one.why.startswith(f"1 run of {'B' if word == 'worse' else 'A'} ends without a finite value")
    for a, b in (([diverges], [diverges]), ([falls], [recovers])):
        assert not verdict(a, b).loses
    of_three = verdict([level(1), level(1.1)], [level(1), level(1.1), diverges])
    assert (of_three.word, of_three.b.count, of_three.b.bad) == ("worse", 2, 1)


def test_runs_that_end_early_are_left_out_where_that_keeps_more_points() -> None:
    short = curve(lambda _: 5, np.arange(0, 20, 10))
    one = verdict([level(1), level(1.1), short], [level(2), level(2.1), level(1.9)])
    assert (one.a.count, one.word) == (2, "worse")
    assert one.why.endswith("; 1 run that ended before step 310 left out")
    nearly = curve(lambda _: 1.1, np.arange(0, 300, 10))
    assert verdict([level(1), nearly], [level(2), level(2.1)]).a.count == 2


def test_a_run_by_itself_has_the_value_with_which_it_is_compared() -> None:
    a, b = curve(lambda step: step), curve(lambda step: 2 * step)
    one = verdict([a], [b])
    assert (one.a.mean, one.b.mean) == (last_half(a)[0], last_half(b)[0])
    assert last_half(a)[1] == (0, 310)
    assert math.isnan(last_half(curve(lambda _: math.nan))[0])


@pytest.mark.parametrize(("size", "apart"), [(3, False), (10, True)])
def test_three_seeds_that_differ_by_two_standard_errors_are_not_told_apart(size: int, apart: bool) -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=size)
    values = (values - values.mean()) / values.std(ddof=1) * math.sqrt(size / 2)
    margin = welch_margin(list(values), list(values + 2.2))
    assert margin is not None
    assert (margin < 2.2) is apart
    assert welch_margin([1.0], [2.0]) is None
    assert welch_margin([1.0, 1.0], [2.0, 2.0]) == 0.0


def test_disturbed_values_are_judged_by_the_best_quarter_of_the_runs() -> None:
    a, b = [10.0, 10.1, 10.2, 30.0, 10.3], [11.0, 11.1, 11.2, 11.3, 40.0]
    judged = judge_runs(a, b, lower=True, disturbed=True)
    assert judged.verdict == "worse"
    assert (judged.a.mean, judged.b.mean) == (pytest.approx(10.05), pytest.approx(11.05))
    assert judge_runs(a, b, lower=True).verdict == "noise"
    rates = [[1e3 / value for value in side] for side in (a, b)]
    assert judge_runs(*rates, lower=False, disturbed=True).verdict == "worse"


def test_two_runs_of_one_program_are_seldom_called_different() -> None:
    """A test that took their steps for independent would call 39 % so."""
    times = check.recorded()[:20].reshape(-1, 20, 80)
    steps = np.arange(80)
    pairs = [(program[at], program[at + 1]) for program in times for at in range(0, 20, 4)]
    verdicts = [verdict([Curve(steps, a)], [Curve(steps, b)]).verdict for a, b in pairs]
    assert sum(one in ("better", "worse") for one in verdicts) <= len(pairs) // 100
