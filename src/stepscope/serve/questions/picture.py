"""Pictures: a chart of some curves as PNG or SVG, and any recorded picture as PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from stepscope.text import number

WIDTH, HEIGHT = 800, 450
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 40
MOST_LINES = 8
MOST_SIDE = 1024
"""Pixels of the longer side of a recorded picture: what agents look at is reduced to about this."""
GROUND = 'class="stepscope-chart" color="#1f2328"'
THEMES = (
    "<style>@media (prefers-color-scheme:dark){.stepscope-chart{color:#e6e6e6}"
    ".stepscope-chart>rect{fill:#181818}}</style>"
    '<rect width="100%" height="100%" fill="#fff"/>'
)
"""Ink and ground of an SVG: attributes for viewers that drop styles, and a style for dark colours."""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f", "text")
"""The palette of Okabe and Ito (2008), which the colour-blind tell apart; its black is the text's colour."""


class Curve(NamedTuple):
    """One line of a chart; values that are not finite leave gaps."""

    label: str
    x: NDArray[np.float64]
    value: NDArray[Any]


@dataclass
class Drawing:
    """Lines, rectangles, texts and dots, which become a PNG or an SVG.

    Colours are those of the palette, or "faint", "axis" and "text", which each form chooses for its ground.
    """

    lines: list[tuple[list[tuple[float, float]], str, float]] = field(default_factory=list)
    dots: list[tuple[float, float, str]] = field(default_factory=list)
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)

    def png(self) -> bytes:
        """Return it as PNG, on white."""
        canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
        draw, font = ImageDraw.Draw(canvas), ImageFont.load_default()
        ink = {"faint": "#dddddd", "axis": "#888888", "text": "black"}
        for points, colour, width in self.lines:
            draw.line(points, fill=ink.get(colour, colour), width=round(width))
        for x, y, colour in self.dots:
            draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=ink.get(colour, colour))
        for x, y, text, colour in self.texts:
            shown = text.encode("latin-1", "replace").decode("latin-1")  # what the built-in font can draw
            draw.text((x, y), shown, fill=ink.get(colour, colour), font=font)
        return encoded(canvas)

    def svg(self, title: str) -> str:
        """Return it as an SVG element, light or dark as the viewer prefers.

        It has a ground of its own, because as an image it does not know the colours of the page around it.

        Args:
            title: What readers of screens are told.
        """
        opacity = {"faint": ".2", "axis": ".6", "text": "1"}

        def ink(colour: str) -> str:
            return f'"currentColor" opacity="{opacity[colour]}"' if colour in opacity else f'"{colour}"'

        parts = [
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" '
            f'stroke={ink(colour)} stroke-width="{width:g}"/>'
            for points, colour, width in self.lines
        ]
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill={ink(colour)}/>' for x, y, colour in self.dots
        ]
        parts += [
            f'<text x="{x:.1f}" y="{y + 10:.1f}" fill={ink(colour)}>{escape(text)}</text>'
            for x, y, text, colour in self.texts
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'style="max-width:{WIDTH}px" font-family="sans-serif" font-size="11" {GROUND}>'
            f"<title>{escape(title)}</title>{THEMES}{''.join(parts)}</svg>"
        )


def chart(title: str, curves: Sequence[Curve], *, log: bool = False, note: str = "") -> Drawing:
    """Draw curves over their steps.

    Args:
        title: Above the plot.
        curves: At most :data:`MOST_LINES` are told apart by colour.
        log: Whether the values have a logarithmic scale; values that are not positive are left out then.
        note: A sentence instead of curves.
    """
    drawing = Drawing()
    placed = [(curve, np.asarray(curve.value, float)) for curve in curves]
    with np.errstate(divide="ignore", invalid="ignore"):
        placed = [
            (curve, np.log10(np.where(value > 0, value, np.nan)) if log else value) for curve, value in placed
        ]
    good = [value[np.isfinite(value)] for _, value in placed]
    every = np.concatenate([*good, np.empty(0)])
    steps = np.concatenate([*(curve.x for curve in curves), np.empty(0)])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    first, last = (float(steps.min()), float(steps.max())) if len(steps) else (0.0, 1.0)
    high = high if high > low else low + (abs(low) or 1.0)
    last = last if last > first else first + 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for tick in ticks(low, high):
        _, y = at(first, tick)
        drawing.lines.append(([(LEFT, y), (WIDTH - RIGHT, y)], "faint", 1))
        drawing.texts.append((4, y - 6, number(10**tick if log else tick)[:11], "text"))
    for tick in ticks(first, last):
        x, _ = at(tick, low)
        drawing.lines.append(([(x, TOP), (x, HEIGHT - BOTTOM)], "faint", 1))
        drawing.texts.append((x - 12, HEIGHT - BOTTOM + 6, f"{tick:,.10g}", "text"))
    corners = [(LEFT, TOP), (WIDTH - RIGHT, TOP), (WIDTH - RIGHT, HEIGHT - BOTTOM), (LEFT, HEIGHT - BOTTOM)]
    drawing.lines.append(([*corners, corners[0]], "axis", 1))
    drawing.texts.append((LEFT, 6, title[:100], "text"))
    if note:
        drawing.texts.append((LEFT + 8, HEIGHT / 2, note, "text"))
    for row, (line, value) in enumerate(placed):
        colour = COLOURS[row % len(COLOURS)]
        finite = np.isfinite(value)
        for piece in np.split(np.arange(len(value)), np.flatnonzero(~finite)):
            points = [at(float(line.x[one]), float(value[one])) for one in piece if finite[one]]
            if len(points) > 1:
                drawing.lines.append((points, colour, 2))
            elif points:
                drawing.dots.append((*points[0], colour))
        if line.label != title:
            drawing.texts.append((LEFT + 8 + 180 * (row % 4), 20 + 10 * (row // 4), line.label[-28:], colour))
    return drawing


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers between two."""
    raw = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    width = next(unit * step for step in (1, 2, 5, 10) if unit * step >= raw)
    return [width * count for count in range(math.ceil(low / width), math.floor(high / width) + 1)]


def png_of(data: bytes) -> bytes:
    """Return an encoded picture as PNG, its longer side at most :data:`MOST_SIDE` pixels."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.seek(0)
        small = picture.convert("RGBA" if "A" in picture.getbands() else "RGB")
    small.thumbnail((MOST_SIDE, MOST_SIDE))
    return encoded(small)


def encoded(picture: Image.Image) -> bytes:
    """Return a picture as PNG."""
    made = io.BytesIO()
    picture.save(made, "PNG", optimize=True)
    return made.getvalue()
