from __future__ import annotations

from itertools import pairwise

import pytest

import stepscope as ss
from stepscope.record.statistics.sampling import NormRhythm, Sampling, SamplingBudget, early, stretch_for


def due(sampling, steps):
    return [step for step in steps if sampling.due(step)]


def test_dense_early_then_sparse():
    found = due(Sampling(50), range(301))
    assert found[:10] == list(range(10))
    gaps = [b - a for a, b in pairwise(found[9:])]
    assert max(gaps) <= 50
    assert gaps[:6] == [1, 3, 3, 5, 7, 9]
    assert found[-3:] == [200, 250, 300]
    assert due(Sampling(50, dense_steps=0), range(151)) == [0, 50, 100, 150]
    assert due(Sampling(1), range(5)) == [0, 1, 2, 3, 4]
    assert early(1, 10) == [0]


def test_a_rank_that_missed_a_point_makes_its_sample_later_and_is_back_in_line():
    missed = [step for step in range(301) if step not in (100, 101)]
    assert due(Sampling(50, dense_steps=0), missed) == [0, 50, 102, 150, 200, 250, 300]


def test_numbers_that_begin_anew():
    sampling = Sampling(10, dense_steps=0)
    assert due(sampling, range(25)) == [0, 10, 20]
    assert due(sampling, range(12)) == [0, 10]


def test_a_probability_chooses_the_same_points_everywhere():
    points = due(Sampling(10, dense_steps=0, probability=0.3), range(10_000))
    assert points == due(Sampling(10, dense_steps=0, probability=0.3), range(10_000))
    assert 230 < len(points) < 370
    assert all(point % 10 == 0 for point in points)


def test_wanted_steps_come_beside():
    assert due(Sampling(10, dense_steps=0, wanted=lambda step: step in (3, 4)), range(11)) == [0, 3, 4, 10]


def test_stretching_begins_where_it_is_said():
    sampling = Sampling(10, dense_steps=0)
    sampling.stretch_from(31, 4)
    assert due(sampling, range(130)) == [0, 10, 20, 30, 40, 80, 120]
    sampling.stretch_from(131, 1)
    assert due(sampling, range(130, 160)) == [131, 140, 150]


def test_histograms_are_rarer_and_asking_ahead_marks_nothing():
    sampling = Sampling(5, histograms_every=20, dense_steps=0)
    assert sampling.ahead(5)
    assert [step for step in range(45) if sampling.due(step) and sampling.histogram_due(step)] == [0, 20, 40]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turns_go_round(turns):
    sampling = Sampling(10)
    found = [sampling.turn(step, turns) for step in due(Sampling(10), range(100))]
    assert set(found) == set(range(turns))
    assert found[10:] != found[9:-1] or turns == 1


def test_the_stretch_keeps_the_share_of_the_time():
    assert stretch_for(0.05, 0.1, 50, 0.01) == 1
    assert stretch_for(0.2, 0.1, 50, 0.01) == 4
    assert stretch_for(0.0, 0.1, 50, 0.01) == stretch_for(1.0, 0.0, 50, 0.01) == 1
    for cost in (0.01, 0.3, 7.0):
        assert cost / (0.1 * 50 * stretch_for(cost, 0.1, 50, 0.01)) <= 0.01


def norms_of(max_overhead, cost, steps, step_seconds=1.0):
    """Which steps have a norm, where one takes so long; cost is a function of the step."""
    rhythm, found = NormRhythm(max_overhead), []
    for step in steps:
        if rhythm.due(step):
            found.append(step)
            rhythm.took(cost(step))
            rhythm.decide(step, rhythm.seconds, step_seconds)
    return found, rhythm


def test_norms_are_those_of_every_step_while_they_take_less_than_half_of_the_budget():
    steps = range(200)
    assert norms_of(0.01, lambda step: 0.005, steps)[0] == list(steps)
    assert norms_of(None, lambda step: 0.5, steps)[0] == list(steps)
    found, rhythm = norms_of(0.01, lambda step: 0.1, steps)
    assert found == [0, 1, 2, 32, 64, 96, 128, 160, 192]
    assert rhythm.share(1.0) == pytest.approx(0.1 / 32)
    assert rhythm.share(0.0) == 0
    # One step that the machine held up changes nothing, and a cost that is gone brings every step back.
    assert norms_of(0.01, lambda step: 5.0 if step == 50 else 0.001, steps)[0] == list(steps)
    late, rhythm = norms_of(0.01, lambda step: 0.1 if step < 40 else 0.001, range(400))
    assert rhythm.factor == 1
    assert late[-100:] == list(range(300, 400))


def test_a_rhythm_of_norms_does_not_change_to_and_fro():
    rhythm = NormRhythm(0.01)
    rhythm.decide(0, 0.009, 1.0)
    assert rhythm.factor == 2
    rhythm.decide(10, 0.0049, 1.0)
    assert rhythm.factor == 2
    rhythm.decide(20, 0.0039, 1.0)
    assert rhythm.factor == 1


def test_samples_get_what_the_norms_leave_of_the_budget():
    budget = SamplingBudget(ss.GradientHook(every_n_steps=1, max_overhead=0.01))
    assert budget.factor(0.08, 1.0) == 8
    assert budget.factor(0.08, 1.0, 0.001) == 16
    assert budget.factor(0.08, 1.0, 0.5) == 16  # norms never take more than half of it
    assert budget.factor(0.04, 1.0, 0.5) == 8


def test_only_some_changes_of_the_distance_are_kept():
    sampling = Sampling(1, dense_steps=0)
    for step in range(1, 2000):
        sampling.stretch_from(step, 1 + step % 2)
    assert len(sampling._stretches) < 100
    assert (sampling.stretch(0), sampling.stretch(1998), sampling.stretch(1999)) == (1, 1, 2)
