"""Questions about runs: which there are, how one is doing, what is wrong, and what it wrote."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from stepscope.errors import UnknownTagError, UsageError
from stepscope.health import SEVERITIES
from stepscope.names.settings import flatten
from stepscope.serve.questions.answer import Answer, Cell, Quote, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import MISSING, config_text, config_value, parse_query
from stepscope.serve.run_series import points_of, tags_of
from stepscope.store.info import age
from stepscope.store.nearest import hint_nearest
from stepscope.text import counted, duration, number, scrub_text, share

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.health import Finding
    from stepscope.names.telling import Chart
    from stepscope.serve.types import RunSummary
    from stepscope.store import StoredRun

Run = Annotated[str, Meta(description="name of a run, or a part that no other has; default: the newest")]
Limit = Annotated[int, Meta(ge=1, le=10_000, description="rows")]
Offset = Annotated[int, Meta(ge=0, description="rows to skip")]
Names = Annotated[tuple[str, ...], Meta(description="names, separated by commas")]
FACTS = (
    "name",
    "state",
    "step",
    "points",
    "started",
    "updated",
    "steps_per_second",
    "eta_seconds",
    "attempts",
    "host",
)
TELLING = 3
"""Charts whose last values a list of runs shows."""
JUDGED = 8
"""Runs that the rules judge in one answer about a directory; of the others, their own findings are shown."""
MAX_TEXT = 1 << 20
"""Characters of one text that are read."""


@question
def runs(
    desk: Desk,
    query: Annotated[
        str,
        Meta(description="words in names, state:running, lr>1e-4, loss<0.5, loss.min<0.4; default: all"),
    ] = "",
    sort: Annotated[str, Meta(description="fact, config key or tag; -KEY: largest first")] = "-updated",
    columns: Annotated[
        tuple[str, ...], Meta(description="facts, config keys or tags to show, separated by commas")
    ] = (),
    limit: Limit = 20,
    offset: Offset = 0,
) -> Answer:
    """List runs with state, step, settings that differ and last values."""
    from stepscope.serve.values import metric_reader, named

    summaries = desk.summaries()
    asked = parse_query(query, metric_reader(desk))
    charts = desk.charts()
    matches = asked.found(summaries.values())
    values = Values(desk, charts)
    whole = counted(len(summaries), "run")
    match = "matches" if 1 in (len(matches), len(summaries)) else "match"
    lines = [f"{len(matches):,} of {whole} {match}" if query else whole]
    if unknown := [
        key
        for key in asked.keys
        if named(charts, key) is None and not any(_has(summary, key) for summary in summaries.values())
    ]:
        settings = {key for summary in summaries.values() for key in flatten(summary.config)}
        tags = {line.tag for chart in charts for line in chart.lines}
        near = hint_nearest(unknown[0], [*sorted(settings), *sorted(tags)], "config keys and tags")
        lines.append(f"no run has {', '.join(unknown)}: {near}")
    states = Counter(summary.state for summary in matches)
    if not matches and summaries:
        states = Counter(summary.state for summary in summaries.values())
    every = "of all runs: " if not matches and summaries else ""
    lines.append(every + ", ".join(f"{count:,} {state}" for state, count in states.most_common()))
    key, falling = sort.removeprefix("-"), sort.startswith("-")
    values.check([key, *columns], matches)
    keyed = [(values.of(summary, key), summary) for summary in matches]
    known = [pair for pair in keyed if _orderable(pair[0])]
    texts = any(isinstance(value, str) for value, _ in known)
    known.sort(key=lambda pair: str(pair[0]) if texts else pair[0], reverse=falling)  # type: ignore[arg-type, return-value]
    ordered = [summary for _, summary in known] + [
        summary for value, summary in keyed if not _orderable(value)
    ]
    page = ordered[offset : offset + limit]
    telling = [line.tag for chart in charts[:TELLING] for line in chart.lines][: 2 * TELLING]
    shown = columns or (*(() if key in FACTS else (key,)), *_differing(page), *telling)
    shown = tuple(dict.fromkeys(shown))
    more = f"limit={limit} offset={offset + limit} shows the next" if offset + limit < len(ordered) else ""
    table = Table(
        "runs",
        ("run", "state", "step", "updated", *shown),
        tuple(
            (
                summary.name,
                summary.state,
                summary.step,
                f"{age(max(0.0, time.time() - summary.updated))} ago" if summary.updated else None,
                *(values.of(summary, name) for name in shown),
            )
            for summary in page
        ),
        len(ordered),
        more,
        names=("run",),
    )
    return Answer("runs", tuple(filter(None, lines)), (table,))


class Values:
    """Facts, settings and last values of runs, by one name."""

    def __init__(self, desk: Desk, charts: Sequence[Chart]) -> None:
        self._runs = {run.name: run for run in desk.runs()}
        self._desk = desk
        self._tags = {line.tag for chart in charts for line in chart.lines}

    def check(self, names: Sequence[str], summaries: Sequence[RunSummary]) -> None:
        """Refuse a name that no run has.

        Raises:
            UsageError: It is neither fact, nor config key, nor tag.
        """
        for name in names:
            if name in FACTS or name in self._tags or any(_has(summary, name) for summary in summaries):
                continue
            if any(name in tags_of(self._runs[summary.name]) for summary in summaries) or not summaries:
                continue
            known = [*FACTS, *self._tags, *{key for summary in summaries for key in flatten(summary.config)}]
            raise UsageError(f"no run has {name!r:.80}", hint=hint_nearest(name, known, "the names"))

    def of(self, run: RunSummary, name: str) -> Cell:
        """Return a fact, else a config value, else the last value of a tag; None if there is none."""
        if name in FACTS:
            fact = getattr(run, name)
            return fact if fact is None or isinstance(fact, (str, int, float)) else str(fact)
        setting = config_value(run, name)
        if setting is not MISSING:
            return config_text(setting)
        last = last_point(self._runs[run.name], name)
        return None if last is None else float(last.value)


def last_point(run: StoredRun, tag: str) -> Any:
    """Return the newest point of a tag of a run or of its parts; None if there is none."""
    columns = [column for column in run.search(tag) if len(column)]
    return max(columns, key=lambda column: (column.attempt, column.last.wall)).last if columns else None


def _orderable(value: Cell) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _has(run: RunSummary, key: str) -> bool:
    return config_value(run, key) is not MISSING


def _differing(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the config keys with several values, those with few first."""
    flats = [flatten(summary.config) for summary in summaries]
    distinct = {key: {str(flat.get(key, MISSING)) for flat in flats} for flat in flats for key in flat}
    keys = [key for key, values in distinct.items() if len(values) > 1]
    return sorted(keys, key=lambda key: len(distinct[key]))[:TELLING]


@question
def run(desk: Desk, run: Run = "") -> Answer:
    """Show one run: state, progress, findings, last values, settings, attempts, cost of recording."""
    stored = desk.run(run)
    summary = desk.summary(stored)
    report = reported(desk, stored)
    lines = [_progress(summary), *_timing(summary), f"health: {report.headline}", report.covered]
    lines += [text for _, text in _finding_lines(report)[:5]]
    lines += [forecast.text(tag) for tag, forecast in report.forecast.items()]
    attempts, sentences = attempts_of(stored)
    lines += sentences
    if summary.overhead_ratio is not None:
        profiles = f", of which {share(summary.profiles_ratio)} by profiles" if summary.profiles_ratio else ""
        lines.append(f"recording took {share(summary.overhead_ratio)} of the run's time{profiles}")
    lines += [f"problem: {problem.text}" for problem in summary.problems[:5]]
    if not run and len(desk.runs()) > 1:
        lines.insert(0, f"{stored.name} is the newest of {len(desk.runs()):,} runs")
    charts = desk.charts()
    order = {line.tag: place for place, chart in enumerate(charts) for line in chart.lines}
    tags = sorted(tags_of(stored), key=lambda tag: order.get(tag, len(order)))
    tables = [
        Table(
            "tags",
            ("tag", "last", "step", "min", "min step", "max", "max step"),
            tuple(_extremes(stored, tags)),
        )
    ]
    if len(attempts.rows) > 1:
        tables.insert(0, attempts)
    settings = flatten(summary.config)
    if settings:
        rows = tuple((key, config_text(value)) for key, value in settings.items())
        tables.append(Table("settings", ("key", "value"), rows))
    stack = scrub_text(stored.info.stack) if stored.info.stack else ""
    console = scrub_text(stored.info.console or "")
    texts = (("the exception that ended it", stack), ("the last lines of its console", console))
    quotes = tuple(Quote(title, text, len(text)) for title, text in texts if text)
    return Answer("run", tuple(lines), tuple(tables), quotes)


def _progress(summary: RunSummary) -> str:
    step = "no step" if summary.step is None else f"step {summary.step:,}"
    of = f" of {summary.total_steps:,}" if summary.total_steps else ""
    why = f" ({scrub_text(summary.reason)[:200]})" if summary.reason else ""
    return f"{summary.name}: {summary.state}{why}, {step}{of}"


def _timing(summary: RunSummary) -> Iterator[str]:
    if summary.steps_per_second:
        yield f"{number(summary.steps_per_second)} steps per second"
    if summary.eta_seconds is not None:
        end = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + summary.eta_seconds))
        between = summary.eta_between
        spread = f" ({duration(between[0])} to {duration(between[1])})" if between else ""
        yield f"it will finish in {duration(summary.eta_seconds)}{spread}, about {end}"
    elif summary.state == "running":
        lacks = "its total number of steps" if summary.total_steps is None else "its rate of steps"
        yield f"when it will finish cannot be told: {lacks} is not recorded"


def _extremes(run: StoredRun, tags: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    for tag in tags:
        step, value = points_of(run.find(tag))
        finite = np.flatnonzero(np.isfinite(value))
        if not len(step):
            continue
        last = float(value[-1])
        if not len(finite):
            yield (tag, last, int(step[-1]), None, None, None, None)
            continue
        low, high = finite[np.argmin(value[finite])], finite[np.argmax(value[finite])]
        yield (
            tag,
            last,
            int(step[-1]),
            float(value[low]),
            int(step[low]),
            float(value[high]),
            int(step[high]),
        )


def attempts_of(run: StoredRun) -> tuple[Table, list[str]]:
    """Return a row for each attempt of a run, and sentences about the steps between them.

    An attempt that begins before the last step of the one before it records steps again; one that begins
    later leaves steps out.
    """
    bounds: dict[int, list[int]] = {}
    gap: dict[int, int] = {}
    for tag in run.tags():
        for column in run.columns(tag):
            if not len(column):
                continue
            step = column.step[: len(column)]
            low, high = int(step.min()), int(step.max())
            mine = bounds.setdefault(column.attempt, [low, high])
            mine[0], mine[1] = min(mine[0], low), max(mine[1], high)
            if len(step) > 1:
                usual = int(np.median(np.diff(np.unique(step)))) if len(np.unique(step)) > 1 else 1
                gap[column.attempt] = min(gap.get(column.attempt, usual), usual)
    rows: list[tuple[Cell, ...]] = []
    sentences = []
    before: int | None = None
    for attempt in sorted(bounds):
        first, last = bounds[attempt]
        again = lost = 0
        if before is not None:
            again = max(0, before - first + 1)
            # Series are logged every so many steps: a gap of one such stretch is none.
            lost = max(0, first - before - max(1, gap.get(attempt, 1)))
            if again:
                sentences.append(
                    f"attempt {attempt} resumed at step {first:,} and recorded {counted(again, 'step')} again"
                )
            elif lost:
                sentences.append(
                    f"attempt {attempt} resumed at step {first:,}: "
                    f"no record of {counted(lost, 'step')} before it"
                )
            else:
                sentences.append(f"attempt {attempt} resumed at step {first:,} without losing a step")
        rows.append((attempt, first, last, again, lost))
        before = last if before is None else max(before, last)
    return Table(
        "attempts", ("attempt", "first step", "last step", "recorded again", "lost"), tuple(rows)
    ), sentences


def reported(desk: Desk, run: StoredRun) -> HealthReport:
    """Return the report of the rules on a run, kept until the run grows."""
    return desk.backend.part(Reports).of(desk, run)


class Reports:
    """Reports on runs, kept while nothing is written to them."""

    def __init__(self) -> None:
        from stepscope.lru import Current

        self._reports: Current[str, HealthReport] = Current(64)

    def of(self, desk: Desk, run: StoredRun) -> HealthReport:
        """Return the report on a run."""
        from stepscope.serve.health import report_of

        return self._reports.of(run.name, run.family_generation, lambda: report_of(desk.log, run))


def _finding_lines(report: HealthReport) -> list[tuple[int, str]]:
    """Return a sentence for each rule that found something, the severest first."""
    lines: dict[str, tuple[int, str]] = {}
    for finding in report.verdict.findings:
        text = f"{finding.severity} {finding.rule}: {finding.summary}"
        lines.setdefault(finding.rule, (SEVERITIES.index(finding.severity), text))
    return sorted(lines.values(), key=lambda pair: pair[0])


@question
def findings(
    desk: Desk,
    run: Annotated[str, Meta(description="name of a run; default: all runs, the newest judged")] = "",
    severity: Annotated[
        Literal["info", "low", "medium", "high"], Meta(description="leave out what is less severe")
    ] = "info",
) -> Answer:
    """Say what is unhealthy in a run, since which step, where, and what to do."""
    from stepscope.analyze.health.report import lines_of_lacking

    whole = desk.some_runs()
    newest = sorted(whole, key=lambda stored: -stored.written)[:JUDGED]
    chosen = [desk.run(run)] if run or len(whole) == 1 else newest
    rows: list[tuple[Cell, ...]] = []
    lines: list[str] = []
    for stored in chosen:
        report = reported(desk, stored)
        lines.append(f"{report.run}, attempt {report.attempt}: {report.headline}; {report.covered}")
        rows += [_judged_row(stored.name, finding) for finding in report.verdict.findings]
        if len(chosen) == 1:
            lines += [forecast.text(tag) for tag, forecast in report.forecast.items()]
            lines += [report.batch_size.text] if report.batch_size else []
            lines += lines_of_lacking(report.verdict.abstained, report.recorded, report.hooks)
    others = [] if run else [other for other in whole if other not in chosen]
    noted = [
        _row(stored.name, finding, finding.summary, finding.tag)
        for stored in others
        for finding in stored.findings
    ]
    if others:
        lines.insert(
            0,
            f"the {len(chosen)} newest of {len(whole):,} runs were judged now; the others noted "
            f"{counted(len(noted), 'finding')} while they trained (run=NAME judges one)",
        )
    order: list[str] = list(SEVERITIES)
    shown = [row for row in [*rows, *noted] if order.index(str(row[1])) <= order.index(severity)]
    shown.sort(key=lambda row: order.index(str(row[1])))
    first = 1 if len(chosen) == 1 and not others else 0
    heads = ("run", "severity", "rule", "finding", "where", "since step", "over by step", "do")[first:]
    table = Table("findings", heads, tuple(row[first:] for row in shown), names=("run",))
    return Answer("findings", tuple(lines), (table,))


def _judged_row(run: str, finding: Finding) -> tuple[Cell, ...]:
    also = f" (also in {len(finding.also)} more: {', '.join(finding.also[:8])})" if finding.also else ""
    where = finding.tag + (f", rank {finding.rank}" if finding.rank is not None else "")
    return _row(run, finding, finding.summary + also, where)


def _row(run: str, finding: Finding, summary: str, where: str) -> tuple[Cell, ...]:
    severity, since, closed = finding.severity, finding.since, finding.closed_step
    return run, severity, finding.rule, summary, where, since, closed, finding.action


@question
def text(
    desk: Desk,
    run: Run = "",
    tag: Annotated[str, Meta(description="tag of texts or tables; default: list them")] = "",
    step: Annotated[int | None, Meta(description="the newest at or before it; default: the newest")] = None,
    search: Annotated[str, Meta(description="only lines that contain these words")] = "",
) -> Answer:
    """Return a text or table that a run recorded, as data."""
    stored = desk.run(run)
    known = {
        record.tag: record
        for part in [stored, *stored.parts]
        for record in part.records()
        if record.kind in ("text", "table")
    }
    if not tag:
        rows = []
        for words in known.values():
            series = _records(stored, words.tag)
            steps = np.concatenate([one.step for one in series])
            rows.append((words.tag, words.kind, len(steps), int(steps.min()), int(steps.max())))
        lines = (
            (f"{stored.name} recorded {counted(len(rows), 'kind')} of text",)
            if rows
            else (f"{stored.name} recorded no text",)
        )
        return Answer(
            "text",
            lines,
            (Table("texts", ("tag", "kind", "values", "first step", "last step"), tuple(rows)),),
        )
    if tag not in known:
        raise UnknownTagError(
            f"run {stored.name!r} has no text {tag!r:.80}", hint=hint_nearest(tag, list(known), "its texts")
        )
    values = [(int(at), one, row) for one in _records(stored, tag) for row, at in enumerate(one.step)]
    before = [value for value in values if step is None or value[0] <= step]
    if not before:
        raise UsageError(
            f"no value of {tag!r:.80} at or before step {step}", hint=f"the first is of step {values[0][0]}"
        )
    at, series, row = max(before, key=lambda value: value[0])
    content = _as_text(series[row])[:MAX_TEXT]
    if search:
        content = "\n".join(line for line in content.split("\n") if search.lower() in line.lower())
    content = scrub_text(content)
    source = f"{tag} of {stored.name} at step {at}"
    lines = (
        f"{source}: {counted(len(content), 'character')}"
        + (f" in lines with {search!r:.60}" if search else ""),
    )
    return Answer("text", lines, quotes=(Quote(source, content, len(content)),))


def _records(run: StoredRun, tag: str) -> list[Any]:
    parts = (part for part in [run, *run.parts] if any(record.tag == tag for record in part.records()))
    return [series for part in parts for series in part.record(tag)]


def _as_text(value: Any) -> str:
    if hasattr(value, "columns") and hasattr(value, "rows"):
        rows = [value.columns, *value.rows]
        return "\n".join("\t".join(map(str, row)) for row in rows)
    return "\n".join(map(str, np.asarray(value, object).reshape(-1).tolist()))
