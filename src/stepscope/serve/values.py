"""One value of a metric for each run: its newest, smallest, largest or best one, or the newest up to a step.

The run query, the order and the columns of lists, and sweeps all read values here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.names.splits import Split
from stepscope.serve.encode import number
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import parse_query
from stepscope.serve.routes import get
from stepscope.serve.run_series import points_of
from stepscope.serve.types import NonFinite, RunSummary

if TYPE_CHECKING:
    from stepscope.names.telling import Chart, ChartLine
    from stepscope.store import StoredRun
    from stepscope.store.annotations import RunNote
    from stepscope.store.series import Series

Reading = Literal["last", "best", "min", "max", "step"]
SPLITS: tuple[Split | None, ...] = ("eval", None, "train", "test")
"""A run is judged by its evaluation if it has one."""
ENDINGS: tuple[Reading, ...] = ("min", "max", "best", "last")
"""``loss.min`` asks for the smallest value of the loss."""


class MetricValues(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/values``."""

    title: str
    """Of the chart; empty: no run has the metric."""
    evaluated: bool
    """Whether some of the values are of an evaluation."""
    values: dict[str, float | NonFinite]
    """By the name of the run, that of the family for one of parts alone; without runs that have none."""


class Metric(NamedTuple):
    """The metric that a name asks for.

    Attributes:
        chart: The chart that it is on.
        lines: The lines of the chart that are read.
        reading: Which of the values.
    """

    chart: Chart
    lines: Sequence[ChartLine]
    reading: Reading


@get("values")
def values_answer(
    desk: Desk,
    metric: Annotated[str, Meta(description="title of a chart, or a tag; loss.min asks for the smallest")],
    reading: Annotated[Reading, Meta(description="which value of a run")] = "last",
    step: Annotated[int, Meta(description="last step that counts for the reading step")] = 0,
) -> MetricValues:
    """Answer one value of a metric for each run."""
    asked = named(desk.charts(), metric, reading)
    if asked is None:
        return MetricValues("", False, {})
    lower, values, evaluated = asked.chart.lower_is_better, {}, False
    for run in desk.runs():
        split, series = line_of(run, asked.lines)
        value = value_of(series, asked.reading, lower, step)
        if value is not None:
            values[run.base] = number(value)
            evaluated |= split == "eval"
    return MetricValues(asked.chart.title, evaluated, values)


def named(charts: Iterable[Chart], name: str, reading: Reading = "last") -> Metric | None:
    """Return the metric of a name: the title of a chart, a tag, or the end of one; None if there is none.

    The most telling chart counts. A title means all of it, of which the evaluation is read; a tag means
    that line alone.
    """
    by_place = sorted(charts, key=lambda chart: chart.place)
    place = _named(by_place, name)
    if place is not None:
        return Metric(*place, reading)
    stem, _, ending = name.rpartition(".")
    if stem and ending in ENDINGS and (place := _named(by_place, stem)) is not None:
        return Metric(*place, ending)
    return None


def _named(charts: Sequence[Chart], name: str) -> tuple[Chart, Sequence[ChartLine]] | None:
    for match in (name.__eq__, lambda text: text.endswith(f"/{name}")):
        for chart in charts:
            if match(chart.title):
                return chart, chart.lines
        for chart in charts:
            for line in chart.lines:
                if match(line.tag):
                    return chart, (line,)
    return None


def line_of(run: StoredRun, lines: Sequence[ChartLine]) -> tuple[Split | None, list[Series]]:
    """Return the split and the series that stand for a run and its parts; no series if it has none."""
    best: tuple[int, list[Series]] | None = None
    for part in (run, *run.parts):
        for line in lines:
            place = SPLITS.index(line.split or part.split)
            if best is not None and place >= best[0]:
                continue
            if columns := part.own_columns(line.tag):
                best = place, columns
    return (None, []) if best is None else (SPLITS[best[0]], best[1])


def value_of(series: Sequence[Series], reading: Reading, lower: bool | None, step: int = 0) -> float | None:
    """Return the value of a run; NaN if it is not finite, None if there is none.

    Args:
        series: Of one tag.
        reading: Which value; a run without a better end has no best one.
        lower: Whether less is better.
        step: Last step that counts for the reading ``step``.
    """
    if reading == "best" and lower is None:
        return None
    if reading == "last":
        written = [series for series in series if len(series)]
        if not written:
            return None
        return float(max(written, key=lambda one: (one.attempt, one.last.wall)).last.value)
    steps, values = points_of(series)
    if reading == "step":
        values = values[steps <= step]
        return float(values[-1]) if len(values) else None
    if not len(values):
        return None
    finite = values[np.isfinite(values)]
    least = reading == "min" or (reading == "best" and lower)
    return float((finite.min() if least else finite.max()) if len(finite) else np.nan)


class AskedRun:
    """The facts of a run, each of which is looked up once a query asks for it.

    Args:
        desk: Knows them.
        run: The run.
        note: What people added to it.
    """

    def __init__(self, desk: Desk, run: StoredRun, note: RunNote) -> None:
        self._desk, self._run = desk, run
        self.name, self.title, self.archived = run.name, note.title, note.archived

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desk.summary(self._run), name)


def runs_found(desk: Desk, query: str) -> list[StoredRun]:
    """Return the runs that a run query finds."""
    notes, every = desk.notes, {run.name: run for run in desk.runs()}
    facts = (cast(RunSummary, AskedRun(desk, run, notes[run.name])) for run in every.values())
    return [every[run.name] for run in parse_query(query, metric_reader(desk)).found(facts)]


def metric_reader(desk: Desk) -> Callable[[RunSummary, str], float | None]:
    """Return what reads a metric of a run for a run query; None: the run has no such metric."""
    runs = {run.name: run for run in desk.runs()}
    known: dict[str, Metric | None] = {}

    def read(run: RunSummary, name: str) -> float | None:
        if name not in known:
            known[name] = named(desk.charts(), name)
        asked, stored = known[name], runs.get(run.name)
        if asked is None or stored is None:
            return None
        _, series = line_of(stored, asked.lines)
        return value_of(series, asked.reading, asked.chart.lower_is_better)

    return read
