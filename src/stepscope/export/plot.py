"""A line chart as SVG for a page without scripts; its colours follow the page's theme."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.export.page import escape

WIDTH, HEIGHT = 460, 200
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 8, 22
COLOURS = 8
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class PlotLine:
    """One line.

    Attributes:
        name: For the legend.
        colour: Number of one of the page's eight colours.
        x: float64 [points], ascending.
        value: float64 [points]; NaN breaks the line.
        low: float64 [points] or None: the least value that each point stands for.
        high: float64 [points] or None: the greatest.
        dashed: Whether it is dashed, as evaluation is beside training.
    """

    name: str
    colour: int
    x: NDArray[np.float64]
    value: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    dashed: bool = False


LARGEST, SMALLEST = sys.float_info.max, 1e-300
"""The end of an axis at most, and the least distance of ticks: below it, powers of ten lose their digits."""


@dataclass(frozen=True)
class Scale:
    """The scale that maps values to places on the drawing."""

    x0: float
    x1: float
    y0: float
    y1: float

    def across(self, x: NDArray[Any] | float) -> Any:
        """Return the horizontal place of a value."""
        return LEFT + (x / 2 - self.x0 / 2) / half(self.x0, self.x1) * (WIDTH - LEFT - RIGHT)

    def down(self, y: NDArray[Any] | float) -> Any:
        """Return the vertical place of a value."""
        return TOP + (self.y1 / 2 - y / 2) / half(self.y0, self.y1) * (HEIGHT - TOP - BOTTOM)


def half(low: float, high: float) -> float:
    """Return half of a range: the whole may be more than a float holds."""
    return high / 2 - low / 2


def chart(title: str, lines: Sequence[PlotLine]) -> str:
    """Return a chart with its title and legend; says so where no point is finite."""
    legend = "".join(
        f'<span><i class="key" style="background:{ink(line)}"></i>{escape(line.name)}</span>'
        for line in lines
    )
    head = f'<figcaption><strong>{escape(title)}</strong></figcaption><p class="legend">{legend}</p>'
    scale = scale_of(lines)
    if scale is None:
        return f'<figure class="chart">{head}<p>no finite points</p></figure>'
    shapes = [*grid(scale), *(shape for line in lines for shape in drawn(line, scale))]
    box = f"0 0 {WIDTH} {HEIGHT}"
    svg = f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(shapes)}</svg>'
    return f'<figure class="chart">{head}{svg}</figure>'


def scale_of(lines: Sequence[PlotLine]) -> Scale | None:
    """Return the range of the axes; None if nothing is finite."""
    ok = [(line, np.isfinite(line.x) & np.isfinite(line.value)) for line in lines]
    x = np.concatenate([line.x[there] for line, there in ok] or [np.empty(0)])
    bounds = [bound for line in lines for bound in (line.value, line.low, line.high) if bound is not None]
    y = np.concatenate(bounds or [np.empty(0)])
    y = y[np.isfinite(y)]
    if not len(x) or not len(y):
        return None
    x0, x1, y0, y1 = float(x.min()), float(x.max()), float(y.min()), float(y.max())
    pad = half(y0, y1) * 0.08 or abs(y0) * 0.05 or 1.0
    # Steps near 2**63 are hundreds apart as floats.
    x1 = x1 if x1 > x0 else x0 + max(1.0, 4 * math.ulp(x0))
    return Scale(x0, x1, max(y0 - pad, -LARGEST), min(y1 + pad, LARGEST))


def grid(scale: Scale) -> list[str]:
    """Return the grid with its labels."""
    shapes = []
    for value in ticks(scale.y0, scale.y1, 4):
        y = scale.down(value)
        shapes.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'
        )
    for value in ticks(scale.x0, scale.x1, 5):
        x = scale.across(value)
        shapes.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{short(value)}</text>')
    return shapes


def ink(line: PlotLine) -> str:
    """Return a line's colour."""
    return f"var(--c{line.colour % COLOURS})"


def drawn(line: PlotLine, scale: Scale) -> list[str]:
    """Return a line, and below it the range that its points stand for."""
    colour, shapes = ink(line), []
    if line.low is not None and line.high is not None:
        there = np.isfinite(line.low) & np.isfinite(line.high) & np.isfinite(line.x)
        x = scale.across(line.x[there])
        upper = points(x, scale.down(line.high[there]))
        lower = points(x[::-1], scale.down(line.low[there][::-1]))
        shapes.append(f'<polygon points="{upper} {lower}" fill="{colour}" fill-opacity="0.25"/>')
    dash = ' stroke-dasharray="4 3"' if line.dashed else ""
    for x, y in pieces(line, scale):
        if len(x) == 1:
            shapes.append(f'<circle cx="{x[0]:.1f}" cy="{y[0]:.1f}" r="2" fill="{colour}"/>')
        else:
            shapes.append(
                f'<polyline points="{points(x, y)}" fill="none" stroke="{colour}" stroke-width="1.5"{dash}/>'
            )
    return shapes


def pieces(line: PlotLine, scale: Scale) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the stretches of finite points."""
    there = np.isfinite(line.x) & np.isfinite(line.value)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(np.int8), [0]])))
    return [
        (scale.across(line.x[begin:end]), scale.down(line.value[begin:end]))
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def points(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    """Return points in SVG's notation."""
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values between two bounds, about ``most`` of them."""
    rough = half(low, high) / most * 2
    if rough < SMALLEST or low + rough / 10 == low or high - rough / 10 == high:
        return [low] if low == high else [low, high]  # nothing round lies between neighbours
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(nice for nice in NICE if nice * magnitude >= rough * 0.99)
    return [at * step for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Return a number for an axis."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
    return f"{value:.1e}"
