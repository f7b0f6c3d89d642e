"""How findings write numbers."""

from __future__ import annotations

import math

import pytest

from stepscope.health.finding import number


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
