from __future__ import annotations

import numpy as np
import pytest

from stepscope.store.run import eta_seconds, steps_per_second


@pytest.mark.parametrize(
    ("step", "wall", "expected"),
    [
        ([0, 10, 20, 30], [0, 5, 10, 15], 2.0),
        ([0, 1, 2, 3, 4], [0, 1, 2, 103, 104], 1.0),
        ([0, 0, 1, 1, 2, 2], [0, 0.1, 1, 1.1, 2, 2.1], 1 / 0.9),
        ([5, 6, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 1, 2], [5, 5, 5], None),
        ([3, 3, 3], [0, 1, 2], None),
        ([3], [0], None),
        ([0, 1, 2], [0, np.nan, 2], None),
    ],
)
def test_the_median_of_recent_steps(step, wall, expected):
    assert steps_per_second(np.array(step), np.array(wall, float)) == (expected and pytest.approx(expected))


def test_only_recent_points_count():
    wall = np.concatenate([np.arange(1000) * 9.0, 9000 + np.arange(100) / 2])
    assert steps_per_second(np.arange(1100), wall) == 2


@pytest.mark.parametrize(
    ("step", "total", "rate", "expected"),
    [
        (0, 101, 2.0, 50),
        (100, 101, 2.0, 0),
        (500, 101, 2.0, 0),
        (None, 101, 2.0, None),
        (0, None, 2.0, None),
        (0, 5, None, None),
    ],
)
def test_time_left(step, total, rate, expected):
    assert eta_seconds(step, total, rate) == expected
