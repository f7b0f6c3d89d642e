"""Statistics that rules share."""

import math

import numpy as np
import pytest

from stepscope.health.noise import (
    curve_noise,
    rise_chance,
    rising,
    standard_error,
    step_noise,
    tail_limit,
    trailing_median,
)


def wandering(count, rng):
    """A series without trend whose neighbours correlate by 0.8."""
    values = np.zeros(count)
    for at in range(1, count):
        values[at] = 0.8 * values[at - 1] + rng.normal()
    return values


def test_the_nearest_rise_is_that_of_isotonic_regression():
    from sklearn.isotonic import IsotonicRegression  # seconds, for every worker that collects this

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


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_the_error_of_a_mean_is_how_much_means_differ(memory):
    rng = np.random.default_rng(3)
    runs = rng.normal(size=(400, 200))
    for at in range(1, 200):
        runs[:, at] += memory * runs[:, at - 1]
    errors = [standard_error(run) for run in runs]
    assert np.median(errors) == pytest.approx(runs.mean(axis=1).std(), rel=0.15)


def test_the_error_of_a_mean_by_hand():
    """Neighbours that alternate count as independent, those that follow each other as fewer points."""
    assert standard_error(np.array([1.0, -1.0, 1.0, -1.0])) == pytest.approx(np.sqrt(4 / 3 / 4))
    # r is 1 / 4, so that 4 points count as 4 * 0.75 / 1.25
    assert standard_error(np.array([1.0, 1.0, -1.0, -1.0])) == pytest.approx(np.sqrt(4 / 3 / 2.4))
    assert standard_error(np.array([1.0, 2.0])) == np.inf
    assert standard_error(np.array([1.0, 1.0, 1.0])) == 0
    with np.errstate(all="ignore"):
        assert standard_error(np.array([1.0, np.inf, 1.0])) == np.inf


def test_a_limit_is_passed_as_seldom_as_is_said():
    """Above its upper quartile an exponential tail falls off as it did on average."""
    values = -np.log1p(-(np.arange(4000) + 0.5) / 4000)
    for chance in (1e-3, 1e-7):
        assert tail_limit(values, chance) == pytest.approx(-np.log(chance), rel=0.01)
    normal = np.random.default_rng(4).normal(size=4000)
    assert tail_limit(normal) == pytest.approx(9.5, abs=0.7)
    assert tail_limit(np.full(8, 2.0)) == 2.0  # nothing is above the quartile


def test_the_quartile_lies_between_values():
    """Of 0 to 7 it is 5.25; 6 and 7 are 1.25 above it on average."""
    assert tail_limit(np.arange(8.0), 0.25 / np.e) == pytest.approx(5.25 + 1.25)


def test_the_noise_of_a_series_is_without_its_trend_and_jumps():
    noise = np.random.default_rng(5).normal(size=2000)
    assert step_noise(noise) == pytest.approx(1.0, rel=0.1)
    jump = np.where(np.arange(2000) < 1000, 0.0, 500.0)
    assert step_noise(noise + np.arange(2000) / 20 + jump) == pytest.approx(1.0, rel=0.1)
    assert step_noise(np.array([3.0])) == 0.0


def test_the_noise_of_a_curve_is_without_its_fall():
    noise = np.random.default_rng(5).normal(size=2000)
    assert curve_noise(noise) == pytest.approx(1.0, rel=0.1)
    fall = 3 * np.exp(-np.arange(12) / 3)
    assert curve_noise(fall) < 0.25 * step_noise(fall)
    assert curve_noise(np.array([3.0, 4.0])) == step_noise(np.array([3.0, 4.0]))


def test_fewer_than_five_points_do_not_rise():
    assert rise_chance(np.arange(4.0)) == 1.0
    # all of ten pairs rise: the score 10 less the correction for continuity, of a variance of 50 / 3
    assert rise_chance(np.arange(5.0)) == pytest.approx(0.5 * math.erfc(9 / math.sqrt(50 / 3) / math.sqrt(2)))


def test_a_trailing_median_is_of_the_points_before():
    values = np.random.default_rng(6).normal(size=40)
    expected = [sorted(values[at - 8 : at])[4] for at in range(8, 40)]
    assert trailing_median(values, 8).tolist() == expected
