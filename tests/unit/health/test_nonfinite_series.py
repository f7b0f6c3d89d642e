"""nonfinite-series: when it is said, and which series it leaves to other rules; cases.txt has the others."""

from __future__ import annotations

import numpy as np

from stepscope.health import RULES, Monitor

RULE = "nonfinite-series"


def test_without_a_training_loss_it_is_said_at_once():
    monitor = Monitor()
    steps = 100 * np.arange(1, 31) - 1
    walls = 1.7e9 + steps
    monitor.take("val/f1", steps, np.array([0.5] * 10 + [np.nan] * 20), walls)
    monitor.advance(float(walls[10]) + 0.5)
    assert [each.rule for each in monitor.verdict.findings] == [RULE]


def test_no_series_is_judged_by_two_of_the_rules_on_values_that_are_not_finite():
    roles = [RULES[name].roles for name in ("nonfinite-loss", "nonfinite-gradient", "nonfinite-activation")]
    both = {role for each in roles for role in each} & set(RULES[RULE].roles)
    assert both == {"loss_scale"}  # it only sets how many gradients in a row count
