"""Since when a run waits for its data: noise at the beginning is not when its disk became slow."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health import Monitor
from stepscope.health.rules.data_wait import onset

STEP_MS = 10.0


def found(ratios, *, portion=None, first=0):
    """The findings over steps of 10 ms with these shares of waiting."""
    monitor, count = Monitor(), len(ratios)
    steps, walls = np.arange(first, first + count), 1e9 + 0.01 * np.arange(count)
    values = {"speed/step_time_ms": np.full(count, STEP_MS), "speed/data_wait_ms": STEP_MS * ratios}
    for begin in range(0, count, portion or count):
        rows = slice(begin, begin + (portion or count))
        for tag, column in values.items():
            monitor.take(tag, steps[rows], column[rows], walls[rows])
        monitor.advance(float(walls[rows][-1]))
    monitor.finish()
    return [each for each in monitor.verdict.findings if each.rule == "data-wait"]


def noisy(*stretches, seed=0):
    """Shares with a spread of a third around each level: (steps, level), …"""
    rng = np.random.default_rng(seed)
    means = np.concatenate([np.full(count, level) for count, level in stretches])
    return np.clip(means * (1 + rng.normal(size=len(means)) / 3), 0, 1)


@pytest.mark.parametrize("slow_from", [600, 649, 660, 661, 709])
@pytest.mark.parametrize("portion", [None, 37])
def test_it_waits_since_the_disk_is_slow(slow_from, portion):
    ratios = noisy((slow_from, 0.01), (1320 - slow_from, 0.8))
    (only,) = found(ratios, portion=portion)
    assert only.severity == "medium"
    assert only.since == only.since_step == only.first_step == slow_from
    assert slow_from + 50 <= only.step <= slow_from + 150
    assert only.is_open


def test_early_noise_that_closes_is_a_finding_of_its_own():
    ratios = noisy((150, 0.2), (510, 0.01), (660, 0.8))
    high, early = found(ratios)
    assert (high.severity, high.since, high.is_open) == ("medium", 660, True)
    assert early.severity == "low"
    assert early.since < 150 < early.closed_step < 300


def test_early_noise_that_never_closes_is_over_where_it_becomes_much():
    ratios = noisy((660, 0.2), (660, 0.8))
    high, early = found(ratios)
    assert (high.severity, high.since, high.is_open) == ("medium", 660, True)
    assert (early.severity, early.closed_step) == ("low", high.step)


def test_it_is_no_longer_high_when_most_of_the_wait_is_gone():
    ratios = noisy((500, 0.01), (500, 0.8), (500, 0.2), (500, 0.01))
    high, medium = found(ratios)
    assert (high.severity, high.since) == ("medium", 500)
    assert (medium.severity, medium.since) == ("low", 1000)
    assert high.closed_step == medium.step
    assert 1500 < medium.closed_step < 1700


def test_a_run_that_waits_from_the_beginning_does_so_since_its_first_step_that_counts():
    (only,) = found(noisy((300, 0.8)), first=1000)
    assert (only.since, only.step) == (1010, 1109)


def test_a_share_about_the_limit_does_not_flap():
    ratios = noisy((2000, 0.1))
    assert len(found(ratios)) <= 2


@pytest.mark.parametrize(
    ("ratios", "limit", "at"),
    [
        ([0, 0, 0, 1, 1], 0.5, 3),
        ([1, 0, 0, 0, 1, 1, 1], 0.5, 4),
        ([1, 1, 1], 0.5, 0),
        ([0.6], 0.5, 0),
    ],
)
def test_the_onset_is_the_best_split(ratios, limit, at):
    assert onset(np.array(ratios, float), limit) == at


def test_the_onset_of_a_fall():
    assert onset(np.array([1.0, 1, 1, 0, 0]), 0.5, rises=False) == 3
    assert onset(np.array([0.5, 0.5, 0, 0]), 0.5, rises=False) == 0  # it was never above


@pytest.mark.parametrize(("wait_us", "told"), [(0.04, False), (0.9, False), (3.0, True), (400.0, True)])
def test_a_wait_as_short_as_measuring_it_is_no_wait(wait_us, told):
    """A loop over ``range`` waits 40 ns of 200 for its number; nobody loads data in that time."""
    monitor, count = Monitor(), 1000
    steps, walls = np.arange(count), 1e9 + 1e-3 * np.arange(count)
    monitor.take("speed/step_time_ms", steps, np.full(count, 5e-3 * wait_us), walls)
    monitor.take("speed/data_wait_ms", steps, np.full(count, 1e-3 * wait_us), walls)
    monitor.finish()
    assert [each.rule for each in monitor.verdict.findings] == ["data-wait"] * told
