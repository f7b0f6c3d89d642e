"""Queries by example; tests/property holds them against looking at every point."""

import numpy as np
import pytest

from stepscope.errors import UsageError
from stepscope.store import pyramid
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.query import buckets
from stepscope.store.series import Series

START = 1.7e9


def line(step, value=None, wall=None, superseded=None):
    step = np.asarray(step)
    value = np.asarray(step if value is None else value, np.float32)
    wall = START + np.arange(len(step)) if wall is None else np.asarray(wall, float)
    return Series(
        "run", "tag", "w", 1, None, superseded, START, SeriesPoints(SeriesColumns(step, wall, value))
    )


def test_few_points_are_sent_as_they_are():
    view = buckets([line([3, 1, 2, 2], [30, 10, 20, 21])], buckets=4)
    assert (view.mode, view.x, view.x0, view.x1) == ("raw", None, 1.0, 3.0)
    assert (view.total_points, view.shown_points) == (4, 4)
    assert view.lines[0].columns["x"].tolist() == [1, 2, 2, 3]
    assert view.lines[0].columns["value"].tolist() == [10, 20, 21, 30]
    assert view.lines[0].columns["x"].dtype == np.float64
    assert "smoothed" not in view.lines[0].columns


def test_a_zoomed_line_reaches_the_edges_of_the_plot():
    view = buckets([line(range(0, 100, 10)), line([0, 99])], x0=35, x1=52, buckets=10)
    assert [each.columns["x"].tolist() for each in view.lines] == [[30, 40, 50, 60], [0, 99]]
    assert [each.points for each in view.lines] == [2, 0]
    assert (view.x0, view.x1, view.total_points) == (35, 52, 2)


def test_many_points_are_bucketed():
    values = np.arange(1000.0)
    values[500] = 9e9
    values[501] = -9e9
    values[10:12] = np.nan, np.inf
    view = buckets([line(range(1000), values)], buckets=100)
    columns = view.lines[0].columns
    assert view.mode == "buckets"
    assert len(view.x) == len(columns["min"]) == 100
    assert view.x[:2].tolist() == [4.5, 14.5]
    assert (columns["min"][50], columns["max"][50]) == (-9e9, np.float32(9e9))
    assert (columns["first"][1], columns["last"][1]) == (12, 19)
    assert (columns["count"][1], columns["nonfinite"][1]) == (10, 2)
    assert (view.lines[0].points, view.lines[0].nonfinite) == (1000, 2)
    assert (view.total_points, view.shown_points) == (1000, 400)
    assert {name: column.dtype.str[1:] for name, column in columns.items()} == {
        "first": "f4",
        "min": "f4",
        "max": "f4",
        "last": "f4",
        "count": "u4",
        "nonfinite": "u4",
    }


def test_all_lines_have_the_same_edges():
    view = buckets([line(range(1000)), line(range(500, 600)), line([5000])], buckets=50)
    assert {len(column) for each in view.lines for column in each.columns.values()} == {len(view.x)}
    assert [each.points for each in view.lines] == [1000, 100, 1]
    assert np.isnan(view.lines[2].columns["last"][:-1]).all()
    assert view.lines[2].columns["last"][-1] == 5000


def test_edges_stay_where_they_are_while_a_run_grows():
    """What is drawn does not shimmer: equal buckets as long as the width is."""
    before = buckets([line(range(9000))], buckets=600)
    after = buckets([line(range(9500))], buckets=600)
    size = len(before.x) - 1
    assert after.x[:size].tolist() == before.x[:size].tolist()
    for name, column in before.lines[0].columns.items():
        np.testing.assert_array_equal(after.lines[0].columns[name][:size], column[:size])


def test_lines_with_too_many_different_steps_are_bucketed():
    """Whoever draws raw lines joins them on one x: a row for every step of any line."""
    apart = [line(np.arange(100) * 100 + number) for number in range(20)]
    together = [line(np.arange(100) * 100) for _ in range(20)]
    assert buckets(apart, buckets=100).mode == "buckets"
    assert buckets(together, buckets=100).mode == "raw"


def test_wall_time_and_relative_time():
    series = line(range(1000), wall=START + 5 + np.arange(1000) / 4)
    wall = buckets([series], x="wall", buckets=100)
    relative = buckets([series], x="relative", buckets=100)
    assert (wall.x0, wall.x1) == (START + 5, START + 5 + 999 / 4)
    assert (relative.x0, relative.x1) == (5, 5 + 999 / 4)
    assert wall.lines[0].columns["count"].sum() == relative.lines[0].columns["count"].sum() == 1000


@pytest.mark.parametrize(("x", "expected"), [("step", 60.0), ("wall", START + 6), ("relative", 6.0)])
def test_where_a_later_attempt_took_over(x, expected):
    assert buckets([line(range(0, 100, 10), superseded=60)], x=x).lines[0].superseded_from == expected


def test_no_points_at_all():
    nothing = buckets([], buckets=10)
    assert (nothing.mode, nothing.x0, nothing.total_points, nothing.lines) == ("raw", None, 0, [])
    [empty] = buckets([line([1, 2], wall=[np.nan, np.nan])], x="wall", smoothing=0.5).lines
    assert {name: len(column) for name, column in empty.columns.items()} == {
        "x": 0,
        "value": 0,
        "smoothed": 0,
    }


def test_a_range_without_points_shows_the_neighbours():
    view = buckets([line([0, 100])], x0=40, x1=60)
    assert (view.total_points, view.lines[0].columns["x"].tolist()) == (0, [0, 100])


def test_one_x_only():
    view = buckets([line([7] * 100, range(100))], buckets=10)
    assert (view.mode, view.x.tolist(), view.x0, view.x1) == ("buckets", [7], 7, 7)
    columns = view.lines[0].columns
    assert [columns[name][0] for name in ("first", "min", "max", "last", "count")] == [0, 0, 99, 99, 100]


def test_steps_beyond_the_exact_range_of_floats():
    base = 2**60
    view = buckets([line([base + step for step in range(300)], range(300))], buckets=100)
    assert view.lines[0].columns["count"].tolist() == [3] * 100 or view.total_points == 300
    assert int(view.lines[0].columns["count"].sum()) == 300
    edge = buckets([line([-(2**63), 2**63 - 1] * 10)], buckets=5)
    assert int(edge.lines[0].columns["count"].sum()) == 20


def test_unsorted_steps_are_taken_in_recorded_order():
    step = np.array([5, 900, 3, 4, 901] * 100)
    columns = buckets([line(step, range(500))], buckets=10, x0=0, x1=999).lines[0].columns
    assert (columns["first"][0], columns["last"][0]) == (0, 498)
    assert (columns["first"][-1], columns["last"][-1]) == (1, 499) or columns["count"][-1] == 0
    assert int(columns["count"].sum()) == 500


def test_smoothing_runs_over_the_whole_series_before_the_range():
    series = line(range(2000), np.sin(np.arange(2000) / 30))
    whole = buckets([series], buckets=4000, smoothing=0.9).lines[0].columns
    part = buckets([series], x0=1000, x1=1009, buckets=20, smoothing=0.9).lines[0].columns
    assert part["smoothed"].tolist() == whole["smoothed"][999:1011].tolist()
    reduced = buckets([series], buckets=100, smoothing=0.9)
    last = (reduced.x + (reduced.x[1] - reduced.x[0]) / 2).astype(int).clip(max=1999)
    np.testing.assert_array_equal(reduced.lines[0].columns["smoothed"], whole["smoothed"][last])


def test_big_series_are_read_through_the_pyramid(monkeypatch):
    random = np.random.default_rng(0)
    value = random.normal(size=pyramid.BIG * 3).astype(np.float32)
    value[random.random(len(value)) < 0.001] = np.nan
    series = line(np.arange(len(value)), value)
    used = []
    real = pyramid.reduce
    monkeypatch.setattr(pyramid, "reduce", lambda *arguments: used.append(True) or real(*arguments))
    far = buckets([series], buckets=100).lines[0]
    assert used
    monkeypatch.setattr(pyramid, "BIG", 1 << 40)
    used.clear()
    plain = buckets([series], buckets=100).lines[0]
    assert not used
    assert (far.points, far.nonfinite) == (plain.points, plain.nonfinite)
    for name, column in plain.columns.items():
        np.testing.assert_array_equal(far.columns[name], column)


@pytest.mark.parametrize(
    "options", [{"buckets": 0}, {"smoothing": 1.0}, {"smoothing": -0.1}, {"x0": np.nan}, {"x1": np.inf}]
)
def test_questions_that_make_no_sense(options):
    with pytest.raises(UsageError, match="hint:"):
        buckets([line([1, 2])], **options)


def test_a_range_upside_down_is_turned():
    view = buckets([line(range(10))], x0=8, x1=2)
    assert (view.x0, view.x1, view.total_points) == (2, 8, 7)
