"""What rules keep of a series, against lists."""

import numpy as np
import pytest

from stepscope.health.ring import SORTED, Ring, median, pieces, spread, upper_median
from stepscope.health.rules.time import lower_quartile

PORTIONS = [(1,) * 30, (3, 3, 1, 23), (30,), (4, 4, 4, 4, 14), (7, 1, 8, 2, 12)]


@pytest.mark.parametrize("portions", PORTIONS)
def test_a_ring_holds_the_last_values(portions):
    ring, taken = Ring(4), []
    for size in portions:
        more = np.arange(len(taken), len(taken) + size, dtype=float)
        ring.push(more)
        taken += more.tolist()
        assert ring.values.tolist() == taken[-4:]
        assert ring.count == len(taken)


@pytest.mark.parametrize("count", [1, 2, 3, 4, SORTED - 1, SORTED, SORTED + 1, SORTED + 2, 999, 1000])
@pytest.mark.parametrize("put", [None, float("nan"), float("inf"), float("-inf")])
def test_a_median_is_that_of_numpy(count, put):
    values = np.random.default_rng(count).normal(size=count)
    if put is not None:
        values[count // 3] = put
    assert median(values) == pytest.approx(np.median(values), rel=0, abs=0, nan_ok=True)
    assert median((values * 100).tolist()) == pytest.approx(
        np.median(values * 100), rel=0, abs=0, nan_ok=True
    )


def test_there_is_no_median_of_nothing():
    assert np.isnan(median(np.empty(0)))


def test_upper_medians():
    assert upper_median(np.array([4.0, 1.0, 3.0, 2.0])) == 3.0
    assert upper_median(np.array([2.0, 9.0, 1.0])) == 2.0
    assert spread(np.array([1.0, 2.0, 3.0, 4.0, 9.0]), 3.0) == pytest.approx(1.4826)


@pytest.mark.parametrize("count", range(6))
def test_pieces_end_at_multiples_of_all_values(count):
    found = list(pieces(count, 12, 5))
    assert [at for piece in found for at in range(piece.start, piece.stop)] == list(range(12))
    assert [count + piece.stop for piece in found[:-1]] == [
        n for n in range(count + 1, count + 12) if n % 5 == 0
    ]


@pytest.mark.parametrize("size", [1, 2, 4, 5, 6, 7, 33])
def test_the_lower_quartile_is_that_of_numpy(size):
    values = np.random.default_rng(size).lognormal(size=size)
    assert lower_quartile(values) == np.quantile(values, 0.25)
    values[0] = np.nan
    assert np.isnan(lower_quartile(values))
