"""Axes over ranges at the end of what a float holds."""

import math
import sys

import numpy as np
import pytest

from stepscope.export.plot import PlotLine, chart, scale_of, ticks

TOP = 2.0**63


@pytest.mark.parametrize(
    "x", [[0, TOP], [-TOP, TOP], [TOP - 10, TOP], [TOP, TOP], [2.0**53, 2.0**53 + 2], [-TOP, 5 - TOP]]
)
@pytest.mark.parametrize(
    "value",
    [[1.0, 2.0], [-1e308, 1e308], [sys.float_info.max] * 2, [0.0, 5e-324], [1.0, 1.0 + 2**-52], [0, 0]],
)
def test_a_chart_of_any_range_is_drawn(x, value):
    line = PlotLine("loss", 0, np.array(x, np.float64), np.array(value, np.float64))
    scale = scale_of([line])
    assert scale.x0 < scale.x1
    assert scale.y0 < scale.y1
    for place in (*scale.across(line.x), *scale.down(line.value)):
        assert math.isfinite(place)
    drawn = chart("loss", [line])
    assert "<svg" in drawn
    assert "nan" not in drawn
    assert "inf" not in drawn


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-3, 7), (1e-12, 2e-12), (-1e308, 1e308), (0, 5e-324), (1.0, 1.0 + 2**-52), (5, 5)],
)
def test_ticks_lie_within_the_range_and_are_few(low, high):
    found = ticks(low, high, 5)
    assert 1 <= len(found) <= 12
    assert all(math.isfinite(at) for at in found)
    slack = (high / 2 - low / 2) * 1e-6
    assert min(found) >= low - slack
    assert max(found) <= high + slack


def test_ordinary_axes_have_round_ticks():
    assert ticks(0, 1, 5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
