"""Pictures for agents: a chart of some curves, and any recorded picture, as PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
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
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7f7f7f", "#000000")
"""The palette of Okabe and Ito (2008), which the colour-blind tell apart."""


class Curve(NamedTuple):
    """One line of a chart; values that are not finite leave gaps."""

    label: str
    x: NDArray[np.float64]
    value: NDArray[Any]


def chart(title: str, curves: Sequence[Curve], *, log: bool = False) -> bytes:
    """Return a chart of curves over their steps as PNG.

    Args:
        title: Above the plot.
        curves: At most :data:`MOST_LINES` are told apart by colour.
        log: Whether the values have a logarithmic scale; values that are not positive are left out then.
    """
    canvas = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default()
    placed = [(each, np.asarray(each.value, float)) for each in curves]
    with np.errstate(divide="ignore", invalid="ignore"):
        placed = [
            (each, np.log10(np.where(value > 0, value, np.nan)) if log else value) for each, value in placed
        ]
    good = [value[np.isfinite(value)] for _, value in placed]
    every = np.concatenate([*good, np.empty(0)])
    steps = np.concatenate([*(each.x for each in curves), np.empty(0)])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    first, last = (float(steps.min()), float(steps.max())) if len(steps) else (0.0, 1.0)
    high = high if high > low else low + (abs(low) or 1.0)
    last = last if last > first else first + 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for tick in ticks(low, high):
        _, y = at(first, tick)
        draw.line((LEFT, y, WIDTH - RIGHT, y), fill="#dddddd")
        draw.text((4, y - 6), number(10**tick if log else tick)[:11], fill="black", font=font)
    for tick in ticks(first, last):
        x, _ = at(tick, low)
        draw.line((x, TOP, x, HEIGHT - BOTTOM), fill="#eeeeee")
        draw.text((x - 12, HEIGHT - BOTTOM + 6), f"{tick:,.10g}", fill="black", font=font)
    draw.rectangle((LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM), outline="#888888")
    draw.text((LEFT, 6), _latin(title)[:100], fill="black", font=font)
    for row, (each, value) in enumerate(placed):
        colour = COLOURS[row % len(COLOURS)]
        piece: list[tuple[float, float]] = []
        for x, y in zip(each.x.tolist(), value.tolist(), strict=True):
            if math.isfinite(y):
                piece.append(at(x, y))
                continue
            _stroke(draw, piece, colour)
            piece = []
        _stroke(draw, piece, colour)
        draw.text(
            (LEFT + 8 + 180 * (row % 4), 20 + 10 * (row // 4)),
            _latin(each.label)[-28:],
            fill=colour,
            font=font,
        )
    return encoded(canvas)


def _stroke(draw: ImageDraw.ImageDraw, piece: list[tuple[float, float]], colour: str) -> None:
    if len(piece) > 1:
        draw.line(piece, fill=colour, width=2)
    elif piece:
        [(x, y)] = piece
        draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=colour)


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers between two."""
    raw = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    width = next(unit * step for step in (1, 2, 5, 10) if unit * step >= raw)
    return [width * count for count in range(math.ceil(low / width), math.floor(high / width) + 1)]


def png_of(data: bytes) -> bytes:
    """Return an encoded picture as PNG, its longer side at most :data:`MOST_SIDE` pixels."""
    with Image.open(io.BytesIO(data)) as found:
        found.seek(0)
        small = found.convert("RGBA" if "A" in found.getbands() else "RGB")
    small.thumbnail((MOST_SIDE, MOST_SIDE))
    return encoded(small)


def encoded(picture: Image.Image) -> bytes:
    """Return a picture as PNG."""
    made = io.BytesIO()
    picture.save(made, "PNG", optimize=True)
    return made.getvalue()


def _latin(text: str) -> str:
    """Return what the built-in font can draw."""
    return text.encode("latin-1", "replace").decode("latin-1")
