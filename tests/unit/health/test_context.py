"""What rules ask of a run: whether its loss fell, which rates it had, and what kind it is."""

from math import inf

import numpy as np
import pytest

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.behaviour import taken_for
from stepscope.health.context import Context
from stepscope.health.facts import Facts
from stepscope.health.looks import Row, RunFacts, improves, largest
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


class Asks(Row):
    """A row that asks for losses and metrics, and never sees anything."""

    roles = ("loss", "metric", "part_loss", "learning_rate")

    def see(self, known, run):
        return None


def run_of(*chunks):
    """The facts of series whose points came one after the other."""
    known = RunFacts([Asks()], Restarts(), taken_for)
    for each in chunks:
        known.take(StreamBatch([each]))
    return known


def blocks(*means, size=8):
    """The facts of blocks of points that end at seconds 0.5, 1.5 …, each of one mean."""
    facts, count = Facts(), len(means) * size
    walls = (np.arange(count) + 1) / size - 0.5
    facts.take(np.arange(count), np.repeat(np.array(means, float), size), walls)
    return facts


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
    for rare, size in ((False, 8), (True, 2)):
        found = blocks(*means, size=size)
        assert improves(found, since, rare=rare) == falls
        turned = blocks(*[-mean for mean in means], size=size)
        assert improves(turned, since, falls=False, rare=rare) == falls


def test_noise_is_no_improvement():
    """Means before and after must differ by three standard errors."""
    before, after = [10.0, 12.0] * 4, [9.0, 11.0] * 4
    error = np.hypot(*[np.std(each, ddof=1) / np.sqrt(8) for each in (before, after)])
    assert 1 < 3 * error < 2
    assert not improves(blocks(*before, *after), 8)
    assert improves(blocks(*before, *[value - 1 for value in after]), 8)


@pytest.mark.parametrize(("before", "after"), [([8.0, 12.0] * 4, [8.5] * 8), ([10.0] * 8, [6.5, 10.5] * 4)])
def test_noise_on_either_side_counts(before, after):
    assert not improves(blocks(*before, *after), 8)
    assert improves(blocks(*[10.0] * 8, *[8.5] * 8), 8)


def test_a_long_series_that_stays_the_same_does_not_improve():
    found = blocks(*[2.5] * 4000)
    assert not improves(found)
    assert not improves(found, falls=False)


def test_rates_are_those_before_a_time():
    known = run_of(chunk("lr/a", [1.0, 1.0, 4.0, 2.0]), chunk("lr/b", [3.0, 3.0, 3.0, 3.0]))
    assert [known.rate("", wall) for wall in (0, 0.5, 2, 2.5, 9)] == [None, 3, 3, 4, 3]
    assert (known.rate(""), known.largest_rate("")) == (3, 4)
    assert known.rate("another") is None
    assert known.largest_rate("another") is None


def test_a_rate_changes_by_more_than_a_hundredth():
    assert not run_of(chunk("lr", [100.0, 101.0, 100.0])).rescheduled("", 0)
    known = run_of(chunk("lr", [100.0, 100.0, 101.1, 101.1]))
    assert [known.rescheduled("", since) for since in (0, 2, 2.5, 9)] == [True, True, False, False]
    assert not known.rescheduled("another", 0)


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
    assert run_of(chunk(tag, [*before, *after])).holds(len(before) - 0.5) == holds


def test_metrics_decide_where_there_are_any():
    worse = chunk("eval/loss", [1.0, 1.0, 2.0, 2.0])
    assert run_of(worse, chunk("eval/accuracy", [0.9, 0.9, 0.9, 0.9])).holds(1.5)
    better = chunk("eval/loss", [1.0] * 4)
    assert not run_of(better, chunk("eval/accuracy", [0.9, 0.9, 0.5, 0.5])).holds(1.5)
    assert not run_of(better, worse).holds(1.5)


def test_a_metric_or_an_evaluation_gains():
    falling, rising = np.linspace(2, 1, 800), np.linspace(0.1, 0.9, 800)
    assert run_of(chunk("eval/loss", falling)).gains()
    assert not run_of(chunk("train/loss", falling)).gains()
    assert run_of(chunk("train/accuracy", rising)).gains()
    assert not run_of(chunk("train/accuracy", rising[::-1])).gains()
    assert run_of(chunk("train/error_rate", rising[::-1])).gains()
    assert not run_of(chunk("train/accuracy", rising[:7])).gains()


def test_the_main_loss_is_that_of_the_training():
    falling = np.linspace(2, 1, 800)
    known, run = context(chunk("train/loss", falling)), run_of(chunk("train/loss", falling))
    assert known.trains("", 1)
    assert not known.trains("", 0)
    assert run.learns("", -inf)
    assert not run.learns("", -inf, falls=False)
    assert not context(chunk("eval/loss", falling[::-1])).trains("", 999)
    assert not run_of(chunk("eval/loss", falling[::-1])).learns("", -inf, falls=False)


def test_a_loss_stands_if_it_fell_before_a_time_alone():
    loss = np.r_[np.linspace(2, 1, 400), np.ones(400)]
    assert run_of(chunk("train/loss", loss)).stands("", 450)
    assert not run_of(chunk("train/loss", loss)).stands("", 900)
    assert not run_of(chunk("train/loss", np.linspace(2, 1, 800))).stands("", 450)


def test_parts_that_do_not_rise_leave_their_weights():
    loss = chunk("train/a_loss", np.ones(400)), chunk("train/b_loss", np.ones(400))
    assert run_of(*loss).weights_alone("", 200)
    assert not run_of(*loss[:1]).weights_alone("", 200)
    assert not run_of(loss[0], chunk("train/b_loss", np.linspace(1, 9, 400))).weights_alone("", 200)


def test_a_score_that_comes_rarely_beside_a_loss_is_of_an_evaluation():
    late = np.arange(20, 40)  # as often as the loss, from later on
    loss, rare = chunk("loss", np.ones(40)), chunk("top1", np.ones(20), 2 * np.arange(20))
    often, named = chunk("top1", np.ones(20), late), chunk("val_top1", np.ones(20), 2 * np.arange(20))
    for chunks, count in (((loss, rare), 1), ((loss, often), 0), ((rare,), 0), ((loss, named, rare), 1)):
        assert len(list(run_of(*chunks).of("", "metric", split="eval"))) == count


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
    for values in ([np.nan, 0.1], [0.1, np.nan]):
        assert largest(values) == 0.1
    assert largest([]) is None
    assert np.isnan(largest([np.nan]))
