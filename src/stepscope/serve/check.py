"""Checks of a candidate against a baseline.

A check needs a few numbers of a run, so a baseline can be a small file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
import numpy as np

from stepscope.analyze.judgement import Curve, judge_runs, last_half
from stepscope.analyze.rank_test import LEAST_RATIO
from stepscope.analyze.regression import ALARM, Regression, regression
from stepscope.errors import (
    NoEventFilesError,
    UnknownRunError,
    UnknownTagError,
    UsageError,
)
from stepscope.expression import parse_condition
from stepscope.files import regular_bytes, write_whole, writing
from stepscope.health import SEVERITIES
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.runs import reported
from stepscope.serve.questions.sweep import chart_of, judged_by
from stepscope.serve.run_series import points_of, tags_of, timed_of
from stepscope.serve.values import runs_found
from stepscope.store.nearest import hint_nearest
from stepscope.text import number, share, size, time
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.names.telling import Chart
    from stepscope.store import StoredRun

FORMAT = 2
"""Of a baseline's file."""
MOST_BYTES = 64 << 20
"""Of a baseline's file that is read."""
Kind = Literal["end", "findings", "expect", "steps", "throughput", "memory", "metric", "operations"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MEASURED = {
    "steps": "of a step without disturbance",
    "throughput": "over the last half of the steps",
    "memory": "at its peak",
    "metric": "over the last half of the steps",
}
"""The part of a run that its value is of, by the kind of a check."""
RECORDED_BY = {
    "steps": "loop over run.steps(loader)",
    "throughput": "loop over run.steps(loader)",
    "memory": "add ss.SystemHook()",
    "metric": "log a loss or a score, or name one with --metric",
    "operations": "record a profile with ss.ProfilerHook()",
}
DISTURBED = ("steps", "throughput")
"""Kinds of values that other programs on the machine make worse, and never better."""
NO_TURNS = "the sides did not take turns: a change of the machine would look the same"
TABLES = ("operators", "kernels")
"""Times of a profile that are compared."""
Status = Literal["passed", "failed", "cannot tell"]


class Fact(msgspec.Struct, frozen=True):
    """One number of a run.

    Attributes:
        tag: The series that it comes from.
        unit: ``ms bytes`` or a name for what is counted; empty for a plain number.
        larger_is_worse: Which end is worse.
        steps: The first and last step of the run's metric; None of other kinds.
    """

    kind: Kind
    tag: str
    value: float
    unit: str = ""
    larger_is_worse: bool = True
    steps: tuple[int, int] | None = None


class RunFacts(msgspec.Struct, frozen=True):
    """The facts of a run that checks need.

    Attributes:
        began: When it began to record, seconds since the epoch.
        findings: Severity and summary of what the rules found, by rule.
    """

    name: str
    state: str
    began: float
    facts: tuple[Fact, ...]
    findings: dict[str, tuple[str, str]] = {}


class ProfileFacts(msgspec.Struct, frozen=True):
    """Times of a profile by table: names, and nanoseconds of each by step."""

    path: str
    resolution_ns: int
    steps_ns: tuple[float, ...]
    tables: dict[str, tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]]


class Side(msgspec.Struct, frozen=True):
    """The runs of a baseline or a candidate; a baseline's file holds one."""

    place: str
    runs: tuple[RunFacts, ...]
    profile: ProfileFacts | None = None
    format: int = FORMAT
    version: str = __version__


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        subject: The tag, rule, condition or operation; empty if there is one subject only.
        text: The result in a sentence.
        verdict: The verdict on the values of both sides, as Compare has it; a failure takes more.
        missing: What a verdict would take; empty if there is one.
        before: Values of the baseline's runs, if the check compares values.
        after: Values of the candidate's.
    """

    kind: Kind
    subject: str
    status: Status
    text: str
    missing: str = ""
    verdict: str = ""
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    result: Regression | None = None


# --- sides --------------------------------------------------------------------------------------------------


def opened(place: str, logs: str, *, cache: bool) -> tuple[Desk, list[StoredRun]]:
    """Return the runs at a path, or those of a log directory that a query matches.

    Raises:
        UnknownRunError: None matches.
        NoEventFilesError: No run is recorded there.
    """
    desk = Desk(place if Path(place).expanduser().exists() else logs, cache=cache)
    desk.refresh()
    if desk.profile_file:
        return desk, []
    runs = {run.name: run for run in desk.runs()}
    if desk.place == place:
        if not runs and not desk.profiles():
            raise NoEventFilesError(
                "no run is recorded here", hint="pass a run, or its directory", path=place
            )
        return desk, list(runs.values())
    if place in runs:
        return desk, [runs[place]]
    chosen = runs_found(desk, place)
    if not chosen:
        raise UnknownRunError(
            f"{place!r:.80} is no path, and no run of {logs} matches it",
            hint=hint_nearest(place, list(runs), "the runs"),
        )
    return desk, chosen


def side_of(place: str, logs: str, *, metric: str = "", cache: bool = True) -> Side:
    """Measure the runs of a side, or read them from a baseline's file.

    Raises:
        StepscopeError: They cannot be read.
    """
    side, _ = measured(place, logs, metric=metric, cache=cache)
    return side


def measured(
    place: str, logs: str, conditions: Sequence[str] = (), *, metric: str = "", cache: bool = True
) -> tuple[Side, list[Check]]:
    """Measure the runs of a side as :func:`side_of` does, and judge conditions over the tags of each run.

    Args:
        place: The side.
        logs: The log directory in which it is looked for if it is no path.
        conditions: Of the one grammar, such as ``last(eval/loss) < 0.3``; a baseline's file has no tags.
        metric: The tag to judge runs by; "": the one of the charts.
        cache: Whether caches may be kept.

    Raises:
        ExpressionError: One is no condition.
        StepscopeError: The runs cannot be read.
    """
    for text in conditions:
        parse_condition(text)
    path = Path(place).expanduser()
    if path.is_file() and path.suffix == ".json" and (baseline := read_baseline(path)) is not None:
        return baseline, []
    desk, runs = opened(place, logs, cache=cache)
    try:
        charts = desk.charts()
        side = Side(
            place=place,
            runs=tuple(run_facts(desk, run, charts, metric) for run in runs),
            profile=profile_facts(desk, runs),
        )
        return side, [_expected(run, text) for text in conditions for run in runs]
    finally:
        desk.close()


def read_baseline(path: Path) -> Side | None:
    """Return the content of a baseline's file; None if it is another file.

    Raises:
        UsageError: It is damaged, or of a later version.
    """
    data = regular_bytes(path, MOST_BYTES)
    if b'"larger_is_worse"' not in data and b'"format":' not in data[:4096]:
        return None
    try:
        baseline = msgspec.json.decode(data, type=Side)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"not a baseline: {error}", hint="write it with stepscope check RUNS --save-baseline FILE"
        ) from None
    if baseline.format != FORMAT:
        raise UsageError(
            f"a baseline of format {baseline.format}: expected {FORMAT}",
            hint=f"write it anew; it is of stepscope {baseline.version}",
        )
    return baseline


def save_baseline(side: Side, path: Path) -> None:
    """Write what the checks need of a side into a file.

    Raises:
        LogDirectoryError: It cannot be written.
    """
    with writing("the baseline", path):
        write_whole(path, msgspec.json.encode(side))


def run_facts(desk: Desk, run: StoredRun, charts: Sequence[Chart], metric: str) -> RunFacts:
    """Measure one run.

    Args:
        desk: Its log directory.
        run: The run.
        charts: Of the directory, the most telling first.
        metric: The tag to judge it by; "": that of the charts.
    """
    state, _ = run.condition()
    findings = reported(desk, run).verdict.findings
    order = {name: place for place, name in enumerate(SEVERITIES)}
    worst: dict[str, tuple[str, str]] = {
        finding.rule: (finding.severity, finding.summary)
        for finding in sorted(findings, key=lambda one: -order[one.severity])
    }
    began = float(run.info.started or run.written)
    name = desk.log.path.name if run.name == "." else run.name
    return RunFacts(name, state, began, tuple(_facts(run, charts, metric)), worst)


def _facts(run: StoredRun, charts: Sequence[Chart], metric: str) -> Iterator[Fact]:
    timed = next(timed_of(run), None)
    if timed is not None:
        times = Curve(timed.step, timed.ms)
        yield Fact("steps", timed.name, last_half(times, times=True)[0], "ms")
        yield Fact("throughput", "steps", 1e3 / last_half(times)[0], "per second", larger_is_worse=False)
    own = tags_of(run)
    for chart in charts:
        for tag in [line.tag for line in chart.lines if line.tag in own and chart.tier == "running"]:
            step, value = points_of(run.find(tag))
            good = np.isfinite(value)
            step, value = step[good], value[good]
            if not len(value):
                continue
            unit = chart.unit or ""
            if chart.role == "memory":
                yield Fact("memory", tag, float(value.max()), unit)
            elif chart.role == "throughput" and not tag.startswith("speed/steps"):
                yield Fact("throughput", tag, last_half(Curve(step, value))[0], unit, larger_is_worse=False)
    tag = metric or judged_by(charts)
    if tag not in own:
        return
    judged = chart_of(charts, tag)
    lower = None if judged is None else judged.lower_is_better
    step, value = points_of(run.find(tag))
    if lower is None:
        if metric:
            raise UsageError(
                f"which end of {metric!r:.80} is better is not known",
                hint="use --expect, such as --expect 'last(TAG) < 0.3'",
            )
        return
    if len(value):
        mean, ends = last_half(Curve(step, value))
        yield Fact("metric", tag, mean, "", lower, ends)


def profile_facts(desk: Desk, runs: Sequence[StoredRun]) -> ProfileFacts | None:
    """Measure the newest profile of some runs, or of a directory without runs; None if there is none."""
    from stepscope.analyze.diff import step_table, table_of

    names = [run.name for run in sorted(runs, key=lambda run: -run.written)]
    for name in names or [""]:
        paths = [desk.profile_file] if desk.profile_file else desk.profiles(name)
        if paths:
            trace = desk.profile(paths[0]).trace
            tables = {}
            for by in TABLES:
                table = table_of(trace, by)
                rows = tuple(tuple(map(float, row)) for row in table.time)
                tables[by] = (tuple(table.names), rows)
            steps = tuple(map(float, step_table(trace).time[0]))
            return ProfileFacts(paths[0], trace.resolution_ns, steps, tables)
    return None


# --- checks -------------------------------------------------------------------------------------------------


def checks_of(
    a: Side,
    b: Side,
    *,
    only: Sequence[str] = (),
    fail_on: str = "high",
) -> list[Check]:
    """Judge a candidate against a baseline.

    Args:
        a: The baseline.
        b: The candidate.
        only: Kinds of checks to make; empty for all that both sides recorded.
        fail_on: A new finding of at least this severity fails; "never": none does.
    """
    wanted = [kind for kind in KINDS if not only or kind in only]
    made: list[Check] = []
    for kind in wanted:
        if kind == "end":
            made += _ends(b)
        elif kind == "findings":
            made += _new_findings(a, b, fail_on)
        elif kind == "operations":
            made += _operations(a, b, asked=kind in only)
        elif kind != "expect":
            made += _values(kind, a, b, asked=kind in only)
    return made


def _ends(b: Side) -> Iterator[Check]:
    for run in b.runs:
        if run.state in ("failed", "stopped", "stalled"):
            yield Check("end", run.name, "failed", f"{run.name} {run.state}")
        elif run.state == "running":
            yield Check("end", run.name, "cannot tell", f"{run.name} is running", "the end of the run")
    ended = [run for run in b.runs if run.state in ("finished", "ended")]
    if ended and len(ended) == len(b.runs):
        yield Check(
            "end", "", "passed", f"{len(ended)} runs ended" if len(ended) > 1 else f"{ended[0].name} ended"
        )


def _new_findings(a: Side, b: Side, fail_on: str) -> Iterator[Check]:
    severe = () if fail_on == "never" else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    known = {rule for run in a.runs for rule in run.findings}
    news: dict[str, tuple[str, str, str]] = {}
    old = 0
    for run in b.runs:
        for rule, (severity, summary) in run.findings.items():
            if severity in severe and rule not in known:
                news.setdefault(rule, (run.name, severity, summary))
            old += severity in severe and rule in known
    for rule, (name, severity, summary) in news.items():
        yield Check("findings", rule, "failed", f"{name}: {severity} {rule}: {summary}")
    if b.runs and not news and severe:
        also = f"; {old} that the baseline has, too" if old else ""
        yield Check("findings", "", "passed", f"no new finding at or above {fail_on}{also}")


def _values(kind: Kind, a: Side, b: Side, *, asked: bool) -> Iterator[Check]:
    sides = [_by_tag(kind, facts) for facts in (a, b)]
    if not sides[0] and not sides[1] and not asked:
        return
    shared = [tag for tag in sides[0] if tag in sides[1]]
    if not shared:
        lacking = _lacking(*sides)
        text = f"{lacking} recorded none" if lacking else "the sides recorded different series"
        yield Check(kind, "", "cannot tell", text, RECORDED_BY[kind])
    for tag in shared:
        made = _value(kind, tag, sides[0][tag], sides[1][tag])
        if made.status == "failed" and kind in DISTURBED and not _took_turns(a, b):
            made = replace(made, text=f"{made.text}; {NO_TURNS}")
        yield made


def _lacking(a: object, b: object) -> str:
    """Return which sides have nothing; empty if both have something."""
    return " and ".join(name for name, facts in (("the baseline", a), ("the candidate", b)) if not facts)


def _took_turns(a: Side, b: Side) -> bool:
    times = [[run.began for run in side.runs] for side in (a, b)]
    return max(times[0]) > min(times[1]) and max(times[1]) > min(times[0])


def _by_tag(kind: Kind, side: Side) -> dict[str, list[Fact]]:
    by_tag: dict[str, list[Fact]] = {}
    for run in side.runs:
        for fact in run.facts:
            if fact.kind == kind:
                by_tag.setdefault(fact.tag, []).append(fact)
    return by_tag


def _value(kind: Kind, tag: str, a: Sequence[Fact], b: Sequence[Fact]) -> Check:
    before, after = (tuple(fact.value for fact in side) for side in (a, b))
    steps = [sorted({fact.steps for fact in side if fact.steps is not None}) for side in (a, b)]
    counts = f"{len(a)} and {len(b)} runs"
    if steps[0] != steps[1]:
        ends = " and ".join(", ".join(f"{first:,} to {last:,}" for first, last in side[:4]) for side in steps)
        text = f"{tag}: the sides recorded different steps, {ends}"
        missing = "runs of equal length, or --expect 'at(STEP, TAG) < …'"
        return Check(kind, tag, "cannot tell", text, missing, "", before, after)
    worse, disturbed = b[0].larger_is_worse, kind in DISTURBED
    finite = [[value for value in side if math.isfinite(value)] for side in (before, after)]
    bad = [len(side) - len(good) for side, good in zip((before, after), finite, strict=True)]
    judged = judge_runs(*finite, bad=bad, lower=worse, disturbed=disturbed)
    if any(bad):
        status: Status = {"worse": "failed", "better": "passed"}.get(judged.verdict, "cannot tell")  # type: ignore[assignment]
        text = f"{tag}: not a finite number {MEASURED[kind]}"
        missing = "finite values of both sides" if status == "cannot tell" else ""
        return Check(kind, tag, status, text, missing, judged.word, before, after)
    change = regression(before, after, larger_is_worse=worse, disturbed=disturbed)
    shown_a, shown_b = (_shown(side.mean or 0.0, b[0].unit) for side in (judged.a, judged.b))
    sure = f", p = {change.p_value:.2g}" if change.p_value is not None else ""
    text = f"{tag}: {shown_a} before, {shown_b} after, {MEASURED[kind]} ({counts}{sure})"
    status, missing = "cannot tell", change.missing or "more runs of each side"
    if change.verdict == "worse" and judged.verdict == "worse":
        status, missing, text = "failed", "", f"{text}: {share(change.change_ratio)} worse"
    elif change.verdict == "not worse":
        bound = (
            "all runs are equal"
            if change.p_value is None
            else f"at most {share(max(change.high_ratio or 0.0, 0.0))} worse"
        )
        status, missing, text = "passed", "", f"{text}: {bound}"
    return Check(kind, tag, status, text, missing, judged.word, before, after, change)


def _shown(value: float, unit: str) -> str:
    if unit == "ms":
        return time(value * 1e6)
    if unit == "bytes":
        return size(value)
    return f"{number(value)} {unit}".strip()


def _operations(a: Side, b: Side, *, asked: bool) -> Iterator[Check]:
    from stepscope.analyze.diff import StepTable, compared

    if a.profile is None or b.profile is None:
        if asked or a.profile is not b.profile:
            text = f"{_lacking(a.profile, b.profile)} has no profile"
            yield Check("operations", "", "cannot tell", text, RECORDED_BY["operations"])
        return
    profiles = (a.profile, b.profile)
    counts = [len(profile.steps_ns) for profile in profiles]
    step = max(float(np.median(profile.steps_ns)) for profile in profiles)
    about = f"{counts[0]} and {counts[1]} profiled steps"
    if 1 / math.comb(sum(counts), counts[0]) > ALARM:
        yield Check(
            "operations",
            "",
            "cannot tell",
            f"{about} cannot show a regression",
            "profiles of five steps or more",
        )
        return
    slower = []
    for by in TABLES:
        tables = []
        for measured in profiles:
            names, rows = measured.tables.get(by, ((), ()))
            time_ns = np.array(rows, np.float64).reshape(len(names), len(measured.steps_ns))
            tables.append(StepTable(list(names), time_ns, np.ones_like(time_ns)))
        if not all(table.names for table in tables):
            continue
        resolution = max(profile.resolution_ns for profile in profiles)
        slower += [
            (by, change)
            for change in compared(tables[0], tables[1], resolution, step, level=2 * ALARM)
            if change.verdict == "slower" and change.difference_ns > LEAST_RATIO * step
        ]
    for by, change in slower:
        p_value = "" if change.p_value is None else f", p = {change.p_value:.2g}"
        times = [time(side.mean_ns) for side in (change.a, change.b) if side is not None]
        text = f"{by[:-1]} {change.name}: {times[0]} before, {times[-1]} after, per step ({about}{p_value})"
        yield Check("operations", change.name, "failed", text)
    if not slower:
        yield Check(
            "operations", "", "passed", f"no operation makes a step {share(LEAST_RATIO)} longer ({about})"
        )


def _expected(run: StoredRun, text: str) -> Check:
    from stepscope.store.derive import derive

    try:
        derived = derive(run, text)
    except UnknownTagError as error:
        hint = f"; {error.hint}" if error.hint else ""
        return Check("expect", text, "cannot tell", f"{run.name}: {text}", f"{error.message}{hint}")
    values = [float(series.value[len(series) - 1]) for series in derived.series if len(series)]
    if not values or math.isnan(values[-1]):
        missing = derived.note or "a value that is a number"
        return Check("expect", text, "cannot tell", f"{run.name}: {text}", missing)
    status: Status = "passed" if values[-1] else "failed"
    return Check("expect", text, status, f"{run.name}: {text} {'holds' if values[-1] else 'does not hold'}")


def picture_of(check: Check) -> bytes:
    """Return a picture of the values of the runs of both sides as PNG: one dot a run."""
    from stepscope.serve.questions.picture import Curve, chart

    curves = []
    begin = 1
    for name, values in (("baseline", check.before), ("candidate", check.after)):
        x = np.arange(begin, begin + len(values), 0.5)
        y = np.full(len(x), np.nan)
        y[::2] = values
        curves.append(Curve(name, x, y))
        begin += len(values)
    return chart(f"{check.kind} {check.subject}: {check.status}", curves).png()
