from __future__ import annotations

import numpy as np
import pytest

from stepscope.store.run import steps_per_second, time_left


@pytest.mark.parametrize(
    ("step", "wall", "expected"),
    [
        ([0, 10, 20, 30], [0, 5, 10, 15], 2.0),
        ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 5, 6, 7, 8], 1.0),
        ([0, 1, 2, 3, 4], [0, 1, 2, 103, 104], None),  # a pause, or two bursts
        ([0, 0, 1, 1, 2, 2], [0, 0.1, 1, 1.1, 2, 2.1], 1 / 0.9),
        ([5, 6, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 1, 2], [5, 5, 5], None),
        ([3, 3, 3], [0, 1, 2], None),
        ([3], [0], None),
        ([0, 1, 2], [0, np.nan, 2], 1.0),
    ],
)
def test_the_median_of_recent_steps(step, wall, expected):
    assert steps_per_second(np.array(step), np.array(wall, float)) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("period_s", [5.0, 60.0, 0.5])
@pytest.mark.parametrize("bursts", [3, 20])
def test_points_that_are_logged_in_bursts_tell_the_rate_from_burst_to_burst(bursts, period_s):
    """500 steps at the end of each epoch, 0.24 microseconds apart: not 4,194,304 steps per second."""
    at = np.arange(500 * bursts)
    wall = 1e9 + (at // 500 + 1) * period_s + (at % 500) * 2.4e-7
    assert steps_per_second(at, wall) == pytest.approx(500 / period_s, rel=1e-3)


@pytest.mark.parametrize("bursts", [1, 2])
def test_too_few_bursts_tell_none(bursts):
    at = np.arange(500 * bursts)
    assert steps_per_second(at, 1e9 + (at // 500) * 5.0 + (at % 500) * 2.4e-7) is None


def test_a_fast_training_is_not_taken_for_a_burst():
    at = np.arange(5000)
    assert steps_per_second(at, 1e9 + at / 1000) == pytest.approx(1000, rel=1e-3)
    assert steps_per_second(at[:500], 1e9 + at[:500] / 1000) is None  # half a second


def test_only_recent_points_count():
    wall = np.concatenate([np.arange(1000) * 9.0, 9000 + np.arange(100) / 2])
    assert steps_per_second(np.arange(1100), wall) == 2


@pytest.mark.parametrize(
    ("step", "wall", "left", "expected"),
    [
        ([0, 10, 20, 30], [0, 5, 10, 15], 20, 10),
        ([0, 10, 20, 30], [0, 5, 10, 15], 0, 0),
        ([0, 1, 2, 3, 4], [0, 1, 2, 103, 104], 10, 510),  # the pause is half of what is known
        ([5, 6, 2, 3, 7], [0, 1, 2, 3, 4], 10, 30),  # an epoch's counter that starts over is left out
        ([3, 3, 3], [0, 1, 2], 10, None),
        ([], [], 10, None),
    ],
)
def test_time_left_by_the_newer_half(step, wall, left, expected):
    found = time_left(left, np.array(step), np.array(wall, float))
    assert (found and found.seconds) == (expected and pytest.approx(expected))


PAUSES = {
    "none": lambda step: np.zeros(len(step)),
    "evaluations": lambda step: np.where(step % 100 == 99, 3.0, 0.0),
    "evaluations and checkpoints": lambda step: np.where(step % 50 == 49, 1.0, 0) + (step % 200 == 199) * 4.0,
    "a slow beginning": lambda step: np.where(step < 20, 1.0, 0.0),
}


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("name", PAUSES)
def test_time_left_holds_what_comes(name, every):
    step = np.arange(2000)
    end = np.cumsum(np.random.default_rng(1).gamma(4.0, 0.0025, len(step)) + PAUSES[name](step))
    right = []
    for now in range(400, 2000, 37):
        found = time_left(1999 - now, step[:now:every], end[:now:every])
        truth = end[-1] - end[now]
        assert found.seconds == pytest.approx(truth, rel=0.5, abs=6.0)
        right.append(found.between[0] <= truth + 0.1 and truth - 0.1 <= found.between[1])
    assert np.mean(right) >= 0.9
