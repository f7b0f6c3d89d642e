"""nonfinite-series: any series that is NaN or infinite is a finding, unless the training loss is, too."""

from __future__ import annotations

import numpy as np
import pytest
from support.health_series import findings

from stepscope.health import RULES, Monitor

RULE = "nonfinite-series"
STEPS = np.arange(3000)
LOSS = 2 * np.exp(-STEPS / 800) + 0.3 + 0.03 * np.random.default_rng(0).normal(size=3000)


def every(values, *, step=100, later=0.0):
    """Points of an evaluation each ``step`` steps, the first after the first ``step``."""
    steps = step * np.arange(1, len(values) + 1) - 1
    return steps, values, 1.7e9 + steps + later


def of(series):
    return [each for each in findings(series) if each.rule == RULE]


@pytest.mark.parametrize(
    ("tag", "severity"),
    [("val/f1", "medium"), ("val/my score", "medium"), ("f1", "medium"), ("reward_mean", "low"),
     ("updates/encoder/weight_ratio", "low"), ("speed/step_time_ms", "low"), ("lr", "low")],
)  # fmt: skip
def test_a_value_that_becomes_nan_is_found_whatever_its_name(tag, severity):
    values = [0.5] * 10 + [np.nan] * 20
    [finding] = of({"train/loss": LOSS, tag: every(values, later=0.5)})
    assert (finding.tag, finding.severity, finding.step, finding.since) == (tag, severity, 1099, 1099)
    assert finding.summary == f"{tag} is NaN at step 1,099"
    assert (finding.is_open, finding.values["last_finite"]) == (True, pytest.approx(0.5))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_series_that_was_never_finite(value):
    [finding] = of({"train/loss": LOSS, "val/psnr": every([value] * 30)})
    assert finding.since == 99
    assert "last_finite" not in finding.values


def test_finite_series_are_left_alone():
    assert of({"train/loss": LOSS, "val/f1": every([0.5] * 30), "my value": every([0.0] * 30)}) == []


def test_a_loss_that_is_not_finite_explains_the_rest():
    broken = np.where(STEPS >= 1000, np.nan, LOSS)
    metric = every([0.5] * 10 + [np.nan] * 20)
    for later in (-0.5, 0.0, 0.5):  # the metric of a step may be logged before its loss
        of_both = findings({"train/loss": broken, "val/f1": (*metric[:2], metric[2] + later)})
        assert {each.rule for each in of_both} >= {"nonfinite-loss"}
        assert RULE not in [each.rule for each in of_both]


def test_a_metric_that_stays_nan_after_the_loss_is_finite_again():
    broken = np.where((STEPS >= 1000) & (STEPS < 1200), np.nan, LOSS)
    [finding] = of({"train/loss": broken, "val/f1": every([0.5] * 10 + [np.nan] * 20)})
    assert finding.step == 1299


def test_without_a_training_loss_it_is_said_at_once():
    monitor = Monitor()
    steps, values, walls = every([0.5] * 10 + [np.nan] * 20)
    monitor.take("val/f1", steps, np.array(values), walls)
    monitor.advance(float(walls[10]) + 0.5)
    assert [each.rule for each in monitor.verdict.findings] == [RULE]


def test_it_is_over_after_some_finite_values():
    values = [0.5] * 10 + [np.nan] + [0.5] * 19
    [finding] = of({"train/loss": LOSS, "val/f1": every(values, later=0.5)})
    assert (finding.is_open, finding.closed_step) == (False, 1599)


def test_series_of_one_severity_are_one_finding():
    bad = every([0.5] * 10 + [np.nan] * 20)
    medium, low = of(
        {"train/loss": LOSS, "val/f1": bad, "val/recall": bad, "reward_mean": bad, "reward_std": bad}
    )
    assert (medium.tag, medium.also) == ("val/f1", ("val/recall",))
    assert (low.tag, low.also) == ("reward_mean", ("reward_std",))


def test_no_series_is_judged_by_two_of_the_rules_on_values_that_are_not_finite():
    roles = [RULES[name].roles for name in ("nonfinite-loss", "nonfinite-gradient", "nonfinite-activation")]
    both = {role for each in roles for role in each} & set(RULES[RULE].roles)
    assert both == {"loss_scale"}  # it only sets how many gradients in a row count
