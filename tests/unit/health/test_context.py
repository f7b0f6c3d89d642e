"""What rules ask of a run: whether its loss fell, which rates it had, and what kind it is."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.context import Context, History, largest
from stepscope.health.restarts import Beginning, Restarts
from stepscope.health.series import stream_of


def chunk(tag, values, walls=None, steps=None):
    """Points of a series, one a second from 0 on."""
    values = np.asarray(values, float)
    rows = np.arange(len(values))
    return Chunk(
        stream_of(tag),
        rows if steps is None else np.asarray(steps),
        values,
        np.asarray(rows if walls is None else walls, float),
    )


def context(*chunks):
    known = Context()
    for each in chunks:
        known.take(StreamBatch([each]))
    return known


def history(values, portion=None):
    found, every = History(), chunk("train/loss", values)
    size = portion or max(len(values), 1)
    for begin in range(0, len(values), size):
        found.take(every.part(slice(begin, begin + size)))
    return found


@pytest.mark.parametrize("portion", [None, 1, 5, 8, 11])
def test_a_history_keeps_means_of_eight_finite_values(portion):
    values = np.where(np.arange(50) == 3, np.nan, np.arange(50.0))
    found = history(values, portion)
    finite = np.delete(values, 3)
    assert found.means == [float(finite[at : at + 8].mean()) for at in range(0, 41, 8)]
    assert found.walls == finite[7::8].tolist()
    assert (found.first, found.count) == (0.0, 49)


@pytest.mark.parametrize("portion", [None, 1000])
def test_blocks_of_a_long_history_grow_and_stay_means(portion):
    found = history(np.full(30_000, 2.5), portion)
    assert set(found.means) == {2.5}
    assert 1024 < len(found.means) < 2500
    assert not found.improves(-inf, inf)
    assert not found.improves(-inf, inf, falls=False)


def blocks(*means):
    """A history of blocks that end at seconds 0.5, 1.5 …, each of one mean."""
    return History([number + 0.5 for number in range(len(means))], list(means))


@pytest.mark.parametrize(
    ("means", "since", "falls"),
    [
        ([10, 5, 5], 1, True),  # a single block before is enough
        ([10, 5], 1, False),  # two after are needed
        ([10, 9.89, 9.89], 1, True),  # one percent
        ([10, 9.9, 9.9], 1, False),
        ([10, 10, 10, 12, 12], 3, False),
        ([10, 5, 5, 5], -inf, True),  # of the first quarter
        ([10, 10, 5, 5], 0, True),  # nothing before: of the first two after
        ([10, 5], 0, False),
        ([0, *[10] * 8, 9, 9], 9, True),  # of the eight before
        ([10, *[20] * 8, *[5] * 8], 1, True),  # the last eight count
        ([10, 10, 10, 5, 5], 5, False),  # nothing after it
    ],
)
def test_a_series_improves_by_more_than_a_hundredth(means, since, falls):
    assert blocks(*means).improves(since, inf) == falls
    assert blocks(*[-mean for mean in means]).improves(since, inf, falls=False) == falls


def test_noise_is_no_improvement():
    """Means before and after must differ by three standard errors."""
    before, after = [10.0, 12.0] * 4, [9.0, 11.0] * 4
    error = np.hypot(*[np.std(each, ddof=1) / np.sqrt(8) for each in (before, after)])
    assert 1 < 3 * error < 2
    assert not blocks(*before, *after).improves(8, inf)
    assert blocks(*before, *[value - 1 for value in after]).improves(8, inf)


@pytest.mark.parametrize(("before", "after"), [([8.0, 12.0] * 4, [8.5] * 8), ([10.0] * 8, [6.5, 10.5] * 4)])
def test_noise_on_either_side_counts(before, after):
    assert not blocks(*before, *after).improves(8, inf)
    assert blocks(*[10.0] * 8, *[8.5] * 8).improves(8, inf)


def test_what_came_later_does_not_count():
    found = blocks(10, 10, 10, 10, 5, 5, 5, 5)
    assert found.improves(4, inf)
    assert found.improves(4, 5.6)
    assert not found.improves(4, 5.5)


def test_rates_are_those_before_a_time():
    known = context(chunk("lr/a", [1.0, 1.0, 4.0, 2.0]), chunk("lr/b", [3.0, 3.0, 3.0, 3.0]))
    assert [known.rate("", wall) for wall in (0, 0.5, 2, 2.5, 9)] == [None, 3, 3, 4, 3]
    assert [known.largest_rate("", wall) for wall in (0, 0.5, 2, 2.5, 9)] == [None, 3, 3, 4, 4]
    assert known.rate("another", 9) is None
    assert known.largest_rate("another", 9) is None


def test_a_rate_changes_by_more_than_a_hundredth():
    assert not context(chunk("lr", [100.0, 101.0, 99.0])).rescheduled("", 0, 9)
    known = context(chunk("lr", [100.0, 100.0, 101.1, 101.1]))
    assert [known.rescheduled("", *span) for span in ((0, 2), (0, 2.5), (2, 3), (2.5, 9))] == [
        False,
        True,
        True,
        False,
    ]
    assert not known.rescheduled("another", 0, 9)


@pytest.mark.parametrize(
    ("tag", "before", "after", "holds"),
    [
        ("eval/loss", [1.0, 1.0], [1.019, 1.019], True),  # worse by no more than 2 %
        ("eval/loss", [1.0, 1.0], [1.021, 1.021], False),
        ("eval/loss", [1.0, 1.2], [1.3, 1.3], True),  # or than they differed before
        ("eval/loss", [1.0], [1.0, 1.0], False),  # too few tell nothing
        ("eval/loss", [1.0, 1.0], [1.0], False),
        ("eval/accuracy", [0.9, 0.9], [0.89, 0.89], True),
        ("eval/accuracy", [0.9, 0.9], [0.8, 0.8], False),
        ("eval/accuracy", [0.8, 0.8], [0.9, 0.9], True),
        ("eval/error_rate", [0.1, 0.1], [0.2, 0.2], False),
    ],
)
def test_evaluations_hold_if_they_are_as_good_as_before(tag, before, after, holds):
    assert context(chunk(tag, [*before, *after])).holds(len(before) - 0.5, 99) == holds


def test_metrics_decide_where_there_are_any():
    worse = chunk("eval/loss", [1.0, 1.0, 2.0, 2.0])
    known = context(worse, chunk("eval/accuracy", [0.9, 0.9, 0.9, 0.9]))
    assert known.holds(1.5, 99)
    known = context(chunk("eval/loss", [1.0] * 4), chunk("eval/accuracy", [0.9, 0.9, 0.5, 0.5]))
    assert not known.holds(1.5, 99)
    assert not context(chunk("eval/loss", [1.0] * 4), worse).holds(1.5, 99)


def test_a_metric_or_an_evaluation_gains():
    falling, rising = np.linspace(2, 1, 800), np.linspace(0.1, 0.9, 800)
    assert context(chunk("eval/loss", falling)).gains(999)
    assert not context(chunk("train/loss", falling)).gains(999)
    assert context(chunk("train/accuracy", rising)).gains(999)
    assert not context(chunk("train/accuracy", rising[::-1])).gains(999)
    assert context(chunk("train/error_rate", rising[::-1])).gains(999)
    assert not context(chunk("train/accuracy", rising)).gains(20)


def test_the_main_loss_is_that_of_the_training():
    falling = np.linspace(2, 1, 800)
    known = context(chunk("train/loss", falling))
    assert known.trains("", 1)
    assert not known.trains("", 0)
    assert known.learns("", -inf, 999)
    assert not known.rises("", -inf, 999)
    known = context(chunk("eval/loss", falling[::-1]))
    assert not known.trains("", 999)
    assert not known.rises("", -inf, 999)


@pytest.mark.parametrize(
    ("tag", "lower"),
    [("eval/mae", True), ("wer", True), ("accuracy", False), ("f1", False), ("top1_error", True)],
)
def test_errors_are_better_the_lower_they_are(tag, lower):
    assert stream_of(tag).lower_is_better == lower


def starts(values, steps, *settings):
    """When a loss starts over, of points one a second."""
    known = Context()
    loss = chunk("train/loss", values, steps=steps)
    for each in settings:
        known.take(StreamBatch([each]))
    known.take(StreamBatch([loss]))
    return [index for index, _ in known.restarts.cuts(loss.stream)]


def test_a_series_starts_over_with_its_steps_and_values():
    fold = np.linspace(2, 1, 10)
    steps = [*range(10)] * 3
    assert starts([*fold] * 3, steps) == [10, 20]
    assert starts([*fold, *[0.9] * 10, *[0.8] * 10], steps) == []  # goes on where it was
    assert starts([*fold] * 3, range(30)) == []
    assert starts([*fold[3:], *fold], [*range(7), *range(10)]) == []  # fewer than eight points


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ([1.0, 1.0, 2.0, 2.0], [20]),
        ([0.5, 0.5, 0.7, 0.7], []),  # it changed after so few points that it is none
        ([1.0, np.nan, 1.0, 1.0], [20]),
    ],
)
def test_a_series_starts_over_where_a_setting_changes(setting, found):
    values = chunk("curriculum/stage", setting, walls=[0, 10, 20, 30])
    assert starts(np.linspace(2, 1, 40), range(40), values) == found


def test_a_setting_of_any_numbers_stays_ten_points_on_average():
    often = chunk("curriculum/level", np.arange(40) / 7 + 0.05)
    assert starts(np.linspace(2, 1, 40), range(40), often) == []
    seldom = chunk("curriculum/level", np.repeat([0.1, 0.2, 0.3], 12))
    assert starts(np.linspace(2, 1, 40), range(40), seldom) == [12, 24]


def test_sixteen_changes_of_an_integer_need_no_points_in_between():
    each_point = chunk("curriculum/level", np.arange(40.0))
    assert starts(np.linspace(2, 1, 40), range(40), each_point) == [*range(1, 17)]


def test_a_series_that_never_moved_does_not_begin_again():
    constant = Beginning(0, 0)
    constant.take(np.ones(100))
    assert not constant.is_again(1.0)


@pytest.mark.parametrize("cut", [None, 62])
def test_a_part_of_a_loss_comes_in_against_points_of_the_same_beginning(cut):
    # Steps begin again at 60; at 64 another part of the loss comes in, which adds too little to count.
    loss = chunk(
        "train/loss",
        [*[2.0] * 4, *[1.0] * 56, *[2.0] * 4, *[2.3] * 8],
        steps=[*range(60), *range(12)],
    )
    part = chunk("loss_d", [0.3], [64])
    restarts, cuts, done = Restarts(), [], 0
    for end in (cut, len(loss)) if cut else (len(loss),):
        rows = loss.part(slice(done, end))
        parts = [part] if end == len(loss) else []
        restarts.take(StreamBatch([rows, *parts]))
        cuts += [(done + index, again) for index, again in restarts.cuts(loss.stream)]
        done = end
    assert cuts == [(60, True)]


def test_a_rate_that_is_no_number_hides_no_other():
    for values in ([np.nan, 0.1], [0.1, np.nan], [None, 0.1]):
        assert largest(values) == 0.1
    assert largest([]) is None
    assert np.isnan(largest([np.nan]))
