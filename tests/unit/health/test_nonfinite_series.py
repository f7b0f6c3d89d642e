"""nonfinite-series: when it is said, and which series it leaves to other rules; cases.txt has the others."""

import numpy as np
import pytest

from stepscope.health import RULES, Monitor
from stepscope.names.meanings import Correction, Meanings

RULE = "nonfinite-series"


def test_without_a_training_loss_it_is_said_at_once():
    monitor = Monitor()
    steps = 100 * np.arange(1, 31) - 1
    walls = 1.7e9 + steps
    monitor.take("val/f1", steps, np.array([0.5] * 10 + [np.nan] * 20), walls)
    monitor.advance(float(walls[10]) + 0.5)
    assert [each.rule for each in monitor.verdict.findings] == [RULE]


def test_no_series_is_judged_by_two_of_the_rules_on_values_that_are_not_finite():
    rules = [RULES[f"nonfinite-{name}"] for name in ("loss", "gradient", "activation", "series")]
    roles = [role for rule in rules for role in (getattr(rule, "leads", ()) or rule.roles)]
    assert len(roles) == len(set(roles))


def test_a_value_that_is_followed_by_a_finite_one_at_the_same_time_is_found():
    monitor = Monitor()
    monitor.take("train/loss", np.arange(100), np.where(np.arange(100) == 60, np.nan, 1.0), np.full(100, 1e9))
    monitor.finish()
    (finding,) = (each for each in monitor.verdict.findings if each.rule == "nonfinite-loss")
    assert (finding.step, finding.is_open) == (60, True)


def test_once_the_training_loss_is_finite_again_a_metric_that_is_not_has_a_finding():
    steps = np.arange(400)
    loss = np.where((steps >= 100) & (steps < 200), np.nan, 1.0)
    for until, found in ((199, []), (399, [RULE])):
        monitor = Monitor()
        monitor.take("train/loss", steps[:until], loss[:until], 1e9 + steps[:until])
        monitor.take(
            "val/f1",
            steps[100:until:10],
            np.full(len(steps[100:until:10]), np.nan),
            1e9 + steps[100:until:10],
        )
        monitor.finish()
        assert [each.rule for each in monitor.verdict.findings if each.rule == RULE] == found


@pytest.mark.parametrize("order", [("zebra", "ranks/loss"), ("ranks/loss", "zebra")], ids="first {}".format)
@pytest.mark.parametrize("apart", [False, True])
def test_a_loss_that_a_rank_recorded_twice_has_the_name_that_the_program_gave_it(order, apart):
    monitor = Monitor(meanings=Meanings({"zebra": Correction(role="loss")}))
    steps = np.arange(8)
    losses = np.where(steps == 7, np.nan, 7.0)
    for tag in order:
        monitor.take(tag, steps, losses, 1e9 + steps, rank=0)
        if apart:
            monitor.advance(1e9 + 8)
    monitor.finish()
    findings = [finding for finding in monitor.verdict.findings if finding.rule == "nonfinite-loss"]
    assert [(finding.tag, finding.rank, finding.step) for finding in findings] == [("zebra", 0, 7)]
