from __future__ import annotations

from itertools import pairwise

import pytest

from stepscope.record.statistics.sampling import Sampling, early, stretch_for


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
    assert found[:13] == [number % turns for number in range(13)], "the dense points"
    assert found[-7:] == [(found[-7] + number) % turns for number in range(7)]


def test_the_stretch_keeps_the_share_of_the_time():
    assert stretch_for(0.05, 0.1, 50, 0.01) == 1
    assert stretch_for(0.2, 0.1, 50, 0.01) == 4
    assert stretch_for(0.0, 0.1, 50, 0.01) == stretch_for(1.0, 0.0, 50, 0.01) == 1
    for cost in (0.01, 0.3, 7.0):
        assert cost / (0.1 * 50 * stretch_for(cost, 0.1, 50, 0.01)) <= 0.01


@pytest.mark.parametrize("options", [{}, {"dense_steps": 0}, {"dense_steps": 3}])
def test_the_next_grid_point_is_the_first_step_with_a_point_of_its_own(options):
    sampling = Sampling(20, **options)
    sampling.stretch_from(200, 4)
    for step in (*range(180), *range(200, 400)):  # a change of the distance is known at its own step
        first = next(later for later in range(step + 1, 1000) if sampling.point(later) == later)
        assert sampling.next(step) == first, step
