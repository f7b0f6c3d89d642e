"""Answers to ``POST series``: checked, drawn by the store once for all clients, packed into a frame."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import UnknownRunError, UnknownTagError, UsageError
from stepscope.serve.frame import Arrays, pack
from stepscope.serve.reply import Refusal
from stepscope.serve.types import (
    MAX_LINES,
    ChartAnswer,
    ChartRequest,
    LastPoint,
    Line,
    LineRequest,
    NonFinite,
    SeriesHeader,
    SeriesRequest,
)
from stepscope.store.query import View, buckets

if TYPE_CHECKING:
    from stepscope.store import Log, Series

KEPT_BYTES = 64 << 20
"""Drawn charts that are kept for the next client or the way back."""
decoder = msgspec.json.Decoder(SeriesRequest)


def answer(body: bytes, log: Log | None, views: Views) -> bytes:
    """Return the frame that answers a request.

    Args:
        body: JSON of a ``SeriesRequest``.
        log: None while nothing has been read; every line is missing then.
        views: Charts drawn before.

    Raises:
        Refusal: The body is no request, or asks for too much.
    """
    arrays = Arrays()
    charts = [chart_answer(chart, log, views, arrays) for chart in checked(body).charts]
    return pack(SeriesHeader(charts), arrays)


def checked(body: bytes) -> SeriesRequest:
    """Decode a request and hold it against the limits."""
    try:
        request = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, f"not a series request: {error}", "see docs/http-api.md") from None
    lines = sum(len(chart.lines) for chart in request.charts)
    if lines > MAX_LINES:
        raise Refusal(
            400, f"{lines} lines: at most {MAX_LINES} in one request", "ask for the charts in view only"
        )
    return request


def chart_answer(chart: ChartRequest, log: Log | None, views: Views, arrays: Arrays) -> ChartAnswer:
    """Return one chart, its columns appended to the arrays."""
    found: list[Series] = []
    missing: list[LineRequest] = []
    for line in chart.lines:
        series = series_of(log, line)
        found += series
        if not series:
            missing.append(line)
    view = views.view(chart, found)
    return ChartAnswer(
        id=chart.id,
        x=chart.x,
        x0=view.x0,
        x1=view.x1,
        mode=view.mode,
        buckets=0 if view.x is None else len(view.x),
        total_points=view.total_points,
        shown_points=view.shown_points,
        x_column=None if view.x is None else arrays.add(view.x),
        lines=[
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
            for series, drawn in zip(found, view.lines, strict=True)
        ],
        missing=missing,
    )


def series_of(log: Log | None, line: LineRequest) -> list[Series]:
    """Return the series of a line; none where the log does not hold it, as after a run was deleted."""
    if log is None:
        return []
    try:
        return log.run(line.run).columns(line.tag)
    except (UnknownRunError, UnknownTagError):
        return []


def last_point(series: Series) -> LastPoint:
    """Return the newest point, its value in a form that JSON can carry."""
    last = series.last
    return LastPoint(last.step, last.wall, number(last.value))


def number(value: float) -> float | NonFinite:
    """Return a number, or the word for what JSON has none for."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class Views:
    """Charts that have been drawn, the least recently used forgotten first.

    A chart is known by what is asked and by the points it is drawn from, so it never has to be taken back.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.kept_bytes = kept_bytes
        self.size_bytes = 0
        self.drawn = 0
        self._views: OrderedDict[Hashable, View] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, chart: ChartRequest, series: list[Series]) -> View:
        """Return a chart, drawn anew only where something in it has changed.

        Raises:
            Refusal: The range is none.
        """
        asked = (chart.x, chart.x0, chart.x1, chart.buckets, chart.smoothing)
        lines = (
            (each.points.serial, each.points.count, each.superseded_from, each.start_wall) for each in series
        )
        key = (asked, tuple(lines))
        with self._lock:
            known = self._views.get(key)
            if known is not None:
                self._views.move_to_end(key)
                return known
        try:
            view = buckets(
                series, x=chart.x, x0=chart.x0, x1=chart.x1, buckets=chart.buckets, smoothing=chart.smoothing
            )
        except UsageError as error:
            raise Refusal(400, error.message, error.hint) from None
        self.keep(key, view)
        return view

    def keep(self, key: Hashable, view: View) -> None:
        """Remember a chart and forget others until all fit."""
        with self._lock:
            self.drawn += 1
            if key not in self._views:
                self._views[key] = view
                self.size_bytes += size_bytes(view)
            while self.size_bytes > self.kept_bytes and self._views:
                self.size_bytes -= size_bytes(self._views.popitem(last=False)[1])


def size_bytes(view: View) -> int:
    """Return the memory that a view's columns take."""
    columns = [column for line in view.lines for column in line.columns.values()]
    return sum(column.nbytes for column in columns) + (0 if view.x is None else view.x.nbytes)
