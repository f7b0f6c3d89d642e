"""The answer to a chart of a given width: raw points if they fit, else buckets on common edges.

Bucket edges are whole multiples of a width from a fixed ladder. So they are the same for all lines, and they
stay where they are while a run grows or a view is panned: the picture does not shimmer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.kernels import bucket
from stepscope.store import pyramid
from stepscope.store.grid import Grid, place, real_grid, whole_grid
from stepscope.store.series import Series
from stepscope.store.smooth import smoothed

XAxis = Literal["step", "wall", "relative", "tag"]
Array = NDArray[Any]

RAW_ROWS_PER_BUCKET = 4
"""Raw points are sent while all lines together have at most this many different x per requested bucket: the
chart joins them on one x column."""
DRAWN_PER_BUCKET = 4
"""First, minimum, maximum and last."""


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """The part of one series that is shown.

    Attributes:
        points: Points in the range.
        nonfinite: NaN and infinite values among them.
        superseded_from: The x from which a later attempt recorded it again; None: it did not.
        columns: Raw: ``x value``, by ascending x. Buckets: ``first min max last`` (NaN: no finite value
            there) and ``count nonfinite``. With smoothing also ``smoothed``, in buckets that of the last
            finite value.
    """

    points: int
    nonfinite: int
    superseded_from: float | None
    columns: dict[str, Array]


@dataclass(frozen=True, slots=True)
class View:
    """The part of all series of a chart that is shown.

    Attributes:
        x0: First x requested, or else of the data; None without data.
        x1: Last x, likewise.
        x: Middles of the buckets, or the places of means; None for raw points.
        total_points: Points in the range.
        shown_points: Points among them that the columns hold.
    """

    mode: Literal["raw", "buckets", "groups"]
    x0: float | None
    x1: float | None
    x: NDArray[np.float64] | None
    total_points: int
    shown_points: int
    lines: list[SeriesLine]


@dataclass(frozen=True, slots=True)
class Axis:
    """The x of one series: its column, and whether that never falls."""

    x: Array
    ascending: bool


def buckets(
    series: Sequence[Series],
    *,
    x: XAxis = "step",
    x0: float | None = None,
    x1: float | None = None,
    buckets: int = 600,
    smoothing: float = 0.0,
    weights: Sequence[float] | None = None,
    axes: Sequence[Axis] | None = None,
) -> View:
    """Return the answer to a chart.

    Raw points are returned if no line has more than ``buckets`` of them between x0 and x1 and all lines
    together have at most four times as many different x; with one point more on either side of a line, so
    that it reaches the edge.

    Args:
        series: The lines.
        x: Step, wall time in seconds since the epoch, seconds since the run began, or another tag.
        x0: First x, None for the beginning of the data.
        x1: Last x, None for the end.
        buckets: Most buckets to return.
        smoothing: Weight of the exponential average, 0 for none, over the mean distance of two points of a
            series. The average runs over the whole series before any reduction.
        weights: The weight of each series, instead of one for all.
        axes: The x of each line if it is another tag.

    Raises:
        UsageError: Arguments out of range.
    """
    if buckets < 1 or not 0 <= smoothing < 1:
        raise UsageError(
            f"cannot draw {buckets} buckets with smoothing {smoothing}",
            hint="use at least 1 bucket, smoothing in [0, 1)",
        )
    axes = [axis_of(line, x) for line in series] if axes is None else axes
    weights = [smoothing] * len(series) if weights is None else weights
    asked = list(zip(series, axes, weights, strict=True))
    begin, end = extent(axes, x0, x1)
    if begin is None or end is None:
        return View("raw", x0, x1, None, 0, 0, [empty(line, weight) for line, _, weight in asked])
    if fits(axes, begin, end, buckets):
        lines = [raw(line, axis, begin, end, x, weight) for line, axis, weight in asked]
        total = sum(line.points for line in lines)
        return View("raw", float(begin), float(end), None, total, total, lines)
    grid = whole_grid(begin, end, buckets) if x == "step" else real_grid(begin, end, buckets)
    lines = [reduced(line, axis, grid, x, weight) for line, axis, weight in asked]
    shown = sum(int(np.minimum(line.columns["count"], DRAWN_PER_BUCKET).sum()) for line in lines)
    return View(
        "buckets", float(begin), float(end), grid.middles, sum(line.points for line in lines), shown, lines
    )


def axis_of(series: Series, x: XAxis) -> Axis:
    """Return the x column of a series."""
    facts, columns = series.points.facts, series.points.columns
    if x == "step":
        return Axis(columns.step, facts.step_sorted)
    return Axis(columns.wall if x == "wall" else columns.wall - series.start_wall, facts.wall_sorted)


def extent(axes: Sequence[Axis], x0: float | None, x1: float | None) -> tuple[Any, Any]:
    """Return the requested range, filled in from the data; None if there is neither.

    Steps stay whole numbers, exact beyond 2**53. A reversed range is turned around.
    """
    ends = [bounds for axis in axes if (bounds := bounds_of(axis)) is not None]
    begin = min((low for low, _ in ends), default=None) if x0 is None else finite(x0, "x0")
    end = max((high for _, high in ends), default=None) if x1 is None else finite(x1, "x1")
    if begin is None or end is None or not ends:
        return None, None
    return (end, begin) if begin > end else (begin, end)


def finite(x: float, name: str) -> float:
    """Return one end of a range.

    Raises:
        UsageError: It is not finite.
    """
    if not math.isfinite(x):
        raise UsageError(f"{name}={x} is not a place on an axis", hint="leave it out for the end of the data")
    return x


def bounds_of(axis: Axis) -> tuple[Any, Any] | None:
    """Return the smallest and the largest finite x."""
    x = axis.x
    if not axis.ascending or (x.dtype.kind == "f" and not (math.isfinite(x[0]) and math.isfinite(x[-1]))):
        x = x[np.isfinite(x)]
        return (x.min().item(), x.max().item()) if len(x) else None
    return x[0].item(), x[-1].item()


def fits(axes: Sequence[Axis], begin: float, end: float, buckets: int) -> bool:
    """Return whether the points in the range are few enough to be sent as they are."""
    columns: dict[int, Array] = {}
    for axis in axes:
        if axis.ascending:
            inside = axis.x[place(axis.x, begin, "left") : place(axis.x, end, "right")]
        else:
            inside = axis.x[(axis.x >= begin) & (axis.x <= end)]
        if len(inside) > buckets:
            return False
        columns[id(axis.x)] = inside  # many tags share one column of steps
    if sum(map(len, columns.values())) <= RAW_ROWS_PER_BUCKET * buckets:
        return True
    return len(np.unique(np.concatenate(list(columns.values())))) <= RAW_ROWS_PER_BUCKET * buckets


def raw(series: Series, axis: Axis, begin: float, end: float, kind: XAxis, smoothing: float) -> SeriesLine:
    """Return the points of a line in a range and their neighbours, by ascending x."""
    points = series.points.columns.value[: len(axis.x)]
    order = None if axis.ascending else np.argsort(axis.x, kind="stable")
    x = axis.x if order is None else axis.x[order]
    # NaN is sorted behind infinity; neither is a neighbour.
    bottom, size = (
        (place(x, -np.inf, "right"), place(x, np.inf, "left")) if x.dtype.kind == "f" else (0, len(x))
    )
    low, high = place(x[:size], begin, "left"), place(x[:size], end, "right")
    rows = slice(max(low - 1, bottom), min(high + 1, size))
    taken: Array | slice = rows if order is None else order[rows]
    columns = {"x": x[rows].astype(np.float64), "value": points[taken]}
    if smoothing:
        columns["smoothed"] = smoothed(series.points, smoothing)[: len(axis.x)][taken].astype(np.float32)
    inside = x[low:high]
    values = points[low:high] if order is None else points[order[low:high]]
    return SeriesLine(
        len(inside), int(np.count_nonzero(~np.isfinite(values))), superseded_x(series, axis, kind), columns
    )


def reduced(series: Series, axis: Axis, grid: Grid, kind: XAxis, smoothing: float) -> SeriesLine:
    """Return a line reduced to the buckets of a grid."""
    value = np.ascontiguousarray(series.points.columns.value[: len(axis.x)])
    size = len(grid.starts)
    low, high = np.full(size, np.inf, value.dtype), np.full(size, -np.inf, value.dtype)
    first_at, last_at = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    nonfinite = np.zeros(size, np.uint32)
    if axis.ascending:
        lo, hi = grid.spans(axis.x)
        count = (hi - lo).astype(np.uint32)
        if len(value) >= pyramid.BIG and hi[-1] - lo[0] > pyramid.WORTH * size:
            bucket.ends(value, lo, hi, first_at, last_at)
            pyramid.reduce(series.points.pyramid, value, lo, hi, low, high, nonfinite)
        else:
            bucket.spans(value, lo, hi, first_at, last_at, low, high, nonfinite)
    else:
        count = np.zeros(size, np.uint32)
        x = np.ascontiguousarray(axis.x, dtype=grid.starts.dtype)
        bucket.scatter(x, value, grid.starts, grid.top, first_at, last_at, low, high, count, nonfinite)
    nothing = last_at < 0
    columns = {
        "first": value[first_at],
        "min": low,
        "max": high,
        "last": value[last_at],
        "count": count,
        "nonfinite": nonfinite,
    }
    if smoothing:
        columns["smoothed"] = smoothed(series.points, smoothing)[: len(value)][last_at].astype(np.float32)
    for name in columns.keys() - {"count", "nonfinite"}:
        columns[name][nothing] = np.nan
    return SeriesLine(int(count.sum()), int(nonfinite.sum()), superseded_x(series, axis, kind), columns)


def superseded_x(series: Series, axis: Axis, kind: XAxis) -> float | None:
    """Return the x at which a later attempt took over, None if none did."""
    step = series.superseded_from
    if step is None:
        return None
    if kind == "step":
        return float(step)
    over = axis.x[series.points.columns.step[: len(axis.x)] >= step]
    over = over[np.isfinite(over)]
    return float(over.min()) if len(over) else None


def empty(series: Series, smoothing: float) -> SeriesLine:
    """Return a line without points."""
    columns: dict[str, Array] = {"x": np.empty(0), "value": np.empty(0, series.points.columns.value.dtype)}
    if smoothing:
        columns["smoothed"] = np.empty(0, np.float32)
    return SeriesLine(0, 0, None, columns)
