"""Edges of buckets: as many as were asked for, or not much fewer, and exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.store.grid import place, real_grid, whole_grid

SIZES = st.integers(min_value=20, max_value=4000)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), SIZES)
def test_a_grid_of_real_numbers_loses_hardly_more_than_a_fifth(begin, length, buckets):
    grid = real_grid(begin, begin + length, buckets)
    widths = np.diff(grid.starts)
    assert len(grid.starts) <= buckets
    if length > 1e-3 * abs(begin):  # else numbers lie too far apart
        assert len(grid.starts) >= 0.79 * buckets - 1
        assert np.allclose(widths, widths[1], rtol=1e-6)
        assert np.allclose(grid.middles[1:-1] - grid.starts[1:-1], widths[1] / 2, rtol=1e-6)
    assert grid.starts[0] <= begin
    assert begin + length <= grid.top


@given(st.integers(-(10**9), 10**9), st.integers(10**5, 10**9), SIZES)
def test_a_grid_of_steps_loses_hardly_more_than_a_fifth(begin, length, buckets):
    grid = whole_grid(begin, begin + length, buckets)
    [width] = set(np.diff(grid.starts).tolist())
    assert 0.78 * buckets - 1 <= len(grid.starts) <= buckets
    assert (grid.starts % width == 0).all()
    assert grid.starts[0] <= begin < grid.starts[1]
    assert grid.starts[-1] <= begin + length <= grid.top == grid.starts[-1] + width - 1
    assert (grid.middles - grid.starts == (width - 1) / 2).all()


@pytest.mark.parametrize(("steps", "buckets", "starts"), [(9, 10, 10), (9, 5, 5), (10, 5, 4), (0, 3, 1)])
def test_a_few_steps_have_buckets_of_whole_steps(steps, buckets, starts):
    assert len(whole_grid(0, steps, buckets).starts) == starts


def test_a_single_bucket_holds_everything():
    assert whole_grid(-3, 4, 1).spans(np.array([-3, 0, 4]))[1].tolist() == [3]
    grid = real_grid(-0.3, 0.5, 1)
    assert grid.spans(np.array([-0.3, 0.5]))[1].tolist() == [2]
    assert grid.middles[0] == pytest.approx(0.1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("at", [-1e12, -0.5, 0, 2.5, 3, 1e12])
def test_a_place_is_how_many_lie_before(dtype, at):
    x = np.array([0, 1, 3, 3, 7], dtype)
    assert place(x, at, "left") == sum(x < at)
    assert place(x, at, "right") == sum(x <= at)


def test_spans_are_those_of_any_column():
    grid = whole_grid(0, 2**40, 7)
    x = np.array([0, 5, 2**31 - 1], np.int32)
    assert [each.tolist() for each in grid.spans(x)] == [
        each.tolist() for each in grid.spans(x.astype(np.int64))
    ]
