"""Statistics that rules share."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from stepscope.health.noise import rise_chance, rising


def wandering(count, rng):
    """A series without trend whose neighbours correlate by 0.8."""
    values = np.zeros(count)
    for at in range(1, count):
        values[at] = 0.8 * values[at - 1] + rng.normal()
    return values


def test_the_nearest_rise_is_that_of_isotonic_regression():
    rng = np.random.default_rng(0)
    for count in (1, 2, 7, 64):
        values = rng.normal(size=count) + np.arange(count) / 20
        expected = IsotonicRegression().fit_transform(np.arange(count), values)
        assert np.allclose(rising(values), expected)


def test_what_wanders_slowly_rises_clearly_no_more_often_than_said():
    """By the points alone one of ten such series would be a rise of a chance below 1e-3."""
    rng = np.random.default_rng(1)
    chances = np.array([rise_chance(wandering(50, rng)) for _ in range(1000)])
    assert np.mean(chances < 1e-3) < 0.02


@pytest.mark.parametrize("shape", [np.arange(15.0), np.sqrt(np.arange(15.0)), np.arange(15.0) ** 2])
def test_a_smooth_rise_is_a_rise_however_it_is_bent(shape):
    assert rise_chance(shape) < 1e-6
    assert rise_chance(shape[::-1].copy()) > 0.9


def test_noise_without_trend_seldom_rises():
    rng = np.random.default_rng(2)
    chances = np.array([rise_chance(rng.normal(size=30)) for _ in range(1000)])
    assert np.mean(chances < 0.05) < 0.07
