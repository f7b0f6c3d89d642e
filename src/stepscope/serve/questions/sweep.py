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
from stepscope.analyze.judgement import Judgement, shared_half
from stepscope.analyze.sweep import configurations, judge_rows, ranked, standing
from stepscope.errors import StepscopeError, UnknownTagError, UsageError
from stepscope.names.settings import flatten
from stepscope.names.splits import Split
from stepscope.serve.compare import JUDGED, SET, Lines, by_split, curve_of, how_judged
from stepscope.serve.questions.answer import beginning_of
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import config_text
from stepscope.serve.reply import refusing
from stepscope.serve.routes import post
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
    """Runs that end without a finite value."""
    missing: int
    """Runs that did not record the metric, or end before these steps."""
    judgement: Judgement | None
    """Of the first, as A, and this one; None: it is the first, or has no value."""


class Sweep(msgspec.Struct, frozen=True):
    """Answer of ``POST api/v1/sweep``."""

    tag: str
    """The series that was read, by the name that it has in the first run."""
    chart: str
    """The chart that it is a line of."""
    split: Split | None
    """The part of the chart that it is of; null: its lines name none."""
    lower_is_better: bool | None
    window: str
    """The value of a run, and the steps that it is of: the last half of those that most runs share."""
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
    chart, split, lines = _metric(charts, asked.metric, chosen)
    curves = [curve_of(own) for own in lines]
    result, how = chart.kind not in SET, how_judged(chart)
    lower = chart.lower_is_better if result else None
    values, window = shared_half(curves, times=how["times"])
    configs = [flatten(summaries[run.name].config) for run in chosen]
    grouping = configurations(configs)
    rows = ranked(grouping.members, values, lower)
    if lower is not None:
        judge_rows(rows, curves, lower, **how)
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
        next(tag for own in lines for _, tag in own),
        chart.id,
        split,
        lower,
        "" if window is None else window.text(how["times"]),
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
                row.judgement,
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


def _metric(
    charts: Sequence[Chart], metric: str, runs: Sequence[StoredRun]
) -> tuple[Chart, Split | None, list[Lines]]:
    """Return a chart, the split of it by which runs are judged, and its lines of each run."""
    wanted = metric or judged_by(charts)
    if not wanted:
        raise UsageError("which metric? No loss or score is recorded", hint="compare metric=TAG")
    chart = next((chart for chart in charts if chart.id == wanted), None) or chart_of(charts, wanted)
    if chart is not None:
        parts = [[(part, part.tags()) for part in (run, *run.parts)] for run in runs]
        found = {split: lines for split, lines in by_split(chart, parts).items() if any(lines)}
        if metric and metric != chart.id:
            found = {
                split: lines
                for split, lines in found.items()
                if any(tag == metric for own in lines for _, tag in own)
            }
        for split in JUDGED:
            if split in found:
                return chart, split, found[split]
    tags = [line.tag for one in charts for line in one.lines]
    raise UnknownTagError(f"no run has {wanted!r:.80}", hint=hint_nearest(wanted, tags, "the tags"))


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
    evaluated = _lines(learning, JUDGED[:2])
    return next(evaluated, next(_lines(learning, JUDGED[2:]), ""))


def _lines(charts: Sequence[Chart], splits: Sequence[Any]) -> Iterator[str]:
    return (line.tag for chart in charts for line in chart.lines if line.split in splits)
