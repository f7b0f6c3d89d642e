"""Answers to ``POST series``: checked, drawn by the store once for all clients, packed into a frame."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope import text
from stepscope.lru import Current
from stepscope.serve.encode import number
from stepscope.serve.frame import FrameArrays, pack
from stepscope.serve.lines import FoundSeries, find
from stepscope.serve.reply import DESCRIBED, Refusal, refusing
from stepscope.serve.types import (
    MAX_LINES,
    ChartAnswer,
    ChartRequest,
    LastPoint,
    Line,
    SeriesHeader,
    SeriesRequest,
)
from stepscope.store.derive import across
from stepscope.store.groups import GroupLine, grouped
from stepscope.store.query import Axis, View, axis_of, bounds_of, buckets, extent
from stepscope.store.smooth import weights_of

if TYPE_CHECKING:
    from stepscope.store import Log, Series

KEPT_BYTES = 64 << 20
"""Most drawn charts that are kept for the next client or for going back."""
decoder = msgspec.json.Decoder(SeriesRequest)


def answer(body: bytes, log: Log | None, views: DrawnCharts) -> bytes:
    """Return the frame that answers a request.

    Args:
        body: JSON of a ``SeriesRequest``.
        log: None while nothing has been read; every line is missing then.
        views: Charts drawn before.

    Raises:
        Refusal: The body is not a request, or asks for too much.
    """
    arrays = FrameArrays()
    charts = [chart_answer(chart, log, views, arrays) for chart in checked(body).charts]
    return pack(SeriesHeader(charts), arrays)


def checked(body: bytes) -> SeriesRequest:
    """Decode a request and check it against the limits."""
    try:
        request = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"not a series request: {error}", DESCRIBED) from None
    lines = sum(len(chart.lines) for chart in request.charts)
    if lines > MAX_LINES:
        raise Refusal(
            400, f"{lines} lines: at most {MAX_LINES} in one request", "ask for the charts in view only"
        )
    return request


def chart_answer(
    chart: ChartRequest, log: Log | None, views: DrawnCharts, arrays: FrameArrays
) -> ChartAnswer:
    """Return one chart, its columns appended to the arrays."""
    lookup = find(chart, log)
    if chart.x == "tag" and not chart.x_tag:
        raise Refusal(400, "x is 'tag', but no tag is named", "add x_tag")
    shown = views.shown(chart, lookup, smoothing_weights(chart, lookup, log))
    view = shown.view
    if log is not None and chart.x == "step":
        note_other_counts(lookup, view, chart.buckets, log)
    return ChartAnswer(
        id=chart.id,
        x=chart.x,
        x0=view.x0,
        x1=view.x1,
        first=None if shown.extent is None else float(shown.extent[0]),
        end=None if shown.extent is None else float(shown.extent[1]),
        mode=view.mode,
        buckets=0 if view.x is None else len(view.x),
        total_points=view.total_points,
        shown_points=view.shown_points,
        x_column=None if view.x is None else arrays.add(view.x),
        lines=group_lines(lookup, shown, arrays) if shown.groups else lines(lookup, view, arrays),
        missing=lookup.missing,
        notes=lookup.notes,
        mistake=lookup.mistake,
        x_interpolated=shown.interpolated,
        x_missing=shown.missing,
    )


def smoothing_weights(chart: ChartRequest, lookup: FoundSeries, log: Log | None) -> list[float]:
    """Return the weight by which each series is smoothed."""
    if log is None or chart.smooth_all or not chart.smoothing:
        return [chart.smoothing] * len(lookup.series)
    return weights_of(lookup.series, map(log.run, {series.run for series in lookup.series}), chart.smoothing)


NARROW_COLUMNS = 2
"""Columns of a chart in which a line is a vertical stroke."""


def note_other_counts(lookup: FoundSeries, view: View, columns: int, log: Log) -> None:
    """Note the lines whose steps are not those of the axis.

    Some start over, as a counter does that counts from 0 in each epoch: they are drawn over themselves.
    Others count something else, such as epochs on an axis of iterations: their steps are a stroke of the
    axis, and yet they were recorded over most of their run's time.
    """
    for series in lookup.series:
        if not series.points.facts.step_sorted:
            falls = int(np.count_nonzero(np.diff(series.step) < 0))
            lookup.note(
                f"the steps of {series.tag} start over {text.often(falls)}",
                "its parts are drawn over each other: choose time as the x axis, or log a step that goes on",
            )
    if view.x0 is None or view.x1 is None:
        return
    for series in lookup.series:
        axis, times = axis_of(series, "step"), axis_of(series, "wall")
        steps, walls, run = bounds_of(axis), bounds_of(times), log.run(series.run)
        first, last = run.first_wall, run.last_wall
        if steps is None or walls is None or first is None or last is None or steps[0] == steps[1]:
            continue
        narrow = (steps[1] - steps[0]) * columns < NARROW_COLUMNS * (view.x1 - view.x0)
        if narrow and 2 * (walls[1] - walls[0]) > last - first:
            lookup.note(
                f"{series.tag} has steps {steps[0]:,} to {steps[1]:,} of {view.x0:,.0f} to {view.x1:,.0f}, "
                "recorded over most of the run",
                "its steps count something else, such as epochs: choose time as the x axis",
            )


def lines(lookup: FoundSeries, view: View, arrays: FrameArrays) -> list[Line]:
    """Return a line per series."""
    return [
        Line(
            run=series.run,
            tag=series.tag,
            split=series.split,
            writer=series.writer,
            attempt=series.attempt,
            superseded_from=drawn.superseded_from,
            points=drawn.points,
            nonfinite=drawn.nonfinite,
            last=last_point(series),
            columns={name: arrays.add(column) for name, column in drawn.columns.items()},
        )
        for series, drawn in zip(lookup.series, view.lines, strict=True)
    ]


def group_lines(lookup: FoundSeries, shown: DrawnChart, arrays: FrameArrays) -> list[Line]:
    """Return a line per group, named by its first run."""
    first: dict[str, str] = {}
    for group, series in zip(lookup.groups, lookup.series, strict=True):
        first.setdefault(group, series.run)
    return [
        Line(
            run=first[one.group],
            tag=one.tag,
            split=one.split,
            writer="",
            attempt=1,
            superseded_from=None,
            points=one.line.points,
            nonfinite=one.line.nonfinite,
            last=None,
            columns={name: arrays.add(column) for name, column in one.line.columns.items()},
            group=one.group,
            members=one.members,
            filled=one.filled,
        )
        for one in shown.groups
    ]


def last_point(series: Series) -> LastPoint:
    """Return the newest point, its value as a JSON type."""
    last = series.last
    return LastPoint(last.step, last.wall, number(last.value))


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A drawn chart.

    Attributes:
        groups: The means, if lines have groups; then the view holds theirs.
        interpolated: Points whose x was interpolated.
        missing: Points without an x.
        extent: First and last x of the data, whatever was requested; None without data.
    """

    view: View
    groups: list[GroupLine]
    interpolated: int
    missing: int
    extent: tuple[float, float] | None


class DrawnCharts:
    """Charts that have been drawn, the least recently used forgotten first.

    A chart is known by the question and its series, and holds for the points it is drawn from; with more
    points it is drawn again, and the earlier one is forgotten.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.drawn = 0
        self.views: Current[Hashable, DrawnChart] = Current(kept_bytes, size_bytes)

    def shown(self, chart: ChartRequest, lookup: FoundSeries, weights: Sequence[float]) -> DrawnChart:
        """Return a chart, redrawn only if something in it has changed.

        Args:
            chart: The question.
            lookup: Its series.
            weights: By which each is smoothed.

        Raises:
            Refusal: The range is none.
        """
        asked = (chart.x, chart.x_tag, chart.x0, chart.x1, chart.buckets, chart.band)
        key = (asked, tuple(map(name, lookup.series)), tuple(lookup.groups), others(lookup, name))
        points = tuple(map(identity, lookup.series)), others(lookup, identity), tuple(weights)
        with refusing():
            return self.views.of(key, points, lambda: self._draw(chart, lookup, weights))

    def _draw(self, chart: ChartRequest, lookup: FoundSeries, weights: Sequence[float]) -> DrawnChart:
        view = draw(chart, lookup, weights)
        self.drawn += 1
        return view


def name(series: Series) -> Hashable:
    """Return which series it is, however many points it has."""
    return series.run, series.tag, series.writer, series.attempt, series.split


def identity(series: Series) -> Hashable:
    """Return the inputs of a series' picture."""
    return series.points.serial, series.points.count, series.superseded_from, series.start_wall


def others(lookup: FoundSeries, of: Callable[[Series], Hashable]) -> Hashable:
    """Return the same of the series on which the x axis depends, if it is another tag."""
    return tuple(tuple(map(of, series)) for series in lookup.others)


def draw(chart: ChartRequest, lookup: FoundSeries, weights: Sequence[float]) -> DrawnChart:
    """Place the series on the axis and reduce them, each for itself or as means of groups."""
    placed = [across(*pair) for pair in zip(lookup.series, lookup.others, strict=False)]
    axes = [Axis(one.x, one.ascending) for one in placed]
    axes = axes or [axis_of(series, chart.x) for series in lookup.series]
    begin, end = extent(axes, None, None)
    whole = None if begin is None else (begin, end)
    interpolated, missing = sum(one.interpolated for one in placed), sum(one.missing for one in placed)
    if any(line.group is not None for line in chart.lines):
        made = grouped(
            lookup.series, axes, lookup.groups, kind=chart.x, x0=chart.x0, x1=chart.x1,
            buckets=chart.buckets, weights=weights, band=chart.band,
        )  # fmt: skip
        return DrawnChart(made.view, made.groups, interpolated, missing, whole)
    view = buckets(
        lookup.series, x=chart.x, x0=chart.x0, x1=chart.x1, buckets=chart.buckets, weights=weights,
        axes=axes,
    )  # fmt: skip
    return DrawnChart(view, [], interpolated, missing, whole)


def size_bytes(shown: DrawnChart) -> int:
    """Return the memory that a view's columns take."""
    view = shown.view
    columns = [column for line in view.lines for column in line.columns.values()]
    return sum(column.nbytes for column in columns) + (0 if view.x is None else view.x.nbytes)
