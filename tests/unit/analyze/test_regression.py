"""A regression is found in recorded pairs, and none in pairs of one program (``tests/data/step_times``)."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stepscope.analyze.rank_test import lower_mean, lower_quarter_test
from stepscope.analyze.regression import lacking_runs, regression

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import check

FOUND = 90


@pytest.mark.slow
def test_three_percent_are_found_and_nothing_in_one_program() -> None:
    slower, equal = check.pairs()
    verdicts = Counter(map(check.verdict, slower))
    assert (len(slower), len(equal)) == (100, 300)
    assert verdicts["worse"] >= FOUND
    assert verdicts["not worse"] <= 1
    assert sum(check.verdict(pair) == "worse" for pair in equal) <= len(equal) // 100


def test_a_threshold_of_five_percent_does_neither() -> None:
    slower, equal = check.pairs()
    assert sum(map(check.exceeds, slower)) < len(slower) // 2
    assert sum(map(check.exceeds, equal)) > len(equal) // 10


STEADY = [10.0, 10.04, 10.02, 10.01, 10.03]


@pytest.mark.parametrize(
    ("b", "options", "verdict"),
    [
        (STEADY, {}, "not worse"),
        ([1.03 * value for value in STEADY], {}, "worse"),
        ([1.03 * value for value in STEADY], {"disturbed": True}, "worse"),
        ([1.03 * value for value in STEADY], {"larger_is_worse": False}, "not worse"),
        ([0.97 * value for value in STEADY], {"larger_is_worse": False}, "worse"),
        ([1.005 * value for value in STEADY], {}, "not worse"),  # certain, and too small
        ([1.006 * value for value in STEADY], {"disturbed": True}, "not worse"),
        ([10.3, 10.3, 9.0, 11.0, 12.0], {}, "cannot tell"),
        ([10.0, 10.04, 10.02, 10.01, 40.0], {"disturbed": True}, "not worse"),  # another program ran
        ([10.0, 10.04, 10.02, 10.01, 40.0], {}, "cannot tell"),
        ([20.0], {}, "cannot tell"),
        ([10.0], {}, "cannot tell"),
    ],
)
def test_runs_are_compared(b, options, verdict) -> None:
    found = regression(STEADY, b, **options)
    assert found.verdict == verdict
    assert bool(found.missing) == (verdict == "cannot tell")


def test_runs_that_are_all_equal_need_no_test() -> None:
    assert regression([5.0], [5.0]).verdict == "not worse"
    assert regression([0.0], [0.0]).verdict == "not worse"


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (5, 5, ""),
        (4, 5, ""),
        (13, 2, ""),
        (1, 1, "5 runs of each side"),
        (3, 3, "4 more runs of the candidate"),
        (5, 1, "3 more runs of the candidate"),
        (20, 1, "1 more run of the candidate"),
    ],
)
def test_it_is_told_how_many_runs_are_missing(a, b, told) -> None:
    assert lacking_runs(a, b).startswith(told)
    assert bool(lacking_runs(a, b)) == bool(told)


@pytest.mark.slow
def test_the_test_of_lower_quarters_is_exact_for_few_and_bounded_for_many() -> None:
    random = np.random.default_rng(3)
    a, b = random.gamma(2, size=5), random.gamma(2, size=5) + 100
    assert lower_quarter_test(a, b).p_value == pytest.approx(1 / 252)
    assert lower_quarter_test(b, a).p_value == 1
    a, b = random.gamma(2, size=20), random.gamma(2, size=20) + 100
    found = lower_quarter_test(a, b)
    assert found.p_value == pytest.approx(1 / 4001)
    assert found.shift == pytest.approx(lower_mean(b) - lower_mean(a))
    assert found.high > found.shift
    below = np.mean(
        [
            lower_quarter_test(random.gamma(2, size=6), random.gamma(2, size=6)).p_value <= 0.05
            for _ in range(300)
        ]
    )
    assert below <= 0.07


@pytest.mark.slow
def test_the_bound_holds_the_true_shift_in_95_of_100() -> None:
    random = np.random.default_rng(4)
    pairs = [(random.gamma(2, size=8), random.gamma(2, size=8) + 1) for _ in range(100)]
    assert sum(lower_quarter_test(a, b).high >= 1 for a, b in pairs) >= 90


def test_without_a_bound_the_same_is_worse_with_the_same_p():
    random = np.random.default_rng(5)
    for shift in (0.0, 0.03, 0.2):
        a, b = random.normal(1, 0.05, 12), random.normal(1 + shift, 0.05, 12)
        whole, short = (regression(a, b, disturbed=True, bounded=each) for each in (True, False))
        assert (short.p_value, short.change_ratio) == (whole.p_value, whole.change_ratio)
        assert (short.verdict == "worse") == (whole.verdict == "worse")
