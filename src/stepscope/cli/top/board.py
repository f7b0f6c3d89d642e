"""The content of ``stepscope top``, read from a log directory; nothing here knows the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepscope.cli.ls import ranks_of, step_of, updated
from stepscope.cli.top.plot import PlotCurve
from stepscope.text import number

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.names.telling import Chart, ChartLine
    from stepscope.store import Log, Series, StoredRun
    from stepscope.store.query import SeriesLine, View
    from stepscope.store.ranks import Rank

COLOURS = ("#53c5ab", "#ec9407", "#b689ff", "#f1ed30", "#30ffec", "#e02614", "#a23ae8", "#1f8b91")
"""Colours of runs by their place in the list: the page's colours on a dark background."""
XAxis = Literal["step", "relative", "wall"]
JUDGED_EVERY = 20.0
"""Multiple of the time that judging took after which a growing run is judged again."""


@dataclass(frozen=True)
class RunLine:
    """One run in the list."""

    name: str
    colour: str
    state: str
    reason: str | None
    step: str
    pace: str
    eta: str
    ranks: str
    updated: str
    problems: int


@dataclass(frozen=True)
class Drawn:
    """One chart with its lines; ``legend`` names each line and its newest value."""

    title: str
    unit: str | None
    traces: list[PlotCurve]
    legend: list[tuple[str, str]]


@dataclass
class Judged:
    """The verdict of the health rules, and the state of the run that it is of."""

    report: HealthReport
    generation: int
    again: float


@dataclass
class Board:
    """A log directory as the terminal shows it. One thread at a time.

    Args:
        log: The log directory, opened.
    """

    log: Log
    _judged: dict[str, Judged] = field(default_factory=dict)

    def runs(self, *, now: float | None = None) -> list[RunLine]:
        """Return every run, in the order of the log."""
        now = time.time() if now is None else now
        colours = self.colours()
        return [line_of(run, colours[run.base], now) for run in self.log.runs()]

    def colours(self) -> dict[str, str]:
        """Return the colour of every run by its base: a run and its evaluation share one."""
        bases = dict.fromkeys(run.base for run in self.log.runs())
        return {base: COLOURS[at % len(COLOURS)] for at, base in enumerate(bases)}

    def charts(self, names: Sequence[str], wanted: str = "") -> list[Chart]:
        """Return the charts whose titles hold every wanted word, the most telling first."""
        from stepscope.store.charts import charts_of

        tags = frozenset().union(*(run.tags() for run in self._family(names)))
        words = wanted.lower().split()
        charts = charts_of(tags, meanings=self.log.meanings)
        matching = [chart for chart in charts if all(word in chart.title.lower() for word in words)]
        return sorted(matching, key=lambda chart: chart.place)

    def draw(self, chart: Chart, names: Sequence[str], buckets: int, x: XAxis, smoothing: float) -> Drawn:
        """Return a chart with the newest attempt of every run and writer."""
        from stepscope.store.query import buckets as look

        drawn: list[tuple[str, str, Series]] = []
        colours = self.colours()
        for run in self._family(names):
            for line in chart.lines:
                if line.tag in run.tags():
                    label = label_of(run, line, chart)
                    drawn += [(colours[run.base], label, series) for series in newest(run, line.tag)]
        view = look([series for _, _, series in drawn], x=x, buckets=buckets, smoothing=smoothing)
        traces = [
            trace_of(colour, series, line, view)
            for (colour, _, series), line in zip(drawn, view.lines, strict=True)
        ]
        legend = [(colour, f"{label} {number(series.last.value)}") for colour, label, series in drawn]
        return Drawn(chart.title, chart.unit, traces, legend)

    def report(self, name: str) -> HealthReport | None:
        """Return the verdict of the health rules on a run, judged again when it has grown and time allows."""
        from stepscope.serve.health import report_of

        run = self._run(name)
        if run is None:
            return None
        run = self.log.run(run.base)
        judged, began = self._judged.get(run.name), time.monotonic()
        if judged is None or (judged.generation != self.log.generation and began >= judged.again):
            report, done = report_of(self.log, run), time.monotonic()
            judged = Judged(report, self.log.generation, done + JUDGED_EVERY * (done - began))
            self._judged[run.name] = judged
        return judged.report

    def ranks(self, name: str) -> list[Rank]:
        """Return the ranks of a run; none if it has but one process."""
        run = self._run(name)
        return run.ranks.members() if run is not None and run.ranks.several else []

    def _run(self, name: str) -> StoredRun | None:
        return next((run for run in self.log.runs() if run.name == name), None)

    def _family(self, names: Sequence[str]) -> list[StoredRun]:
        """Return the runs with these names, and their parts, such as the evaluation."""
        return [run for run in self.log.runs() if run.name in names or run.base in names]


def line_of(run: StoredRun, colour: str, now: float) -> RunLine:
    """Return one run as text; an unknown value is a dash."""
    from stepscope.store.info import age

    state, reason = run.condition(now=now)
    pace, left = run.steps_per_second, run.time_left
    return RunLine(
        run.name,
        colour,
        state,
        reason,
        step_of(run),
        "-" if pace is None or state != "running" else f"{number(pace)}/s",
        "-" if left is None else age(left.seconds),
        ranks_of(run) or "-",
        updated(run, now),
        len(run.problems),
    )


def newest(run: StoredRun, tag: str) -> list[Series]:
    """Return the series of the newest attempt of every writer."""
    by_writer = {series.writer: series for series in run.columns(tag)}
    return list(by_writer.values())


def label_of(run: StoredRun, line: ChartLine, chart: Chart) -> str:
    """Return the name of a line: its run and, if the chart has several, its split or tag."""
    return run.name if len(chart.lines) == 1 else f"{run.name} {line.split or line.tag}"


def trace_of(colour: str, series: Series, line: SeriesLine, view: View) -> PlotCurve:
    """Return one line as it is drawn: smoothed if requested, otherwise between minimum and maximum."""
    columns = line.columns
    x = columns["x"] if view.x is None else view.x
    if "smoothed" in columns:
        low = high = columns["smoothed"]
    else:
        low, high = (columns["value"],) * 2 if view.x is None else (columns["min"], columns["max"])
    there = slice(None) if view.x is None else columns["count"] > 0
    x, low, high = (np.asarray(column, np.float64)[there] for column in (x, low, high))
    return PlotCurve(colour, x, low, high, dashed=series.split not in (None, "train"))
