from itertools import combinations

import numpy as np
import pytest

from stepscope.analyze.rank_test import EXACT, doubled_ranks, rank_test


def by_hand(a, b):
    """Count all choices of which steps are B's."""
    sums = [sum(chosen) for chosen in combinations([*a, *b], len(b))]
    tails = sum(one >= sum(b) - 1e-9 for one in sums), sum(one <= sum(b) + 1e-9 for one in sums)
    return min(1, 2 * min(tails) / len(sums))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1, 2, 3], [4, 5, 6]),
        ([1, 2, 3, 4], [5, 6, 7, 8]),
        ([1, 1, 2, 2], [2, 2, 3, 3, 3]),
        ([5, 5, 5], [5, 5, 5]),
        ([176.1, 174.0, 176.9, 181.3, 176.5, 164.3], [181.6, 123.9, 126.8, 126.3, 163.5, 116.1]),
    ],
)
def test_the_probability_is_counted_out(a, b):
    assert rank_test(np.array(a, float), np.array(b, float)).p_value == pytest.approx(by_hand(a, b))


def test_ranks_are_counted_out_where_there_are_too_many_divisions():
    scipy = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(4)
    a, b = random.normal(0, 1, 12), random.normal(0.5, 1, 14)
    expected = scipy.mannwhitneyu(a, b, method="exact").pvalue
    assert rank_test(a, b).p_value == pytest.approx(expected)
    assert doubled_ranks(np.array([3.0, 1, 3, 2])).tolist() == [7, 2, 7, 4]


def test_input_that_became_faster_but_for_its_first_step():
    """Steps of resnet50 without and with workers that load: the first one of B still waits for them."""
    a = np.array([176.1, 174.0, 176.9, 181.3, 176.5, 164.3])
    b = np.array([181.6, 123.9, 126.8, 126.3, 163.5, 116.1])
    found = rank_test(a, b)
    assert found.p_value < 0.05
    assert found.shift == pytest.approx(-49, abs=2)


@pytest.mark.parametrize("sizes", [(4, 4), (6, 6), (5, 7), (9, 4)])
def test_nothing_lies_outside_the_interval_but_where_a_difference_is_believed(sizes):
    random = np.random.default_rng(6)
    believed = 0
    for _ in range(200):
        a = random.lognormal(0, 0.5, sizes[0])
        b = random.lognormal(0.4, 0.5, sizes[1])
        found = rank_test(a, b)
        assert (found.p_value <= 0.05) == (not found.interval[0] <= 0 <= found.interval[1])
        believed += found.p_value <= 0.05
    assert 0 < believed < 200


def test_the_interval_is_of_all_differences_that_the_test_does_not_refuse():
    a = np.array([176.1, 174.0, 176.9, 181.3, 176.5, 164.3])
    b = np.array([181.6, 123.9, 126.8, 126.3, 163.5, 116.1])
    low, high = rank_test(a, b).interval
    for at, refused in ((low - 0.01, True), (low + 0.01, False), (high - 0.01, False), (high + 0.01, True)):
        assert (rank_test(a, b - at).p_value <= 0.05) is refused
    assert high < 0


def test_three_against_three_are_never_certain():
    found = rank_test(np.array([1.0, 2, 3]), np.array([10.0, 20, 30]))
    assert (found.p_value, found.effect) == (pytest.approx(0.1), 1)
    assert found.interval is None
    assert found.inner == (7, 29)


def test_the_shift_and_its_interval():
    a = np.arange(10.0)
    found = rank_test(a, a + 100)
    assert found.shift == 100
    assert found.interval is not None
    assert found.interval[0] < 100 < found.interval[1]
    assert found.p_value < 1e-4


@pytest.mark.parametrize("steps", [4, 6, 10, EXACT // 2 + 5])
def test_the_interval_covers_the_truth_as_often_as_it_says(steps):
    random = np.random.default_rng(3)
    inside = small = 0
    for _ in range(400):
        a, b = random.lognormal(0, 0.5, steps), random.lognormal(0, 0.5, steps)
        found = rank_test(a, b)
        small += found.p_value <= 0.05
        inside += found.interval[0] <= 0 <= found.interval[1]
    assert small <= 0.075 * 400
    assert inside >= 0.925 * 400


def test_many_steps_are_compared_without_all_pairs():
    random = np.random.default_rng(5)
    a, b = random.normal(100, 5, 20_000), random.normal(101, 5, 20_000)
    found = rank_test(a, b)
    assert found.p_value < 1e-9
    assert found.shift == pytest.approx(1, abs=0.2)
