"""Two sides of runs compared: one verdict on each metric, for the page, ``stepscope ask`` and agents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepscope.analyze.judgement import Curve, Judgement, judge
from stepscope.analyze.sweep import configurations
from stepscope.errors import StepscopeError, UnknownTagError
from stepscope.names.settings import flatten
from stepscope.names.splits import Split
from stepscope.serve.questions.desk import Desk
from stepscope.serve.reply import refusing
from stepscope.serve.routes import post
from stepscope.serve.run_series import TIMED, points_of
from stepscope.store.derive import derive

if TYPE_CHECKING:
    from stepscope.names.telling import Chart
    from stepscope.store import StoredRun
    from stepscope.store.series import Series

SET = ("schedule", "counter", "bytes")
"""Kinds of series that are set rather than found, or that only count."""
DISTURBED = (*TIMED, "throughput")
"""Roles of series that other programs make worse, and never better."""
JUDGED: tuple[Split | None, ...] = ("eval", "test", None, "train")
"""The parts of a metric by which runs are judged, the first that they have."""
Side = Sequence["StoredRun"]
Lines = Sequence[tuple["StoredRun", str]]
"""The tags of a metric of one run, each with the part that recorded it."""


class OwnLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a chart that a user makes."""

    tag: str
    expression: bool = False


class OwnChart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chart that a user makes, which only the page knows."""

    id: str
    lines: list[OwnLine]
    lower_is_better: bool | None = None


class CompareRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/compare``."""

    a: list[str]
    """Names of the runs of A."""
    b: list[str]
    charts: list[str]
    """The charts that are judged, by their ids."""
    own: list[OwnChart] = []
    """Further ones."""
    metric: str = ""
    """The chart by which all seeds of two runs are judged; "": by none."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdict on one metric: a chart, or its part of one split.

    Attributes:
        chart: Its id.
        split: None if its lines name none.
        tag: The first tag of it that a side has.
        result: Whether it is found; a schedule or a counter that differs is no result.
    """

    chart: str
    split: Split | None
    tag: str
    result: bool
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class AllSeeds:
    """All runs of the configurations of two runs.

    Attributes:
        a: Names of those of A.
        b: Likewise.
        metric: The verdict on them.
    """

    a: list[str]
    b: list[str]
    metric: Compared


class Comparison(msgspec.Struct, frozen=True):
    """Answer of ``POST api/v1/compare``."""

    rows: list[Compared]
    """Of the metrics that both sides have."""
    leads: list[int]
    """Rows of the differences that are results, beyond chance and not small: the largest first."""
    one_configuration: bool
    """Whether the sides differ in nothing but their seeds."""
    seeds: AllSeeds | None
    """If each side is one run, and both configurations ran several times."""


@post("compare", reads=True)
def compare_answer(desk: Desk, body: CompareRequest) -> Comparison:
    """Answer the verdicts on some metrics of two sides."""
    with refusing({StepscopeError: 422}):
        every = desk.runs()
        runs = {run.base: run for run in every} | {run.name: run for run in every}
        sides = [[runs[name] for name in side if name in runs] for side in (body.a, body.b)]
        charts = {chart.id: chart for chart in desk.charts()}
        known = [charts[name] for name in body.charts if name in charts]
        if not all(sides):
            return Comparison([], [], False, None)
        groups = configured(desk, sides)
        rows = list(compared(sides, known, seeds=groups.same))
        rows += [row for own in body.own for row in _own(sides, own)]
        metric = charts.get(body.metric)
        seeds = all_seeds(groups.seeds, metric) if metric is not None and groups.seeds else None
        return Comparison(rows, leads(rows), groups.same, seeds)


def compared(sides: Sequence[Side], charts: Sequence[Chart], *, seeds: bool = False) -> Iterator[Compared]:
    """Yield the verdicts on the metrics that both sides have.

    Args:
        sides: The runs of A and of B.
        charts: The metrics.
        seeds: Whether both sides are one configuration with other seeds.
    """
    runs = [run for side in sides for run in side]
    parts = [[(part, part.tags()) for part in (run, *run.parts)] for run in runs]
    for chart in charts:
        for split, lines in by_split(chart, parts).items():
            own = [lines[: len(sides[0])], lines[len(sides[0]) :]]
            if not all(any(side) for side in own):
                continue
            result = chart.kind not in SET
            a, b = ([one for lines in side if (one := curve_of(lines))] for side in own)
            judgement = judge(
                a,
                b,
                lower=chart.lower_is_better if result else None,
                **how_judged(chart),
            )
            if judgement is not None:
                if seeds and chart.tier != "running":
                    judgement = judgement.by_seeds()
                part, tag = next(run for side in own for run in side if run)[0]
                yield Compared(chart.id, split, _name(part, tag), result, judgement)


def how_judged(chart: Chart) -> dict[str, bool]:
    """Return what :func:`~stepscope.analyze.judgement.judge` is told of a metric."""
    return {"times": chart.role in TIMED, "disturbed": chart.role in DISTURBED}


def by_split(
    chart: Chart, runs: Sequence[Sequence[tuple[StoredRun, Sequence[str]]]]
) -> dict[Split | None, list[Lines]]:
    """Return the lines of a chart that each run recorded, by their splits.

    Args:
        chart: The metric.
        runs: The parts of each, with their tags.
    """
    lines = [list(_lines(chart, run)) for run in runs]
    splits = {split for run in lines for split, _, _ in run}
    # A plain tag beside others that name their part is that of the training.
    plain: Split | None = "train" if splits - {None} else None
    return {
        split: [[(part, tag) for of, part, tag in run if (of or plain) == split] for run in lines]
        for split in sorted({split or plain for split in splits}, key=str)
    }


def _lines(
    chart: Chart, parts: Sequence[tuple[StoredRun, Sequence[str]]]
) -> Iterator[tuple[Split | None, StoredRun, str]]:
    for part, tags in parts:
        for line in chart.lines:
            if line.tag in tags:
                yield line.split or part.split, part, line.tag


def curve_of(lines: Lines) -> Curve | None:
    """Return the curve of the first line that has one; None: the run has none."""
    return next((_curve(found) for part, tag in lines if (found := part.own_columns(tag))), None)


def _curve(series: Sequence[Series]) -> Curve:
    return Curve(*points_of(series))


def _name(part: StoredRun, tag: str) -> str:
    """Return a tag as its whole run names it."""
    prefix = "" if part.base == "." else f"{part.base}/"
    return tag if part.whole is part else f"{part.name.removeprefix(prefix)}/{tag}"


def _own(sides: Sequence[Side], chart: OwnChart) -> Iterator[Compared]:
    def curve(run: StoredRun) -> Curve | None:
        for line in chart.lines:
            try:
                series = derive(run, line.tag).series if line.expression else run.search(line.tag)
            except UnknownTagError:
                continue
            if series:
                return _curve(series)
        return None

    curves = [[one for run in side if (one := curve(run)) is not None] for side in sides]
    judgement = judge(*curves, lower=chart.lower_is_better)
    if judgement is not None:
        yield Compared(chart.id, None, chart.lines[0].tag, True, judgement)


def leads(rows: Sequence[Compared]) -> list[int]:
    """Return the places of the differences that matter, the largest first.

    A side that loses a result comes before all, and what is better or worse before what only differs. By how
    many times the sides differ counts either way: a third is as far as three times.
    """

    def place(at: int) -> tuple[bool, bool, float]:
        one = rows[at].judgement
        a, b = one.a.mean, one.b.mean
        factor = abs(math.log(b / a)) if a and b and a > 0 and b > 0 else abs(one.ratio or 0.0)
        return not one.loses, one.verdict == "changed", -factor

    return sorted((at for at, row in enumerate(rows) if row.result and row.judgement.leads), key=place)


class Groups(NamedTuple):
    """How two sides lie among the configurations of a log directory.

    Attributes:
        same: Whether both are one configuration with other seeds.
        seeds: All runs of the configurations of two runs; empty if one of them ran once, or a side is no
            single run.
    """

    same: bool
    seeds: list[list[StoredRun]]


def configured(desk: Desk, sides: Sequence[Side]) -> Groups:
    """Return how two sides lie among the configurations of all runs."""
    runs = desk.runs()
    configs = {run.name: flatten(run.info.config) for run in runs}
    members = configurations(list(configs.values())).members
    of = {runs[at].name: [runs[place] for place in group] for group in members for at in group}
    chosen = [run.name for side in sides for run in side]
    groups = [of[name] for name in chosen]
    if all(group == groups[0] for group in groups):
        return Groups(len({repr(configs[name]) for name in chosen}) > 1, [])
    repeated = len(chosen) == 2 and all(len(side) == 1 for side in sides) and min(map(len, groups)) > 1
    return Groups(False, groups if repeated else [])


def all_seeds(groups: Sequence[Side], chart: Chart) -> AllSeeds | None:
    """Return the verdict on all runs of two configurations; None if they do not share the metric."""
    rows = list(compared(groups, [chart]))
    if not rows:
        return None
    a, b = ([run.base for run in group] for group in groups)
    return AllSeeds(a, b, min(rows, key=lambda row: JUDGED.index(row.split)))
