"""Line charts out of braille characters: each cell of the terminal is two dots wide and four high."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from stepscope.export.plot import ticks

BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille cell, row by row (Unicode, block Braille Patterns)."""
LABEL = 9
"""Columns of the labels left of a plot."""


@dataclass(frozen=True)
class Trace:
    """One line of a chart.

    Attributes:
        colour: As rich names it.
        x: float64 [points], ascending.
        low: float64 [points]: the least value at each x; NaN breaks the line.
        high: float64 [points]: the greatest value at each x.
        dashed: Whether to leave gaps, as for evaluation beside training.
    """

    colour: str
    x: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    dashed: bool = False


@dataclass(frozen=True)
class Frame:
    """What an axis spans, in values or, on a log axis, their decimal logarithms."""

    x0: float
    x1: float
    y0: float
    y1: float
    log: bool


@dataclass
class Canvas:
    """Dots on a grid of cells; of a cell that several lines cross, the last one gives the colour.

    Args:
        columns: Cells across.
        rows: Cells down.
    """

    columns: int
    rows: int
    bits: NDArray[np.uint8] = field(init=False)
    ink: dict[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bits = np.zeros((self.rows, self.columns), np.uint8)

    def dot(self, x: int, y: int, colour: str) -> None:
        """Set one dot, counted from the upper left; outside the canvas nothing happens."""
        if 0 <= x < 2 * self.columns and 0 <= y < 4 * self.rows:
            cell = y // 4, x // 2
            self.bits[cell] |= BITS[y % 4][x % 2]
            self.ink[cell] = colour

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: str, *, dashed: bool = False) -> None:
        """Draw from one dot to another."""
        count = max(abs(x1 - x0), abs(y1 - y0), 1)
        for at in range(count + 1):
            x, y = round(x0 + (x1 - x0) * at / count), round(y0 + (y1 - y0) * at / count)
            if not dashed or (x + y) % 4 < 2:
                self.dot(x, y, colour)

    def row(self, at: int) -> Text:
        """Return one row of cells as text; neighbours of one colour in one piece."""
        cells = [(self.ink.get((at, column), ""), int(bits)) for column, bits in enumerate(self.bits[at])]
        pieces = groupby(cells, key=lambda cell: cell[0])
        return Text.assemble(*(("".join(glyph(bits) for _, bits in piece), ink) for ink, piece in pieces))


def glyph(bits: int) -> str:
    """Return the character of a cell."""
    return chr(0x2800 + bits) if bits else " "


def plot(traces: Sequence[Trace], columns: int, rows: int, *, log: bool = False) -> Text:
    """Return a chart of a given size in cells, labels included; says so where there is nothing to draw."""
    wide, high = columns - LABEL - 1, rows - 1
    frame = frame_of(traces, log=log)
    if frame is None or wide < 4 or high < 2:
        words = "no finite points" if frame is None else "too small"
        return Text("\n" * (rows // 2) + words.center(columns), "dim")
    canvas = Canvas(wide, high)
    for trace in traces:
        draw(canvas, trace, frame)
    labels = y_labels(frame, high)
    lines = [
        Text(f"{labels.get(at, ''):>{LABEL}}", "dim") + Text("│", "dim") + canvas.row(at)
        for at in range(high)
    ]
    return Text("\n").join([*lines, x_line(frame, wide)])


def frame_of(traces: Sequence[Trace], *, log: bool) -> Frame | None:
    """Return what the axes must span; None where no point can be drawn."""
    scaled = [(trace.x, *(scale(bound, log=log) for bound in (trace.low, trace.high))) for trace in traces]
    kept = [(x[ok], low[ok], high[ok]) for x, low, high in scaled if (ok := usable(x, low, high)).any()]
    if not kept:
        return None
    x0, x1 = (float(of([of(x) for x, _, _ in kept])) for of in (min, max))
    y0 = float(min(low.min() for _, low, _ in kept))
    y1 = float(max(high.max() for _, _, high in kept))
    if y0 == y1:
        pad = abs(y0) * 0.05 or 1.0
        y0, y1 = y0 - pad, y1 + pad
    return Frame(x0, x1 if x1 > x0 else x0 + 1.0, y0, y1, log)


def scale(values: NDArray[Any], *, log: bool) -> NDArray[np.float64]:
    """Return values as the axis places them; what a log axis cannot show becomes NaN."""
    plain = np.asarray(values, np.float64)
    if not log:
        return plain
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(plain > 0, np.log10(plain), np.nan)


def usable(*columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where all columns are finite."""
    found: NDArray[np.bool_] = np.logical_and.reduce([np.isfinite(column) for column in columns])
    return found


def draw(canvas: Canvas, trace: Trace, frame: Frame) -> None:
    """Draw one line: a stroke from least to greatest at each x, and strokes between neighbours."""
    low, high = scale(trace.low, log=frame.log), scale(trace.high, log=frame.log)
    ok = usable(trace.x, low, high)
    across, down = 2 * canvas.columns - 1, 4 * canvas.rows - 1
    xs = np.where(ok, (trace.x - frame.x0) / (frame.x1 - frame.x0) * across, 0)
    tops = np.where(ok, (frame.y1 - high) / (frame.y1 - frame.y0) * down, 0)
    ends = np.where(ok, (frame.y1 - low) / (frame.y1 - frame.y0) * down, 0)
    before: tuple[int, int] | None = None
    for there, x, top, end in zip(ok, np.rint(xs), np.rint(tops), np.rint(ends), strict=True):
        if not there:
            before = None
            continue
        at, upper, lower = int(x), int(top), int(end)
        canvas.line(at, upper, at, lower, trace.colour, dashed=trace.dashed)
        if before is not None:
            canvas.line(*before, at, (upper + lower) // 2, trace.colour, dashed=trace.dashed)
        before = at, (upper + lower) // 2


def y_labels(frame: Frame, rows: int) -> dict[int, str]:
    """Return the labels of the y axis by row: round values, none in a row that has one already."""
    labels: dict[int, str] = {}
    for value in ticks(frame.y0, frame.y1, max(2, rows // 2)):
        row = min(rows - 1, int((frame.y1 - value) / (frame.y1 - frame.y0) * (4 * rows - 1)) // 4)
        labels.setdefault(row, short(10.0**value if frame.log else value))
    return labels


def x_line(frame: Frame, columns: int) -> Text:
    """Return the line below a plot: where it begins and where it ends."""
    begin, end = short(frame.x0), short(frame.x1)
    return Text(" " * (LABEL + 1) + begin + end.rjust(max(1, columns - len(begin))), "dim")


def short(value: float) -> str:
    """Return a number in at most nine characters."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        text = f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
        return text if len(text) <= LABEL else f"{value:.3g}"
    return f"{value:.2e}".replace("e+0", "e+").replace("e-0", "e-")
