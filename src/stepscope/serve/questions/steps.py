"""Questions about time: where a step's goes, since when it takes longer, and which operations take it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from stepscope.analyze.rank_test import LEVEL
from stepscope.analyze.shift import shift
from stepscope.errors import (
    EmptyTraceError,
    NoEventFilesError,
    StepscopeError,
    TraceError,
    UnknownRunError,
    UsageError,
)
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.run_series import Timed, recorded_beside, timed_of
from stepscope.store.lines import LineWindow, growth, spent_s, windows_of_run
from stepscope.text import counted, number, share, size, time

if TYPE_CHECKING:
    from stepscope.serve.profiles.open_profiles import OpenProfile
    from stepscope.store import StoredRun

Run = Annotated[str, Meta(description="name of a run; default: the newest, or the profile alone")]
Profile = Annotated[
    str, Meta(description="path of a profile, or a part that no other has; default: the newest")
]
By = Annotated[
    Literal["operators", "kernels", "launched", "scopes", "parts"],
    Meta(description="launched: device time by the operator that launched it"),
]
MOST_CAPTURES = 24
"""Profiles of one run whose times are put side by side: the newest, and the first."""
LEAST_SHARE = 0.01
"""Share of the time of a line that is listed."""
FRAMES = 3
"""Innermost frames of a stack that are named, beside the outermost."""


@question
def explain_step(
    desk: Desk,
    run: Run = "",
    profile: Profile = "",
    step: Annotated[
        int | None, Meta(description="the step since which it is slow; default: it is looked for")
    ] = None,
) -> Answer:
    """Say where a step's time goes: by stage over the training, by part, cause and line in a profile."""
    lines: list[str] = []
    tables: list[Table] = []
    stored = None if profile or desk.profile_file else _run_or_none(desk, run)
    if stored is not None:
        sentences, over_time = stages_of(stored, step)
        lines += sentences
        tables += over_time
    try:
        opened = desk.profile(profile, stored.name if stored is not None and run else "")
    except (TraceError, UnknownRunError) as error:
        if profile or not tables:
            raise
        return Answer("explain_step", (*lines, f"{error.message}; {error.hint}"), tuple(tables))
    advice = opened.advice
    trace = opened.trace
    numbers = sorted(set(trace.steps.number.tolist()))
    if step is not None and step not in numbers and not tables:
        raise _unknown_step(step, numbers, f"profile {opened.path}")
    lines.append(f"profile {opened.path}: {_steps(numbers)}; {advice.verdict}")
    for finding in advice.findings:
        gain = f"; gain: {finding.estimate_text}" if finding.gain_text else ""
        lines.append(f"{finding.severity} {finding.rule}: {finding.summary}{gain}; do: {finding.action}")
    tables += [*parts_of(opened, step if step in numbers else None), *lines_table(opened)]
    lines += [f"not judged, {lack.missing}: {lack.rule}" for lack in advice.abstained[:8]]
    return Answer("explain_step", tuple(lines), tuple(tables))


def _unknown_step(step: int, numbers: Sequence[int], source: str) -> UsageError:
    """Return the refusal of a step that is not among those of a run or a profile."""
    if not numbers:
        return UsageError(f"{source} marks no steps: step {step:,} is not known", hint="leave out the step")
    nearest = min(numbers, key=lambda number: abs(number - step))
    return UsageError(
        f"{source} recorded no step {step:,}",
        hint=f"the nearest is step {nearest:,}; its steps are {numbers[0]:,} to {numbers[-1]:,}",
    )


def _steps(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no steps marked"
    return (
        f"step {numbers[0]:,}"
        if len(numbers) == 1
        else f"{len(numbers)} steps, {numbers[0]:,} to {numbers[-1]:,}"
    )


def _run_or_none(desk: Desk, name: str) -> StoredRun | None:
    try:
        return desk.run(name)
    except NoEventFilesError:
        if name:
            raise
        return None


def stages_of(run: StoredRun, step: int | None) -> tuple[list[str], list[Table]]:
    """Return how the times of a run's stages changed, in sentences and as a table.

    Args:
        run: With telemetry of its ranks, or series of step times.
        step: Since when they changed; None to look for it.
    """
    timed = list(timed_of(run))
    windows = windows_of_run(run.ranks.members())
    if not timed:
        return [f"{run.name} recorded no step times"], list(_line_table(windows))
    whole, *stages = timed
    if step is not None and not whole.step[0] <= step <= whole.step[-1]:
        raise _unknown_step(step, whole.step.tolist(), run.name)
    since = step
    lines = []
    if since is None:
        change = shift(whole.ms)
        changed = whole
        if change is None:
            lines.append(
                f"{run.name}: {whole.name} has no lasting change; its median is {np.median(whole.ms):.4g} ms"
            )
            shifts = [(cut, stage) for stage in stages if (cut := shift(stage.ms)) is not None]
            clear = [pair for pair in shifts if pair[0].p_value * len(stages) <= LEVEL]
            change, changed = min(clear, key=lambda pair: pair[0].p_value, default=(None, whole))
        if change is not None:
            since = int(changed.step[change.row])
            lines.append(
                f"{run.name}: {changed.name} changed at step {since:,}, from {change.before:.4g} to "
                f"{change.after:.4g} ms (Pettitt's test: p = {change.p_value:.2g})"
            )
    changes = [_change(span, since) for span in timed]
    tables = list(_line_table(windows))
    if since is None:
        return lines, [_stage_table(changes, None), *tables]
    first, *parts = changes
    parts.sort(key=lambda part: -abs(part.ms))
    if step is not None:
        lines.append(
            f"{run.name}: {whole.name} is {first.before:.4g} ms before step {since:,} and "
            f"{first.after:.4g} ms from it on"
        )
    if parts and first.ms:
        most = parts[0]
        lines.append(
            f"most of the change is in {most.name}: {most.ms:+.4g} ms of {first.ms:+.4g} ms"
            if abs(most.ms) > abs(first.ms) / 2
            else f"no single stage has half of the change; the largest is {most.name}: {most.ms:+.4g} ms"
        )
    if first.ms > 0 and (grown := growth(windows, since)):
        lines.append(str(grown))
    return lines, [_stage_table([first, *parts], since), *tables]


def _line_table(windows: Sequence[LineWindow]) -> Iterator[Table]:
    """Yield the lines of the program in which the training spent its time, from looks at its thread."""
    whole, steps = sum(window.seconds for window in windows), sum(window.steps for window in windows)
    unit, factor = ("ms a step", 1e3 / steps) if steps else ("seconds", 1.0)
    rows = tuple(
        (str(line), line.function, factor * seconds, share(seconds / whole))
        for line, seconds in spent_s(windows).items()
        if seconds >= LEAST_SHARE * whole
    )
    if rows:
        yield Table("lines of the training", ("line", "function", unit, "share"), rows)


class Change(NamedTuple):
    """Times of a stage before and after a step; equal if there is no such step among its own."""

    name: str
    before: float
    after: float
    low: float
    high: float
    steps: int

    @property
    def ms(self) -> float:
        """After less before."""
        return self.after - self.before


def _change(timed: Timed, since: int | None) -> Change:
    cut = None if since is None else shift(timed.ms, row=int(np.searchsorted(timed.step, since)))
    middle = float(np.median(timed.ms))
    before, after = (middle, middle) if cut is None else (cut.before, cut.after)
    low, high = np.percentile(timed.ms, [5, 95])
    return Change(timed.name, before, after, float(low), float(high), len(timed.ms))


def _stage_table(changes: Sequence[Change], since: int | None) -> Table:
    if since is None:
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (change.name, change.before, change.low, change.high, change.steps) for change in changes
        )
        return Table("stages", ("stage", "median ms", "5 %", "95 %", "steps"), rows)
    rows = tuple(
        (change.name, change.before, change.after, change.ms, change.low, change.high, change.steps)
        for change in changes
    )
    heads = ("stage", f"ms before step {since}", "ms after", "change in ms", "5 %", "95 %", "steps")
    return Table("stages", heads, rows)


def parts_of(opened: OpenProfile, step: int | None) -> Iterator[Table]:
    """Yield the parts of the steps' time in a profile, and of one step beside them."""
    from stepscope.serve.profiles.summary import breakdown_or_none

    breakdown = breakdown_or_none(opened)
    if breakdown is None or not breakdown.steps:
        return
    rows: list[tuple[Cell, ...]] = []
    whole = breakdown.steps[0].parts_ns
    for part in whole:
        mean_ns = breakdown.mean_ns(part)
        if mean_ns is None:
            continue
        row: tuple[Cell, ...] = (part, mean_ns / 1e6, share(breakdown.ratio(part)))
        if step is not None:
            own = [one.parts_ns[part] for one in breakdown.steps if one.number == step]
            row = (*row, max((value for value in own if value is not None), default=0) / 1e6)
        rows.append(row)
    rows.sort(key=lambda row: -row[1])  # type: ignore[operator]
    heads = ("part", "mean ms a step", "share", *([f"ms in step {step}"] if step is not None else []))
    yield Table("parts of the step", heads, tuple(rows))


def lines_table(opened: OpenProfile) -> Iterator[Table]:
    """Yield the lines of the user's code that the training thread ran."""
    from stepscope.analyze.advise import lines

    rows = [
        (
            f"{line['file']}:{line['line']}",
            line["function"],
            line["ns"] / 1e6,
            share(line["ratio"]),
            line["rank"],
        )
        for line in lines.lines_of(opened.facts)
        if not line["worker"]
    ]
    if rows:
        yield Table(
            "lines of code", ("line", "function", "ms a step", "share", "rank"), tuple(rows), names=("line",)
        )


@question
def operations(
    desk: Desk,
    run: Annotated[str, Meta(description="name of a run: its profiles over the training, side by side")] = "",
    profile: Profile = "",
    against: Annotated[str, Meta(description="another profile: what differs, with a test")] = "",
    by: By = "operators",
    limit: Annotated[int, Meta(ge=1, le=1000, description="rows")] = 40,
) -> Answer:
    """List what takes the time of a step, and what grew from one profile to another."""
    if against:
        return _differing(desk, desk.profile(profile, run), desk.profile(against), by, limit)
    own = [] if profile or desk.profile_file else desk.profiles(desk.run(run).name if run else "")
    if run and len(own) > 1:
        return _over_time(desk, own, by, limit)
    opened = desk.profile(profile, run)
    from stepscope.analyze.history import column

    means = opened.once(("history", by), lambda: column(opened.trace, by))
    ordered = sorted(means.means.items(), key=lambda pair: -pair[1])
    whole = means.step_ns or 1.0
    rows = tuple(
        # Without a call in a step, what takes its time began before it.
        (name, time_ns / 1e6, share(time_ns / whole), means.calls[name] or None)
        for name, time_ns in ordered[:limit]
        if time_ns
    )
    numbers = sorted(set(opened.trace.steps.number.tolist()))
    lines = [f"profile {opened.path}: {_steps(numbers)}, {time(means.step_ns)} in the mean step"]
    lines += [] if rows else [f"it records no {by}"]
    heads = ("name", "mean ms a step", "share", "calls a step")
    total = sum(1 for _, time_ns in ordered if time_ns)
    table = Table(by, heads, rows, total, f"limit={total} lists all", names=("name",))
    return Answer("operations", tuple(lines), (table,))


def _over_time(desk: Desk, paths: list[str], by: str, limit: int) -> Answer:
    """Put the profiles of a run side by side, the oldest first."""
    from stepscope.analyze.history import column, history

    chosen = paths if len(paths) <= MOST_CAPTURES else [*paths[: MOST_CAPTURES - 1], paths[-1]]
    columns, heads, lines = [], [], []
    for path in chosen:
        try:
            opened = desk.profile(path)
            means = opened.once(("history", by), lambda opened=opened: column(opened.trace, by))  # type: ignore[misc]
        except StepscopeError as error:
            lines.append(f"{path}: {error.message}")
            continue
        numbers = sorted(set(opened.trace.steps.number.tolist()))
        columns.append((numbers[0] if numbers else 0, path, means))
    columns.sort(key=lambda capture: capture[0])
    if not columns:
        raise TraceError("no profile of the run can be read", hint=lines[0] if lines else "")
    heads = [f"mean ms at step {step}" for step, _, _ in columns]
    found_lines = history([means for _, _, means in columns])
    rows: list[tuple[Cell, ...]] = [
        (
            found_line.name,
            found_line.change_ns / 1e6,
            *(None if value is None else value / 1e6 for value in found_line.mean_ns),
        )
        for found_line in found_lines
    ]
    steps = [means.step_ns / 1e6 for _, _, means in columns]
    lines.insert(0, f"{len(columns)} profiles, at steps {', '.join(f'{step:,}' for step, _, _ in columns)}")
    lines.insert(1, f"the mean step took {steps[0]:.4g} ms in the first and {steps[-1]:.4g} ms in the last")
    if rows and rows[0][1]:
        lines.insert(2, f"the largest change: {rows[0][0]}, {rows[0][1]:+.4g} ms a step")
    table = Table(
        by,
        ("name", "change in ms", *heads),
        tuple(rows[:limit]),
        len(rows),
        f"limit={len(rows)}",
        names=("name",),
    )
    return Answer("operations", tuple(lines), (table,))


def _differing(desk: Desk, a: OpenProfile, b: OpenProfile, by: str, limit: int) -> Answer:
    from stepscope.analyze.diff import diff

    numbers = a.trace.steps.number.tolist(), b.trace.steps.number.tolist()
    log = None if desk.profile_file else desk.log
    compared = diff(a.trace, b.trace)
    recorded = recorded_beside(log, (a.path, b.path), numbers)
    lines = [f"A is {a.path}, B is {b.path}"]
    step = compared.step
    if recorded is not None and recorded.a.mean is not None and recorded.b.mean is not None:
        told = f"{recorded.word}, {recorded.why} ({recorded.window})"
        lines.append(
            f"a step takes {number(recorded.a.mean)} ms in A and {number(recorded.b.mean)} ms in B: {told}; "
            "the profiled steps say what differs"
        )
    elif step.a is not None and step.b is not None:
        a_ms, b_ms = step.a.mean_ns / 1e6, step.b.mean_ns / 1e6
        lines.append(
            f"a profiled step takes {a_ms:.4g} ms in A and {b_ms:.4g} ms in B; profiled steps alone cannot "
            "tell whether the runs differ"
        )
        lines += compared.notes
    changes = [change for change in getattr(compared, by) if change.difference_ns]
    rows = tuple(
        (
            change.name,
            change.a.mean_ns / 1e6 if change.a else None,
            change.b.mean_ns / 1e6 if change.b else None,
            change.difference_ns / 1e6,
            change.verdict,
            change.p_value,
        )
        for change in changes[:limit]
    )
    heads = ("name", "A ms", "B ms", "B - A ms", "verdict", "p")
    return Answer(
        "operations",
        tuple(lines),
        (Table(by, heads, rows, len(changes), f"limit={len(changes)}", names=("name",)),),
    )


@question
def profile(
    desk: Desk,
    view: Annotated[
        Literal["scope", "op", "code", "kernel", "graph", "memory", "shapes", "steps"],
        Meta(description="tfprof's views, memory at its peak, shapes of products, or the steps"),
    ] = "scope",
    run: Annotated[str, Meta(description="name of a run, whose newest profile is shown")] = "",
    profile: Profile = "",
    options: Annotated[
        str, Meta(description="tfprof's, such as -max_depth 4 -order_by bytes -show_name_regexes .*conv.*")
    ] = "",
) -> Answer:
    """Show a view of a profile as tfprof does, or its memory at the peak and who holds it."""
    opened = desk.profile(profile, run)
    if view == "memory":
        return _memory(opened)
    if view == "steps":
        from stepscope.analyze.views.steps import steps_of

        return _of_text(opened, view, steps_of(opened.tfprof, lambda: opened.trace).text)
    if view == "shapes":
        from stepscope.analyze.shapes import shape_table

        return _of_text(opened, view, shape_table(opened.trace).text)
    import shlex

    from stepscope.analyze.options import parse_words
    from stepscope.analyze.tfprof.report import show

    try:
        chosen, extra = parse_words(shlex.split(options))
    except ValueError as error:
        raise UsageError(f"options {options!r:.80}: {error}", hint="-max_depth 4") from None
    if extra:
        raise UsageError(f"options take no word {extra[0]!r:.60}", hint="-max_depth 4 -order_by micros")
    return _of_text(opened, view, show(view, opened.tfprof, lambda: opened.trace, chosen).text)


def _of_text(opened: OpenProfile, view: str, text: str) -> Answer:
    rows = tuple((line,) for line in text.rstrip("\n").split("\n"))
    return Answer("profile", (f"profile {opened.path}",), (Table(f"lines of {view}", (), rows),))


def _memory(opened: OpenProfile) -> Answer:
    devices = opened.facts.memory
    if not devices:
        raise EmptyTraceError("no memory was recorded", hint="stepscope capture RUN --memory")
    lines, tables = [f"profile {opened.path}"], []
    for device in sorted(devices, key=lambda one: -one.peak.bytes):
        place = f"rank {device.rank}, " + (f"device {device.device}" if device.device >= 0 else "host")
        peak = device.peak
        step = f" in step {peak.step:,}" if peak.step >= 0 else ""
        of = (
            f", {share(device.capacity_ratio)} of {size(device.capacity_bytes)}"
            if device.capacity_bytes
            else ""
        )
        lines.append(f"{place}: the peak is {size(peak.bytes)}{step}{of}")
        if peak.before_bytes:
            lines.append(f"{place}: {size(peak.before_bytes)} of it was allocated before the recording")
        if device.out_of_memory:
            lines.append(f"{place}: {counted(device.out_of_memory, 'allocation')} failed")
        for by in ("category", "scope", "operator", "phase", "stack"):
            holders = getattr(peak, f"by_{by}")
            rows = [
                (
                    _holder(by, one.name) or "not recorded",
                    size(one.bytes),
                    share(one.bytes / peak.bytes if peak.bytes else None),
                    one.allocations,
                )
                for one in holders or ()
            ]
            if rows:
                name = f"holders by {by}" + (f" of {place}" if len(devices) > 1 else "")
                heads = (by, "bytes", "share", "allocations")
                names = (by,) if by in ("scope", "operator") else ()
                tables.append(Table(name, heads, tuple(rows), names=names))
    return Answer("profile", tuple(lines), tuple(tables))


def _holder(by: str, name: str) -> str:
    """Return the name of a holder; of a stack, its innermost frames without the paths of their files."""
    frames = name.splitlines()
    if by != "stack" or len(frames) < 2:
        return name
    inner = [frame.rpartition("/")[2] for frame in frames[: -FRAMES - 1 : -1]]
    return " < ".join([*inner, *(["…", frames[0].rpartition("/")[2]] if len(frames) > FRAMES else [])])
