"""Line charts in the terminal: plotext draws them in braille, two dots wide and four high in each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.text import Text
from textual_plotext.plot import Plot

LABEL = 9
"""Columns of the labels left of a plot."""
DASH = 4
"""Dots that a dash is long, and the gap after it."""
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
SMALLEST = 1e-300
"""The least distance of ticks: below it, powers of ten lose their digits."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PlotCurve:
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
class AxisSpan:
    """The span of an axis, in values or, on a log axis, their decimal logarithms."""

    x0: float
    x1: float
    y0: float
    y1: float
    log: bool


def plot(traces: Sequence[PlotCurve], columns: int, rows: int, *, log: bool = False) -> Text:
    """Return a chart of a given size in cells, labels included; says so if there is nothing to draw."""
    frame = frame_of(traces, log=log)
    if frame is None or columns < LABEL + 5 or rows < 3:
        words = "no finite points" if frame is None else "too small"
        return Text("\n" * (rows // 2) + words.center(columns), "dim")
    canvas: Any = Plot()
    canvas.plot_size(columns, rows)
    canvas.theme("clear")
    canvas.xaxes(False, False)
    canvas.yaxes(True, False)
    canvas.xlim(frame.x0, frame.x1)
    canvas.ylim(frame.y0, frame.y1)
    canvas.xticks([frame.x0, frame.x1], [short(frame.x0), short(frame.x1)])
    values = ticks(frame.y0, frame.y1, max(2, rows // 2))
    canvas.yticks(values, [f"{short(10.0**value if log else value):>{LABEL}}" for value in values])
    for trace in traces:
        ink = tuple(Color.parse(trace.colour).get_truecolor())
        for x, low, high in stretches(trace, log=log):
            if trace.dashed:
                canvas.scatter(*dashes(frame, x, (low + high) / 2, columns), color=ink, marker="braille")
            else:
                strokes = np.stack([low, high], 1).reshape(-1)
                canvas.plot(np.repeat(x, 2).tolist(), strokes.tolist(), color=ink, marker="braille")
    lines = Text.from_ansi(canvas.build()).split("\n")[:rows]
    for line in lines:
        line.truncate(columns, pad=True)
    return Text("\n").join(lines)


def stretches(trace: PlotCurve, *, log: bool) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield x, least and greatest of each stretch of points that can be drawn."""
    low, high = scale(trace.low, log=log), scale(trace.high, log=log)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], usable(trace.x, low, high), [0]])))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield trace.x[begin:end], low[begin:end], high[begin:end]


def dashes(frame: AxisSpan, x: Floats, y: Floats, columns: int) -> tuple[list[float], list[float]]:
    """Return the dots of a line that leaves gaps, on a grid of two dots a cell."""
    at = np.linspace(frame.x0, frame.x1, 2 * columns)
    at = at[(np.arange(len(at)) // DASH % 2 == 0) & (at >= x[0]) & (at <= x[-1])]
    at = at if len(at) else x[:1]
    return at.tolist(), np.interp(at, x, y).tolist()


def frame_of(traces: Sequence[PlotCurve], *, log: bool) -> AxisSpan | None:
    """Return the range of the axes; None if no point can be drawn."""
    scaled = [(trace.x, *(scale(bound, log=log) for bound in (trace.low, trace.high))) for trace in traces]
    usable_bands = [
        (x[ok], low[ok], high[ok]) for x, low, high in scaled if (ok := usable(x, low, high)).any()
    ]
    if not usable_bands:
        return None
    x0, x1 = (float(of([of(x) for x, _, _ in usable_bands])) for of in (min, max))
    y0 = float(min(low.min() for _, low, _ in usable_bands))
    y1 = float(max(high.max() for _, _, high in usable_bands))
    if y0 == y1:
        pad = abs(y0) * 0.05 or 1.0
        y0, y1 = y0 - pad, y1 + pad
    return AxisSpan(x0, x1 if x1 > x0 else x0 + 1.0, y0, y1, log)


def scale(values: NDArray[Any], *, log: bool) -> NDArray[np.float64]:
    """Return values as the axis places them; values that a log axis cannot show become NaN."""
    plain = np.asarray(values, np.float64)
    if not log:
        return plain
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(plain > 0, np.log10(plain), np.nan)


def usable(*columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the rows in which all columns are finite."""
    flags: NDArray[np.bool_] = np.logical_and.reduce([np.isfinite(column) for column in columns])
    return flags


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values between two bounds, about ``most`` of them."""
    rough = (high / 2 - low / 2) / most * 2  # the whole may be more than a float holds
    if rough < SMALLEST or low + rough / 10 == low or high - rough / 10 == high:
        return [low] if low == high else [low, high]  # nothing round lies between neighbours
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(nice for nice in NICE if nice * magnitude >= rough * 0.99)
    return [at * step for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Return a number in at most nine characters."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        text = f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
        return text if len(text) <= LABEL else f"{value:.3g}"
    return f"{value:.2e}".replace("e+0", "e+").replace("e-0", "e-")
