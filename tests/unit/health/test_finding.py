"""How findings write numbers, and in which order they are shown."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from stepscope.health.finding import Finding, as_shown, number

FINDING = Finding("", "high", "", "", "", "", None, None, 0, 7, 0.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (2.33812, "2.338"),
        (-1.5, "-1.5"),
        (64.0, "64"),
        (999.949, "999.9"),
        (999.96, "1,000"),
        (12_350.4, "12,350"),
        (-1_234_567.0, "-1,234,567"),
        (999_999_999.0, "999,999,999"),
        (7.371e27, "7.371\u00d710²⁷"),
        (1e9, "1\u00d710⁹"),
        (0.0001, "0.0001"),
        (1.554e-9, "1.554\u00d710⁻⁹"),
        (-2e-5, "-2\u00d710⁻⁵"),
        (5e-324, "4.941\u00d710⁻³²⁴"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
    ],
)
def test_a_number_is_written_as_a_person_would(value, text):
    assert number(value) == text


def test_what_one_step_made_nan_is_told_in_the_order_of_the_computation():
    def found(rule, wall, step=7, **more):
        return replace(FINDING, rule=rule, wall=wall, step=step, severity="high", **more)

    spike = found("loss-spike", 2.0)
    gradient, loss = found("nonfinite-gradient", 1.0), found("nonfinite-loss", 1.5)
    activation, later = found("nonfinite-activation", 3.0), found("nonfinite-activation", 4.0, step=8)
    mild = replace(spike, severity="low", wall=0.0)
    shown = as_shown([mild, later, loss, spike, activation, gradient])
    assert shown == [activation, gradient, loss, spike, later, mild]
    assert as_shown([replace(loss, closed_step=9), spike]) == [spike, replace(loss, closed_step=9)]
