import numpy as np
import pytest

from stepscope.store.derive import across
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.query import Axis, buckets
from stepscope.store.series import Series


def line(step, value, *, writer="w", attempt=1, superseded=None):
    step = np.asarray(step)
    columns = SeriesColumns(step, 1e9 + step.astype(float), np.asarray(value, np.float32))
    return Series("run", "tag", writer, attempt, None, superseded, 1e9, SeriesPoints(columns))


def test_a_point_lies_where_the_other_tag_was():
    placed = across(line(range(7), range(7)), [line([1, 3, 5], [10, 30, 70])])
    np.testing.assert_array_equal(placed.x, [np.nan, 10, 20, 30, 50, 70, np.nan])
    assert (placed.interpolated, placed.missing, placed.ascending) == (2, 2, False)


def test_points_at_the_same_steps_are_exact():
    placed = across(line(range(5), range(5)), [line(range(5), [0, 1, 4, 9, 16])])
    assert (placed.x.tolist(), placed.interpolated, placed.missing) == ([0, 1, 4, 9, 16], 0, 0)
    assert placed.ascending


def test_without_the_tag_no_point_has_a_place():
    series = line(range(3), range(3))
    placed = across(series, [])
    assert (placed.missing, placed.interpolated) == (3, 0)
    view = buckets([series], x="tag", axes=[Axis(placed.x, placed.ascending)])
    assert (view.total_points, view.x0) == (0, None)


def test_the_own_attempt_counts_and_else_another_writer():
    first, second = line([0, 1], [0, 10]), line([0, 1], [0, 99], attempt=2)
    assert across(line([0, 1], [5, 6], attempt=2), [first, second]).x.tolist() == [0, 99]
    assert across(line([0, 1], [5, 6], writer="eval"), [first]).x.tolist() == [0, 10]


def test_values_that_are_not_finite_place_nothing():
    placed = across(line(range(3), range(3)), [line(range(3), [0, np.nan, 2])])
    assert placed.x.tolist() == [0, 1, 2]
    assert placed.interpolated == 1


@pytest.mark.parametrize("count", [50, 5000])
def test_a_chart_over_another_tag_holds_every_point(count):
    loss = line(range(count), np.arange(count) % 7)
    placed = across(loss, [line(range(count), np.arange(count) * 100.0)])
    view = buckets([loss], x="tag", axes=[Axis(placed.x, placed.ascending)], buckets=100)
    assert (view.x0, view.x1) == (0, 100.0 * (count - 1))
    assert view.total_points == count
    if view.mode == "buckets":
        assert view.lines[0].columns["count"].sum() == count
