"""Means of groups against the same computed point by point."""

import numpy as np
import pytest

from stepscope.store.groups import grouped
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.query import axis_of
from stepscope.store.series import Series


def line(run, step, value, *, attempt=1, superseded=None):
    step = np.asarray(step)
    columns = SeriesColumns(step, 1e9 + step.astype(float), np.asarray(value, np.float32))
    return Series(run, "loss", "w", attempt, None, superseded, 1e9, SeriesPoints(columns))


def means(series, names=None, *, band="std", buckets=100, smoothing=0.0, x0=None, x1=None, kind="step"):
    axes = [axis_of(each, kind) for each in series]
    return grouped(
        series, axes, names or ["g"] * len(series), kind=kind, x0=x0, x1=x1, buckets=buckets,
        weights=[smoothing] * len(series), band=band,
    )  # fmt: skip


def test_equal_steps_are_exact():
    found = means([line("a", [0, 1, 2], [1, 2, 3]), line("b", [0, 1, 2], [3, 4, 8])])
    [group] = found.groups
    assert found.view.x.tolist() == [0, 1, 2]
    assert group.line.columns["mean"].tolist() == [2, 3, 5.5]
    spread = np.std([[1, 2, 3], [3, 4, 8]], axis=0, ddof=1)
    np.testing.assert_allclose(group.line.columns["low"], np.subtract([2, 3, 5.5], spread))
    np.testing.assert_allclose(group.line.columns["high"], np.add([2, 3, 5.5], spread))
    assert group.line.columns["count"].tolist() == [2, 2, 2]
    assert (group.members, group.filled, group.line.points) == (2, 0, 6)


def test_the_standard_error_and_the_range():
    lines = [line(name, [0], [value]) for name, value in (("a", 1), ("b", 2), ("c", 6))]
    [error] = means(lines, band="stderr").groups
    assert error.line.columns["high"][0] == pytest.approx(3 + np.std([1, 2, 6], ddof=1) / np.sqrt(3))
    [extremes] = means(lines, band="minmax").groups
    assert (extremes.line.columns["low"][0], extremes.line.columns["high"][0]) == (1, 6)


def test_other_steps_are_interpolated_within_a_run_and_counted():
    found = means([line("a", [0, 10, 20], [0, 10, 20]), line("b", [5, 15], [0, 0])])
    [group] = found.groups
    assert found.view.x.tolist() == [0, 5, 10, 15, 20]
    assert group.line.columns["mean"].tolist() == [0, 2.5, 5, 7.5, 20]
    assert group.line.columns["count"].tolist() == [1, 2, 2, 2, 1]
    assert group.filled == 3


def test_a_run_of_one_has_no_spread():
    [group] = means([line("a", [0, 1], [1, 2])]).groups
    assert group.line.columns["low"].tolist() == group.line.columns["high"].tolist() == [1, 2]


def test_each_group_has_its_line_on_common_x():
    found = means([line("a", [0, 1], [1, 1]), line("b", [0, 1], [3, 3])], ["x", "y"])
    assert [(each.group, each.line.columns["mean"].tolist()) for each in found.groups] == [
        ("x", [1, 1]),
        ("y", [3, 3]),
    ]


def test_many_points_count_with_the_mean_of_their_bucket():
    values = np.random.default_rng(7).normal(size=(3, 4000)).astype(np.float32)
    found = means([line(str(at), range(4000), row) for at, row in enumerate(values)], buckets=50)
    [group] = found.groups
    starts = np.searchsorted(np.arange(4000), found.view.x - (found.view.x[1] - found.view.x[0]) / 2)
    own = np.add.reduceat(values.astype(float), starts, axis=1) / np.diff(np.append(starts, 4000))
    np.testing.assert_allclose(group.line.columns["mean"], own.mean(axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        group.line.columns["high"], own.mean(axis=0) + own.std(axis=0, ddof=1), rtol=1e-6, atol=1e-9
    )
    [extremes] = means(
        [line(str(at), range(4000), row) for at, row in enumerate(values)], buckets=50, band="minmax"
    ).groups
    np.testing.assert_array_equal(
        extremes.line.columns["high"], np.maximum.reduceat(values.max(axis=0), starts)
    )


def test_what_is_not_finite_or_was_gone_over_again_is_left_out():
    lines = [
        line("a", [0, 1, 2, 3], [1, 1, 9, 9], superseded=2),
        line("a", [2, 3], [3, 3], attempt=2),
        line("b", [0, 1, 2, 3], [1, np.nan, np.inf, 5]),
    ]
    [group] = means(lines).groups
    assert group.members == 2
    assert group.line.nonfinite == 2
    assert group.line.columns["mean"].tolist() == pytest.approx([1, (1 + 7 / 3) / 2, (3 + 11 / 3) / 2, 4])


def test_a_range_without_points_is_empty():
    found = means([line("a", [0, 1], [1, 2])], x0=50, x1=60)
    assert found.groups[0].line.points == 0
    assert found.groups[0].members == 1


def test_smoothing_is_taken_before_the_mean():
    lines = [line("a", range(20), np.arange(20) % 3), line("b", range(20), np.arange(20) % 5)]
    [group] = means(lines, smoothing=0.9).groups
    from stepscope.store.smooth import smoothed

    want = (smoothed(lines[0].points, 0.9) + smoothed(lines[1].points, 0.9)) / 2
    np.testing.assert_allclose(group.line.columns["mean"], want, rtol=1e-6)


def test_without_points_there_are_no_groups():
    found = means([])
    assert found.groups == []
    assert (found.view.x, found.view.total_points, found.view.shown_points, found.view.lines) == (
        None,
        0,
        0,
        [],
    )
