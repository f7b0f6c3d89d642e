"""Questions about several runs: what differs between two groups, and whether it is more than their spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.analyze.rank_test import LEVEL, rank_test
from stepscope.analyze.regression import lacking_runs, regression, undisturbed
from stepscope.analyze.sweep import Configuration, apart
from stepscope.errors import UsageError
from stepscope.names.settings import flatten
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.curves import chosen_runs, matching
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import config_text
from stepscope.serve.questions.runs import reported
from stepscope.serve.questions.sweep import SweepRequest, sweep_of
from stepscope.serve.run_series import TIMED, points_of, tags_of, timed_of
from stepscope.serve.values import runs_found
from stepscope.text import counted, number, share

if TYPE_CHECKING:
    from stepscope.names.telling import Chart
    from stepscope.store import StoredRun

LEAST_PLACES = 8
"""Places at which both sides are known; fewer show nothing, as on the page."""
LEAST_RATIO = 0.01
"""A difference of less than this part of A is none, as on the page."""
PLACES = 64
"""Places of the last half of the shared steps at which sides are compared."""
MOST_TAGS = 60
SET = ("schedule", "counter", "bytes")
"""Kinds of series that are set rather than found, or that only count."""
SETTINGS = 5
"""Settings of a table of configurations, the most important ones."""
MOST_JUDGED = 4
"""Runs of a side whose findings are compared."""
Floats = NDArray[np.float64]


@question
def compare(
    desk: Desk,
    a: Annotated[
        str, Meta(description="a run or a run query; without b: the configurations of these runs, or of all")
    ] = "",
    b: Annotated[str, Meta(description="another run or query")] = "",
    metric: Annotated[str, Meta(description="tag that matters; default: the most telling")] = "",
) -> Answer:
    """Compare two runs or groups, or all configurations of a sweep: whether it exceeds the spread."""
    desk.some_runs()
    if not b:
        return _sweep(desk, metric, a)
    if not a:
        raise UsageError("compare needs two sides", hint="compare a=RUN b=RUN, or a=QUERY alone for a sweep")
    sides = [chosen_runs(desk, query, most=None)[0] for query in (a, b)]
    if {run.name for run in sides[0]} == {run.name for run in sides[1]}:
        raise UsageError(
            "both sides are the same runs", hint="name two runs, or two queries such as lr:0.1 and lr:0.01"
        )
    lines = [
        f"{name}: {side[0].name}" if len(side) == 1 else f"{name}: {len(side):,} runs that match {query}"
        for name, side, query in zip("AB", sides, (a, b), strict=True)
    ]
    charts = desk.charts()
    of_times, times = _times(sides)
    # What recording costs and what only counts is no result; times of steps are judged once, by the steps.
    aside = [
        chart
        for chart in charts
        if chart.own_cost or chart.kind == "counter" or (times.rows and chart.role in TIMED)
    ]
    sentences, curves = _curves(sides, charts, metric, {line.tag for chart in aside for line in chart.lines})
    lines += [*sentences, *of_times]
    tables = [_settings(sides), curves, times, _findings(desk, sides)]
    settings = tables[0].rows
    differ = "differs" if len(settings) == 1 else "differ"
    lines.insert(
        2, f"{counted(len(settings), 'setting')} {differ}" if settings else "no recorded setting differs"
    )
    return Answer("compare", tuple(lines), tuple(table for table in tables if table.rows))


def _settings(sides: Sequence[Sequence[StoredRun]]) -> Table:
    flats = [[flatten(run.info.config) for run in side] for side in sides]
    rows: list[tuple[Cell, ...]] = []
    for key in dict.fromkeys(key for side in flats for flat in side for key in flat):
        values = [
            sorted({str(config_text(flat[key])) if key in flat else "not set" for flat in side})
            for side in flats
        ]
        if values[0] != values[1]:
            rows.append((key, *(", ".join(value) for value in values)))
    return Table("settings", ("setting", "A", "B"), tuple(rows), names=("setting",))


def _curves(
    sides: Sequence[Sequence[StoredRun]], charts: Sequence[Chart], metric: str, aside: set[str]
) -> tuple[list[str], Table]:
    """Return the verdicts on curves, without those that are set aside, unless one is the metric."""
    kinds = {line.tag: chart for chart in charts for line in chart.lines}
    tags = [[tags_of(run) for run in side] for side in sides]
    known = [set().union(*side) for side in tags]
    shared = known[0] & known[1]
    every = [tag for tag in kinds if tag in shared] + sorted(shared - kinds.keys())
    ordered = [tag for tag in every if tag not in aside]
    if metric:
        first = matching([metric], every)
        if not first:
            from stepscope.errors import UnknownTagError
            from stepscope.store.nearest import hint_nearest

            raise UnknownTagError(
                f"not both sides have {metric!r:.80}", hint=hint_nearest(metric, every, "the tags of both")
            )
        ordered = [*first, *(tag for tag in ordered if tag not in first)]
    rows: list[tuple[Cell, ...]] = []
    lines: list[str] = []
    for tag in ordered[:MOST_TAGS]:
        chart = kinds.get(tag)
        means = [
            [_mean_at(run, tag) if tag in own else None for run, own in zip(side, of_side, strict=True)]
            for side, of_side in zip(sides, tags, strict=True)
        ]
        difference = _difference(means)
        if difference is None:
            if metric and tag == ordered[0]:
                lines.append(f"{tag}: cannot tell, one side has no finite value")
            continue
        mean_a, mean_b, verdict, why = difference
        better = None if chart is None else chart.lower_is_better
        if verdict == "differs" and better is not None:
            verdict = "B is better" if (mean_b < mean_a) == better else "A is better"
        rows.append((tag, mean_a, mean_b, mean_b - mean_a, verdict, why))
        if len(lines) < 4 and (verdict not in ("same", "cannot tell") or tag == ordered[0]):
            set_by_user = chart is not None and chart.kind in SET
            if not set_by_user or tag == ordered[0]:
                ratio = f" ({(mean_b - mean_a) / abs(mean_a):+.1%})" if mean_a else ""
                lines.append(f"{tag}: {number(mean_a)} in A, {number(mean_b)} in B{ratio}: {verdict}, {why}")
    heads = ("tag", "A", "B", "B - A", "verdict", "because")
    return lines, Table(
        "curves over the last half of the shared steps", heads, tuple(rows), len(ordered), names=("tag",)
    )


def _mean_at(run: StoredRun, tag: str) -> tuple[Floats, Floats] | None:
    step, value = points_of(run.find(tag))
    good = np.isfinite(value)
    if not good.any():
        return None
    step, value = step[good], value[good]
    newest = np.append(step[1:] != step[:-1], True)
    return step[newest].astype(float), value[newest]


def _difference(
    means: Sequence[Sequence[tuple[Floats, Floats] | None]],
) -> tuple[float, float, str, str] | None:
    """Return the means of both sides over the last half of their shared steps, and whether they differ.

    The steps end where half of the runs of each side still have values; runs that end earlier do not count.
    Between groups the difference must exceed chance by Welch's test; between two runs one must lie above the
    other at every place.
    """
    known = [[member for member in side if member is not None] for side in means]
    if not known[0] or not known[1]:
        return None
    # Runs that ended early, as those that crash do, would leave next to nothing to compare.
    end = min(sorted(step[-1] for step, _ in side)[len(side) // 2] for side in known)
    known = [[(step, value) for step, value in side if step[-1] >= end] for side in known]
    begin = max(step[0] for side in known for step, _ in side)
    if end < begin:
        ends = [float(np.mean([value[-1] for _, value in side])) for side in known]
        return ends[0], ends[1], "cannot tell", "they share no steps"
    middle = begin + (end - begin) / 2
    recorded = min(int(((step >= middle) & (step <= end)).sum()) for side in known for step, _ in side)
    places = np.linspace(middle, end, max(1, min(PLACES, recorded)))
    tables = [np.array([np.interp(places, step, value) for step, value in side]) for side in known]
    mean_a, mean_b = (float(table.mean()) for table in tables)
    sizes = [len(table) for table in tables]
    lacks = sum(member is not None for side in means for member in side) - sum(sizes)
    ended = f"; {counted(lacks, 'run')} that ended before step {end:,.0f} left out" if lacks else ""
    if min(sizes) >= 2:
        of_a, of_b = (Configuration([], table.mean(axis=1).tolist()) for table in tables)
        chance = f"chance between {sizes[0]:,} and {sizes[1]:,} runs (Welch's test at 5 %){ended}"
        if not apart(of_a, of_b):
            return mean_a, mean_b, "same", f"within {chance}"
        if mean_a and abs(mean_b - mean_a) < LEAST_RATIO * abs(mean_a):
            return mean_a, mean_b, "same", f"less than 1 %{ended}"
        return mean_a, mean_b, "differs", f"more than {chance}"
    if len(places) < LEAST_PLACES:
        return mean_a, mean_b, "cannot tell", f"only {counted(len(places), 'shared point')}{ended}"
    gap = tables[1].mean(axis=0) - tables[0].mean(axis=0)
    one = "one run per side, so other seeds may differ" if max(sizes) == 1 else "one side is a single run"
    if not ((gap > 0).all() or (gap < 0).all()):
        return mean_a, mean_b, "same", f"{'the curves cross' if gap.any() else 'all values are equal'}{ended}"
    if mean_a and abs(mean_b - mean_a) < LEAST_RATIO * abs(mean_a):
        return mean_a, mean_b, "same", f"less than 1 %{ended}"
    side = "above" if gap[0] > 0 else "below"
    return mean_a, mean_b, "differs", f"B {side} A at all {len(places)} places; {one}{ended}"


def _times(sides: Sequence[Sequence[StoredRun]]) -> tuple[list[str], Table]:
    """Return how long steps and stages take on both sides: by a test of runs, of too few by one of steps."""
    timed: list[dict[str, list[Floats]]] = []
    for side in sides:
        spans: dict[str, list[Floats]] = {}
        for run in side:
            for span in timed_of(run):
                spans.setdefault(span.name, []).append(span.ms)
        timed.append(spans)
    rows: list[tuple[Cell, ...]] = []
    lines: list[str] = []
    for name in timed[0]:
        if name not in timed[1]:
            continue
        ms_a, ms_b, verdict, p_value, basis = _slower(timed[0][name], timed[1][name])
        rows.append((name, ms_a, ms_b, ms_b - ms_a, verdict, p_value))
        if not lines:
            sure = f"{basis}, p = {p_value:.2g}"
            lines.append(f"{name}: {number(ms_a)} ms in A, {number(ms_b)} ms in B: {verdict} ({sure})")
    rates = [[rate for run in side if (rate := run.steps_per_second)] for side in sides]
    if not rows and rates[0] and rates[1]:
        a_rate, b_rate = (float(np.median(side)) for side in rates)
        lines.append(f"{number(a_rate)} steps per second in A, {number(b_rate)} in B")
    return lines, Table("times of steps", ("stage", "A ms", "B ms", "B - A ms", "verdict", "p"), tuple(rows))


def _slower(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[float, float, str, float, str]:
    """Return the times of both sides, which is slower, the p of that, and the basis of the test."""
    if not lacking_runs(len(a), len(b)):
        values = [[undisturbed(member) for member in side] for side in (a, b)]
        slower, faster = (regression(*side, disturbed=True, bounded=False) for side in (values, values[::-1]))
        verdict = "same or unclear"
        if "worse" in (slower.verdict, faster.verdict):
            verdict = "B is slower" if slower.verdict == "worse" else "B is faster"
        p_value = min(slower.p_value or 1.0, faster.p_value or 1.0)
        return slower.a, slower.b, verdict, p_value, f"{len(a):,} and {len(b):,} runs, undisturbed steps"
    all_a, all_b = np.concatenate(a), np.concatenate(b)
    test = rank_test(all_a, all_b)
    median_a, median_b = float(np.median(all_a)), float(np.median(all_b))
    verdict = "same or unclear"
    if test.p_value <= LEVEL and abs(median_b - median_a) >= LEAST_RATIO * abs(median_a):
        verdict = "B is slower" if test.shift > 0 else "B is faster"
    basis = f"{len(all_a):,} and {len(all_b):,} steps of too few runs to tell the program from the machine"
    return median_a, median_b, verdict, test.p_value, basis


def _findings(desk: Desk, sides: Sequence[Sequence[StoredRun]]) -> Table:
    by_side: list[dict[str, tuple[str, str]]] = []
    for side in sides:
        rules: dict[str, tuple[str, str]] = {}
        for run in side[:MOST_JUDGED]:
            for finding in reported(desk, run).verdict.findings:
                rules.setdefault(finding.rule, (finding.severity, finding.summary))
        by_side.append(rules)
    rows = [
        (side, rule, severity, summary)
        for side, own, other in (("A", by_side[0], by_side[1]), ("B", by_side[1], by_side[0]))
        for rule, (severity, summary) in own.items()
        if rule not in other
    ]
    name = "findings of one side only"
    if max(map(len, sides)) > MOST_JUDGED:
        name += f", of its {MOST_JUDGED} newest runs"
    return Table(name, ("side", "rule", "severity", "finding"), tuple(rows))


def _sweep(desk: Desk, metric: str, query: str) -> Answer:
    """Return the configurations of some runs, and how much of a metric goes with each setting."""
    names = None
    if query:
        names = [run.name for run in runs_found(desk, query)]
        if len(names) < 2:
            raise UsageError(
                "compare needs two sides", hint="compare a=RUN b=RUN, or a query that matches several runs"
            )
    sweep = sweep_of(desk, SweepRequest(metric, names))
    bad = sum(row.bad for row in sweep.rows)
    counts = f"{counted(len(sweep.rows), 'configuration')} of {counted(sweep.runs, 'run')}"
    lines = [f"{counts} by the newest {sweep.tag}" + (f"; {counted(bad, 'run')} not finite" if bad else "")]
    lines += [
        f"{key} counts as a seed: {why}; runs that differ in it alone are averaged"
        for key, why in sweep.seeds.items()
    ]
    lines.append(sweep.standing)
    telling = [one for one in sweep.settings if one.told]
    for one in telling[:4]:
        groups = one.groups if sweep.lower_is_better is not False else one.groups[::-1]
        best = (
            f"; best with {groups[0].label} (median {number(groups[0].median)} of {groups[0].count})"
            if sweep.lower_is_better is not None
            else ""
        )
        part, chance = share(one.share), share(sweep.chance)
        lines.append(
            f"{one.key} matters: {part} of the variance in rank order, chance explains up to {chance}{best}"
        )
    if sweep.chance is None:
        reasons = {one.reason for one in sweep.settings if one.key not in sweep.seeds}
        why = "; ".join(sorted(filter(None, reasons))) or "no setting differs"
        lines.append(f"which setting matters cannot be told: {why}")
    elif not telling:
        lines.append(f"no setting explains more than chance does, up to {share(sweep.chance)}")
    settings = tuple(
        (
            one.key,
            one.share,
            "beyond chance" if one.told else (one.reason or "within chance"),
            one.correlation,
            "; ".join(f"{group.label}: {number(group.median)} ({group.count})" for group in one.groups),
        )
        for one in sweep.settings
    )
    keys = sweep.keys[:SETTINGS]
    rows: list[tuple[Cell, ...]] = [
        (
            row.name,
            row.mean,
            row.spread,
            row.least,
            row.largest,
            len(row.runs),
            row.bad,
            row.missing,
            *(row.settings.get(key) for key in keys),
        )
        for row in sweep.rows
    ]
    heads = ("configuration", f"mean {sweep.tag}", "sd", "min", "max", "runs", "not finite", "missing", *keys)
    return Answer(
        "compare",
        tuple(lines),
        (
            Table(
                "settings",
                ("setting", "share", "verdict", "rank correlation", f"median {sweep.tag} (configurations)"),
                settings,
                names=("setting",),
            ),
            Table("configurations", heads, tuple(rows), len(rows), names=("configuration",)),
        ),
    )
