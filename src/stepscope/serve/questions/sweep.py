"""The sweep of a log directory, computed in one place: configurations, the best, the settings that matter.

The page asks ``POST sweep``; ``compare`` of ``stepscope ask`` and of agents prints the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.analyze.importance import Importance, importances
from stepscope.analyze.sweep import configurations, ranked, standing
from stepscope.errors import StepscopeError, UnknownTagError, UsageError
from stepscope.names.settings import flatten
from stepscope.names.telling import ChartLine
from stepscope.serve.questions.answer import beginning_of
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import config_text
from stepscope.serve.questions.runs import last_point
from stepscope.serve.reply import refusing
from stepscope.serve.routes import post
from stepscope.serve.values import Reading, line_of, value_of
from stepscope.store.nearest import hint_nearest

if TYPE_CHECKING:
    from stepscope.names.telling import Chart
    from stepscope.store import StoredRun


class SweepRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/sweep``."""

    metric: str = ""
    """A chart or a tag; "": the one by which runs are judged."""
    runs: list[str] | None = None
    """Names; None: all that are not archived."""
    reading: Reading = "last"
    """The value of a run."""
    step: int = 0


class SweepRow(msgspec.Struct, frozen=True):
    """One configuration."""

    name: str
    runs: list[str]
    settings: dict[str, str | int | float | None]
    """Of those that differ; without one that it does not have."""
    mean: float | None
    """Of the finite values of its runs."""
    spread: float | None
    """The sample's standard deviation; None with fewer than two finite values."""
    least: float | None
    largest: float | None
    finite: int
    """Runs with a finite value."""
    bad: int
    """Runs whose value is not finite."""
    missing: int
    """Runs that did not record the metric."""
    tied: bool
    """Whether it is the best, or cannot be told from it."""


class Sweep(msgspec.Struct, frozen=True):
    """Answer of ``POST api/v1/sweep``."""

    tag: str
    """The series that was read, the same of all runs."""
    chart: str
    """The chart that it is a line of; empty if it is of none."""
    lower_is_better: bool | None
    runs: int
    rows: list[SweepRow]
    """The best first; configurations with runs that are not finite come after all others."""
    keys: list[str]
    """Settings that differ between configurations, the most important first. Of equal ones it is the one with
    the fewest dots."""
    seeds: dict[str, str]
    """Settings that were taken for seeds, each with the reason."""
    standing: str
    """Whether one configuration is best."""
    settings: tuple[Importance, ...]
    """The most important first."""
    chance: float | None
    """The share that chance reaches; None: it cannot be told."""
    units: int
    """Configurations with a finite value: those that the importance is computed from."""
    left_out: int
    """Runs without a finite value."""


@post("sweep", reads=True)
def sweep_answer(desk: Desk, body: SweepRequest) -> Sweep:
    """Answer the configurations of some runs."""
    with refusing({StepscopeError: 422}):
        return sweep_of(desk, body)


def sweep_of(desk: Desk, asked: SweepRequest) -> Sweep:
    """Return the sweep that some runs are.

    Raises:
        UsageError: No metric is named and none is judged by.
        UnknownTagError: No run has the metric.
    """
    charts = desk.charts()
    summaries = desk.summaries()
    runs = {run.base: run for run in desk.runs()} | {run.name: run for run in desk.runs()}
    if asked.runs is None:
        chosen = [run for run in desk.runs() if not summaries[run.name].archived]
    else:
        chosen = [runs[name] for name in asked.runs if name in runs]
    names = [run.base for run in chosen]
    chart, tag = _metric(charts, asked.metric, chosen)
    lower = chart.lower_is_better if chart is not None else None
    line = next((line for line in chart.lines if line.tag == tag), None) if chart is not None else None
    lines = [line or ChartLine(tag, None)]
    reading: Reading = "last" if asked.reading == "best" and lower is None else asked.reading
    values = [value_of(line_of(run, lines)[1], reading, lower, asked.step) for run in chosen]
    if all(value is None for value in values):
        tags = [line.tag for one in charts for line in one.lines]
        raise UnknownTagError(f"no run has {tag!r:.80}", hint=hint_nearest(tag, tags, "the tags"))
    configs = [flatten(summaries[run.name].config) for run in chosen]
    grouping = configurations(configs)
    rows = ranked(grouping.members, values, lower)
    titles = _names([[names[at] for at in row.runs] for row in rows])
    weights = importances(configs, [np.nan if value is None else value for value in values], grouping)
    shown = [
        {key: config_text(configs[row.runs[0]][key]) for key in grouping.keys if key in configs[row.runs[0]]}
        for row in rows
    ]
    names_of: dict[tuple[object, ...], str] = {}
    for key in sorted(grouping.keys, key=lambda key: key.count(".")):
        names_of.setdefault(tuple(settings.get(key) for settings in shown), key)
    keys = [one.key for one in weights.settings if one.key in names_of.values()]
    return Sweep(
        tag,
        "" if chart is None else chart.id,
        lower,
        len(names),
        [
            SweepRow(
                name,
                [names[at] for at in row.runs],
                {key: text for key, text in settings.items() if key in keys},
                row.mean,
                row.spread,
                min(row.values, default=None),
                max(row.values, default=None),
                len(row.values),
                row.bad,
                row.missing,
                row.tied,
            )
            for row, name, settings in zip(rows, titles, shown, strict=True)
        ],
        keys,
        grouping.seeds,
        standing(rows, titles, lower),
        weights.settings,
        weights.chance,
        weights.units,
        len(names) - weights.runs,
    )


def _metric(charts: Sequence[Chart], metric: str, runs: Sequence[StoredRun]) -> tuple[Chart | None, str]:
    """Return a chart and the tag of it that is read of all runs: of the evaluation if a run has it."""
    wanted = metric or judged_by(charts)
    if not wanted:
        raise UsageError("which metric? No loss or score is recorded", hint="compare metric=TAG")
    chart = next((chart for chart in charts if chart.id == wanted), None)
    if chart is None or not metric:
        return chart_of(charts, wanted), wanted
    for tag in (*_lines([chart], ("eval", "test")), *_lines([chart], (None, "train"))):
        if any(last_point(run, tag) is not None for run in runs):
            return chart, tag
    return chart, wanted


def _names(groups: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each configuration: what the names of its runs begin with, if no other begins so."""
    common = [_shared(names) for names in groups]
    counts = Counter(common)
    return [
        name if name and counts[name] == 1 else names[0] for name, names in zip(common, groups, strict=True)
    ]


def _shared(names: Sequence[str]) -> str:
    """Return what names begin with, whole words of it; all of a single name."""
    if len(names) == 1:
        return names[0]
    prefix = beginning_of(names)
    if any(name != prefix and name[len(prefix)].isalnum() for name in names):
        prefix = prefix[: max((prefix.rfind(sign) for sign in "-_/. ,"), default=-1) + 1]
    return prefix.rstrip("-_/. ,")


def chart_of(charts: Sequence[Chart], tag: str) -> Chart | None:
    """Return the chart that a tag is a line of; None if it is of none."""
    return next((chart for chart in charts if any(line.tag == tag for line in chart.lines)), None)


def judged_by(charts: Sequence[Chart]) -> str:
    """Return the tag by which runs are judged: of the evaluation if there is one, else the most telling."""
    learning = [chart for chart in charts if chart.tier == "learning" and chart.lower_is_better is not None]
    evaluated = _lines(learning, ("eval", "test"))
    return next(evaluated, next(_lines(learning, (None, "train")), ""))


def _lines(charts: Sequence[Chart], splits: Sequence[Any]) -> Iterator[str]:
    return (line.tag for chart in charts for line in chart.lines if line.split in splits)
