"""Derived series hold exactly what the expression says, at the steps that all its tags have."""

import numpy as np
import pytest
from support.errors import raises

from stepscope import store
from stepscope.errors import UnknownTagError, UsageError
from stepscope.events import EventWriter
from stepscope.expression import parse
from stepscope.health.conditions import ConditionFollower
from stepscope.store import derive as derive_module
from stepscope.store import evaluate as evaluate_module
from stepscope.store.derive import across, derive
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.query import Axis, buckets
from stepscope.store.series import Series


@pytest.fixture
def log(tmp_path):
    writer = EventWriter(tmp_path / "a")
    for step in range(100):
        writer.scalar("loss", 100.0 - step, step, 1000.0 + 2 * step)
        if step % 10 == 9:
            writer.scalar("eval/loss", 50.0, step, 1001.0 + 2 * step)
        if step % 10 == 5:
            writer.scalar("odd", float(step), step, 1000.0 + 2 * step)
        if step % 25 == 0:
            writer.scalar("tokens", 1000.0 * step, step, 1000.0 + 2 * step)
    for step in (3, 1, 2, 2):
        writer.scalar("unsorted", float(10 * step), step, 5000.0 + step)
    writer.close()
    writer = EventWriter(tmp_path / "b")
    writer.scalar("loss", 3.0, 1, 10.0)
    writer.close()
    writer = EventWriter(tmp_path / "b" / "eval")
    writer.scalar("loss", 1.0, 1, 11.0)
    writer.close()
    return store.open(tmp_path, cache=False)


def points(log, text, run="a"):
    [series] = derive(log.run(run), text).series
    return dict(zip(series.step.tolist(), series.value.tolist(), strict=True))


def test_a_difference_is_at_common_steps_only(log):
    assert points(log, "loss - eval/loss") == {step: 50.0 - step for step in range(9, 100, 10)}


def test_held_values_stand_until_the_next(log):
    found = points(log, "loss - hold(odd)")
    assert min(found) == 5
    assert found[5] == 95 - 5
    assert found[24] == 76 - 15
    assert len(found) == 95


def test_only_held_tags_are_at_the_steps_of_each(log):
    assert sorted(points(log, "hold(eval/loss) + hold(odd)")) == sorted(
        set(range(9, 100, 10)) | set(range(15, 100, 10))
    )


def test_no_common_step_is_said(log):
    derived = derive(log.run("a"), "odd - eval/loss")
    assert derived.series == []
    assert derived.note == "no step in common: odd at 5, 15, …; eval/loss at 9, 19, …"


def test_axes_and_walls(log):
    assert points(log, "loss + step")[30] == 100
    assert points(log, "loss * 0 + elapsed")[30] == 60
    [series] = derive(log.run("a"), "loss - eval/loss").series
    assert series.wall[0] == 1019.0, "the newer of both"


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("delta(loss)", 7, -1),
        ("rate(tokens)", 50, 1000),
        ("per_second(loss)", 50, -0.5),
        ("cumsum(loss * 0 + 1)", 99, 100),
        ("mean(loss, 3)", 10, 91),
        ("ema(loss, 1)", 10, 90),
        ("greatest(loss, 50, eval/loss)", 9, 91),
        ("max(loss, 3)", 10, 92),
        ("min(loss)", 99, 1),
        ("median(loss, 3)", 10, 91),
        ("std(loss, 3)", 10, 1),
        ("slope(loss, 4)", 10, -1),
        ("last(loss, 4)", 10, 94),
        ("count(eval/loss)", 99, 10),
        ("at(15, loss)", 99, 85),
        ("at(15, delta(loss, 2) * 2)", 15, -4),
        ("loss < 50", 50, 0),
        ("loss < 50 or loss == 100", 0, 1),
        ("sqrt(loss) ** 2", 0, 100),
        ("abs(-loss)", 1, 99),
        ("log(exp(tokens / 100000))", 50, 0.5),
    ],
)
def test_functions(log, text, at, value):
    assert points(log, text)[at] == pytest.approx(value)


def test_a_division_by_zero_is_no_finite_value(log):
    found = points(log, "(loss - 100) / (loss - 100)")
    assert np.isnan(found[0])
    assert found[1] == 1


def test_of_a_step_recorded_twice_the_newer_counts(log):
    assert points(log, "unsorted + 0") == {1: 10, 2: 20, 3: 30}


def test_tags_of_the_family_are_found(log):
    assert points(log, "loss - eval/loss", run="b") == {1: 2.0}


def test_a_tag_that_is_none_is_named(log):
    with pytest.raises(UnknownTagError, match="loss/2"):
        derive(log.run("a"), "loss/2")
    with raises(UnknownTagError, hint="for a division write loss / 2"):
        derive(log.run("a"), "loss/2")


def test_a_window_begins_with_its_last_point(log):
    assert min(points(log, "mean(loss, 3)")) == 2
    assert min(points(log, "delta(loss, 3)")) == 3
    assert derive(log.run("a"), "mean(eval/loss, 11)").series == []


def test_an_axis_alone_is_refused(log):
    with pytest.raises(UsageError) as caught:
        derive(log.run("a"), "step - 2 + loss * 0")
    assert caught.value.hint


def test_a_window_over_too_much_is_refused(log, monkeypatch):
    monkeypatch.setattr(evaluate_module, "MAX_WORK", 100)
    with pytest.raises(UsageError, match="too long"):
        derive(log.run("a"), "median(loss, 20)")


@pytest.mark.parametrize(
    "text",
    [
        *[
            f"{name}(loss, 4)"
            for name in ("ema", "mean", "median", "std", "min", "max", "slope", "delta", "last")
        ],
        *[f"{name}(loss)" for name in ("min", "max", "rate", "per_second", "cumsum", "count")],
        "mean(abs(loss - other), 3) + 2 ** -other",
        "at(30, loss) + at(33, other)",
        "least(loss, other, 3) * step + hold(other) + elapsed",
        "not (loss > 3 and other < 2) or loss == other",
        "log10(exp(loss)) / sqrt(other) - (-loss) ** 2",
    ],
)
def test_an_alert_and_a_chart_come_to_the_same(text, tmp_path):
    """At every step, of the same points, one of them not finite."""
    random = np.random.default_rng(0)
    loss, other = random.gamma(2, 2, 60), random.gamma(2, 2, 60)
    loss[20] = np.nan
    writer = EventWriter(tmp_path / "a")
    for step in range(60):
        writer.scalar("loss", loss[step], 3 * step, 1000.0 + step)
        writer.scalar("other", other[step], 3 * step, 1000.0 + step)
    writer.close()
    drawn = points(store.open(tmp_path, cache=False), text)
    follower, followed = ConditionFollower(parse(text)), {}
    for step in range(60):
        follower.see("loss", 3 * step, 1000.0 + step, np.float32(loss[step]))
        follower.see("other", 3 * step, 1000.0 + step, np.float32(other[step]))
        followed[3 * step] = follower.settle()
    finite = {step: value for step, value in drawn.items() if np.isfinite(value)}
    assert len(finite) > 45
    assert [followed[step] for step in finite] == pytest.approx(list(finite.values()), rel=1e-5)


def test_a_restart_is_two_series(tmp_path):
    for attempt, first in ((1, 0), (2, 5)):
        writer = EventWriter(tmp_path / "a", clock=lambda at=attempt: 1000.0 * at)
        for step in range(first, first + 10):
            writer.scalar("loss", float(attempt), step, 1000.0 * attempt + step)
            if step % 5 == 0:
                writer.scalar("val", 10.0 * attempt, step, 1000.0 * attempt + step)
        writer.close()
    found = derive(store.open(tmp_path, cache=False).run("a"), "loss + hold(val)").series
    series = [(each.attempt, each.superseded_from, each.step.tolist(), each.value.tolist()) for each in found]
    assert series[0] == (1, 5, list(range(10)), [11.0] * 10)
    assert series[1] == (2, None, list(range(5, 15)), [22.0] * 10)


def test_what_was_computed_is_kept_until_it_grows(log):
    assert derive(log.run("a"), "loss * 2") is derive(log.run("a"), "loss * 2")


def test_what_is_kept_is_bounded(log, monkeypatch):
    monkeypatch.setattr(derive_module._known, "limit", 1)
    first = derive(log.run("a"), "loss * 3")
    second = derive(log.run("a"), "loss * 4")
    assert derive(log.run("a"), "loss * 4") is second
    assert derive(log.run("a"), "loss * 3") is not first


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
