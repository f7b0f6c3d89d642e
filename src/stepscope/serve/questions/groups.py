"""Questions about several runs: what differs between two groups, and whether it is more than their spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from stepscope.analyze.judgement import Curve, Judgement
from stepscope.errors import UsageError
from stepscope.names.settings import flatten
from stepscope.serve.compare import Compared, compared, configured, leads
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.curves import chosen_runs, matching
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import config_text
from stepscope.serve.questions.runs import reported
from stepscope.serve.questions.sweep import SweepRequest, sweep_of
from stepscope.serve.run_series import TIMED, step_times_judged, timed_of
from stepscope.serve.values import runs_found
from stepscope.text import counted, number, share

if TYPE_CHECKING:
    from stepscope.store import StoredRun

MOST_CHARTS = 60
SETTINGS = 5
"""Settings of a table of configurations, the most important ones."""
MOST_JUDGED = 4
"""Runs of a side whose findings are compared."""


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
    of_times, times = _times(sides)
    sentences, curves = _curves(desk, sides, metric, timed=bool(times.rows))
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
    desk: Desk, sides: Sequence[Sequence[StoredRun]], metric: str, *, timed: bool
) -> tuple[list[str], Table]:
    """Return the verdicts on metrics, those asked for first; if ``timed``, without the times of steps."""
    tags = [{tag for run in side for part in (run, *run.parts) for tag in part.tags()} for side in sides]
    shared = [
        chart for chart in desk.charts() if all(any(line.tag in own for line in chart.lines) for own in tags)
    ]
    named = [
        chart
        for chart in shared
        if any(
            matching([metric], [tag]) or metric.endswith(f"/{tag}")
            for tag in [line.tag for line in chart.lines]
        )
    ]
    # What recording costs and what only counts is no result; times of steps are judged once, by the steps.
    others = [
        chart
        for chart in shared
        if chart not in named
        and not (chart.own_cost or chart.kind == "counter" or (timed and chart.role in TIMED))
    ]
    same = configured(desk, sides).same
    rows = list(compared(sides, [*named, *others][:MOST_CHARTS], seeds=same))
    asked = set(matching([metric], [row.tag for row in rows]))
    if metric and not asked:
        from stepscope.errors import UnknownTagError
        from stepscope.store.nearest import hint_nearest

        every = sorted(row.tag for row in compared(sides, shared))
        raise UnknownTagError(
            f"not both sides have {metric!r:.80}", hint=hint_nearest(metric, every, "the tags of both")
        )
    rows.sort(key=lambda row: row.tag not in asked)
    order = dict.fromkeys([0, *leads(rows)]) if rows else {}
    lines = [_sentence(rows[at]) for at in list(order)[:4]]
    cells = [
        (row.tag, one.a.mean, one.b.mean, one.difference, _verdict(one), one.why)
        for row in rows
        for one in [row.judgement]
    ]
    heads = ("tag", "A", "B", "B - A", "verdict", "because")
    name = "curves over the last half of the shared steps"
    return lines, Table(name, heads, tuple(cells), len(named) + len(others), names=("tag",))


def _verdict(judged: Judgement, better: str = "B is better", worse: str = "A is better") -> str:
    words = {"better": better, "worse": worse, "changed": "differs"}
    return words.get(judged.verdict, judged.word)


def _sentence(row: Compared) -> str:
    one = row.judgement
    a, b = (number(side.mean) if side.mean is not None else "no finite value" for side in (one.a, one.b))
    ratio = "" if one.ratio is None else f" ({one.ratio:+.1%})"
    return f"{row.tag}: {a} in A, {b} in B{ratio}: {_verdict(one)}, {one.why}"


def _times(sides: Sequence[Sequence[StoredRun]]) -> tuple[list[str], Table]:
    """Return the verdicts on how long steps and their stages take."""
    curves: list[dict[str, list[Curve]]] = [{}, {}]
    for side, own in zip(sides, curves, strict=True):
        for run in side:
            for span in timed_of(run):
                own.setdefault(span.name, []).append(Curve(span.step, span.ms))
    rows: list[tuple[Cell, ...]] = []
    lines: list[str] = []
    for name, of_a in curves[0].items():
        one = step_times_judged(of_a, curves[1].get(name, []))
        if one is None:
            continue
        verdict = _verdict(one, "B is faster", "B is slower")
        rows.append((name, one.a.mean, one.b.mean, one.difference, verdict, one.why))
        if not lines and one.a.mean is not None and one.b.mean is not None:
            lines.append(
                f"{name}: {number(one.a.mean)} ms in A, {number(one.b.mean)} ms in B: {verdict}, {one.why}"
            )
    rates = [[rate for run in side if (rate := run.steps_per_second)] for side in sides]
    if not rows and rates[0] and rates[1]:
        a_rate, b_rate = (float(np.median(side)) for side in rates)
        lines.append(f"{number(a_rate)} steps per second in A, {number(b_rate)} in B")
    heads = ("stage", "A ms", "B ms", "B - A ms", "verdict", "because")
    return lines, Table("times of steps", heads, tuple(rows))


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
    read = f"{sweep.tag}, {sweep.window}" if sweep.window else sweep.tag
    lost = f"; {counted(bad, 'run')} of them end without a finite value" if bad else ""
    lines = [f"{counts} by {read}{lost}"]
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
            "" if row.judgement is None else row.judgement.word,
            *(row.settings.get(key) for key in keys),
        )
        for row in sweep.rows
    ]
    figures = (f"mean {sweep.tag}", "sd", "min", "max", "runs", "not finite", "missing")
    heads = ("configuration", *figures, "against the first", *keys)
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
