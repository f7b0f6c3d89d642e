import re
from xml.etree import ElementTree

import numpy as np

from stepscope.export.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, PlotLine, chart


def line(*values, **options):
    value = np.array(values, float)
    return PlotLine("train", 0, np.arange(len(value), dtype=float), value, **options)


def svg(text):
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL)[0])


def test_a_line_reaches_from_corner_to_corner_but_for_a_margin():
    [shape] = svg(chart("loss", [line(0, 1, 2)])).iter("polyline")
    places = [tuple(map(float, place.split(","))) for place in shape.get("points").split()]
    assert places[0][0] == LEFT
    assert places[-1][0] == WIDTH - RIGHT
    assert TOP < places[-1][1] < places[1][1] < places[0][1] < HEIGHT - BOTTOM


def test_values_that_are_not_finite_break_the_line():
    found = svg(chart("loss", [line(1, 2, np.nan, 3, np.inf, 1, 2)]))
    assert [len(shape.get("points").split()) for shape in found.iter("polyline")] == [2, 2]
    assert len(list(found.iter("circle"))) == 1
    assert "no finite points" in chart("loss", [line(np.nan, np.inf)])
    assert "no finite points" in chart("loss", [])


def test_the_band_holds_what_the_points_stand_for():
    found = svg(chart("loss", [line(1, 1, low=np.array([0.0, 0]), high=np.array([5.0, 4]))]))
    assert len(next(found.iter("polygon")).get("points").split()) == 4


def test_evaluation_is_dashed():
    assert "stroke-dasharray" in chart("loss", [line(1, 2, dashed=True)])
    assert "stroke-dasharray" not in chart("loss", [line(1, 2)])


def test_names_carry_no_markup():
    text = chart("<script>alert(1)</script>", [PlotLine('"><img src=x>', 0, np.zeros(1), np.ones(1))])
    assert "<script>" not in text
    assert "<img" not in text
