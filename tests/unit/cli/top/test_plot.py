import math

import numpy as np
import pytest

from stepscope.cli.top.plot import LABEL, PlotCurve, frame_of, plot, short, ticks


def trace(*values, x=None, high=None, **options):
    low = np.array(values, float)
    return PlotCurve(
        "red",
        np.arange(len(low), dtype=float) if x is None else np.array(x, float),
        low,
        low if high is None else np.array(high, float),
        **options,
    )


def dots(text):
    """Rows of the plot without labels, as sets of columns that hold a dot."""
    rows = text.plain.split("\n")[:-1]
    return [{at for at, cell in enumerate(row[LABEL + 1 :]) if cell.strip()} for row in rows]


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right():
    rows = dots(plot([trace(0, 1, 2, 3)], LABEL + 1 + 20, 9))
    assert min(rows[-1]) == 0
    assert max(rows[0]) == 19
    assert [min(row) for row in rows] == sorted((min(row) for row in rows), reverse=True)


def test_the_picture_is_as_large_as_asked_for():
    text = plot([trace(0, 1, 2)], 60, 12)
    assert [len(line) for line in text.plain.split("\n")] == [60] * 12


def test_values_that_are_not_finite_break_the_line():
    whole = dots(plot([trace(1, 1, 1, 1, 1)], 60, 5))
    broken = dots(plot([trace(1, 1, float("nan"), 1, 1)], 60, 5))
    assert set().union(*broken) < set().union(*whole)
    assert plot([trace(float("nan"), float("inf"))], 60, 5).plain.strip() == "no finite points"


def test_buckets_reach_from_least_to_greatest():
    assert all(0 in row for row in dots(plot([trace(0, 0, high=[1, 1], x=[0, 1])], 60, 9)))


def test_a_log_axis_leaves_out_what_it_cannot_show():
    frame = frame_of([trace(0, -1, 10, 1000)], log=True)
    assert (frame.y0, frame.y1) == (1, 3)
    assert frame.x0 == 2
    assert "1,000" in plot([trace(10, 100, 1000)], 60, 13, log=True).plain
    assert plot([trace(0, -1)], 60, 5, log=True).plain.strip() == "no finite points"


def test_a_constant_is_drawn_in_the_middle():
    assert [at for at, row in enumerate(dots(plot([trace(5, 5, 5)], 60, 10))) if row] == [4]


def test_lines_keep_their_colours():
    upper = PlotCurve("green", np.array([0.0, 1]), np.array([9.0, 9]), np.array([9.0, 9]))
    spans = plot([trace(1, 1), upper], 40, 8).spans
    assert {str(span.style) for span in spans} >= {"#800000", "#008000"}, "red and green"


def test_evaluation_is_dashed():
    count = {
        dashed: sum(map(len, dots(plot([trace(0, 1, dashed=dashed)], 40, 9)))) for dashed in (False, True)
    }
    assert 0 < count[True] < count[False]


def test_a_pane_that_is_too_small_says_so():
    assert plot([trace(1, 2)], 8, 2).plain.strip() == "too small"


@pytest.mark.parametrize(
    ("low", "high", "most", "wanted"),
    [(0, 1, 4, [0, 0.25, 0.5, 0.75, 1]), (-3, 3, 3, [-2, 0, 2]), (0.1, 0.9, 2, [0.5])],
)
def test_ticks_are_round(low, high, most, wanted):
    assert ticks(low, high, most) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12, "12"),
        (1234567, "1.23e+6"),
        (0.12345, "0.1235"),
        (1e-9, "1.00e-9"),
        (-54321.4, "-54,321"),
    ],
)
def test_numbers_are_short(value, text):
    assert short(value) == text
    assert len(text) <= LABEL


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
