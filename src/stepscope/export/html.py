"""A report of a profile in one HTML file: steps, advice, views and memory, offline and without a script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscope import text
from stepscope.analyze.advise import Advice, Facts, Finding, advise
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.memory import memory, memory_rows, memory_series
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.step_tree import PARTS
from stepscope.analyze.views import Answer, losses, view
from stepscope.analyze.views.steps import profile_steps
from stepscope.errors import StepscopeError, UsageError
from stepscope.export import page

if TYPE_CHECKING:
    from stepscope.trace.model import Trace
    from stepscope.trace.tfprof import Profile

_MOST_STEPS = 60
_MOST_ROWS = 60
_MOST_LINES = 1500
_MOST_POINTS = 2000


def write_html(facts: Facts, path: str | os.PathLike[str], *, title: str) -> None:
    """Write the report.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        Path(path).write_text(report(facts, title=title), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the report: {error.strerror or error}",
            path=path,
            hint="choose a folder that exists and can be written",
        ) from None


def report(facts: Facts, *, title: str) -> str:
    """Return the page; a section without recorded data says so and is not left out."""
    sections = [f"<h1>{page.escape(title)}</h1>"]
    if facts.profile is not None:
        sections += _profile_sections(facts.profile, advise(facts))
    elif facts.trace is not None and len(facts.trace):
        sections += _trace_sections(facts.trace, advise(facts))
    return page.document(title, sections)


def _section(heading: str, make: Callable[[], str]) -> str:
    try:
        body = make()
    except StepscopeError as error:
        body = f"<p>{page.escape(error.message)}</p>" + (
            f"<p>{page.escape(error.hint)}</p>" if error.hint else ""
        )
    return f"<h2>{page.escape(heading)}</h2>\n{body}"


# --- a trace ------------------------------------------------------------------------------------------


def _trace_sections(trace: Trace, advice: Advice) -> Iterator[str]:
    yield _facts(trace)
    yield _section("Advice", lambda: _advice(advice))
    yield _section("Steps", lambda: _steps(trace))
    for name, heading in (("scope", "Scopes"), ("graph", "Calls"), ("code", "Python code")):
        yield _section(heading, lambda name=name: _tree(_ask(name, trace, max_depth=8)))  # type: ignore[misc]
    for name, heading in (("op", "Operators"), ("kernel", "Kernels")):
        yield _section(heading, lambda name=name: _list(_ask(name, trace, max_depth=_MOST_ROWS - 1)))  # type: ignore[misc]
    yield _section("Memory", lambda: _memory(trace))


def _facts(trace: Trace) -> str:
    counts = ((len(trace), "event"), (len(trace.ranks), "rank"), (len(trace.steps), "step"))
    lines = [" · ".join([trace.format, *(f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts)])]
    lines += losses(trace)
    lines += [f"not recorded: {name} ({reason})" for name, reason in trace.not_recorded.items()]
    return "".join(f"<p>{page.escape(line)}</p>" for line in lines)


def _advice(advice: Advice) -> str:
    parts = [f"<p>{page.escape(advice.verdict)}</p>", *map(_finding, advice.findings)]
    if advice.abstained:
        missing = "; ".join(f"{one.rule} ({one.missing})" for one in advice.abstained)
        parts.append(f"<p>could not be judged: {page.escape(missing)}</p>")
    return "\n".join(parts)


def _finding(one: Finding) -> str:
    lines = [one.gain_text, *one.chain, *one.evidence_lines, one.command]
    evidence = page.escape("\n".join(line for line in lines if line))
    return (
        f'<div class="finding {one.severity}"><strong>{page.escape(one.rule)}</strong> · {one.severity}<br>'
        f"{page.escape(one.summary)}<pre>{evidence}</pre>{page.escape(one.action)}</div>"
    )


def _steps(trace: Trace) -> str:
    parts = breakdown(trace)
    steps = parts.steps[:_MOST_STEPS]
    names = [part for part in PARTS if any(step.parts_ns[part] for step in steps)]
    labels = [_step_label(step.rank, step.step, len(trace.ranks)) for step in steps]
    sizes = [(part.replace("_", " "), [(step.parts_ns[part] or 0) / 1e6 for step in steps]) for part in names]
    rows = [
        [*(_time(step.parts_ns[part]) for part in names), text.time(step.wall_ns), label]
        for step, label in zip(steps, labels, strict=True)
    ]
    note = f"<p>the first {_MOST_STEPS} of {len(parts.steps)}</p>" if len(parts.steps) > len(steps) else ""
    heads = [*(part.replace("_", " ") for part in names), "step takes", "step"]
    return page.stacked_bars(labels, sizes, unit="ms") + note + page.table(heads, rows)


def _step_label(rank: int, step: int, ranks: int) -> str:
    name = f"step {step}" if step >= 0 else "all"
    return f"rank {rank} {name}" if ranks > 1 else name


def _time(ns: int | None) -> str:
    return "-" if ns is None else text.time(ns)


def _ask(name: str, trace: Trace, *, max_depth: int) -> Answer:
    return view(name, trace, ViewOptions(order_by="micros", max_depth=max_depth))


def _tree(answer: Answer) -> str:
    keys = ("device_total_ns", "device_self_ns", "host_total_ns", "host_self_ns", "calls")
    columns = [column for column in answer.columns if column.key in keys]
    ratio = next((c.values for c in answer.columns if c.key.endswith("_ratio")), np.zeros(len(answer.lines)))
    branches = [
        page.PageRow(
            line.depth,
            float(ratio[index]),
            [column.text(float(column.values[index])) for column in columns],
            line.name,
        )
        for index, line in enumerate(answer.lines[:_MOST_LINES])
    ]
    return _denominator(answer) + page.tree([column.head for column in columns], branches)


def _denominator(answer: Answer) -> str:
    cut = f" · the first {_MOST_LINES:,} lines" if len(answer.lines) > _MOST_LINES else ""
    return f"<p>{page.escape(answer.label)}{cut}</p>"


def _list(answer: Answer) -> str:
    rows = [
        [*(column.text(float(column.values[index])) for column in answer.columns), line.name]
        for index, line in enumerate(answer.lines)
    ]
    return _denominator(answer) + page.table([*(column.head for column in answer.columns), "name"], rows)


def _memory(trace: Trace) -> str:
    parts = []
    for device in memory(trace):
        place = f"device {device.device}" if device.device >= 0 else "host"
        series = memory_series(trace, memory_rows(trace, device.rank, device.device))
        caption = f"rank {device.rank} {place}: peak {text.size(device.peak.bytes)}"
        # Each pixel shows the highest level in it, so the peak is always there.
        size = -(-len(series.time_ns) // _MOST_POINTS)
        starts = np.arange(0, len(series.time_ns), size)
        levels = (
            np.maximum.reduceat(series.allocated_bytes, starts) if len(starts) else series.allocated_bytes
        )
        parts.append(page.area(series.time_ns[starts].tolist(), levels.tolist(), caption=caption))
        holders = device.peak.by_scope or device.peak.by_operator or ()
        rows = [[text.size(one.bytes), f"{one.allocations:,}", one.name or "(nowhere)"] for one in holders]
        parts.append(page.table(["held at the peak", "allocations", "by"], rows))
    return "\n".join(parts)


# --- tfprof's own data --------------------------------------------------------------------------------


def _profile_sections(profile: Profile, advice: Advice) -> Iterator[str]:
    yield f"<p>tfprof profile · {len(profile.nodes):,} graph nodes · {len(profile.steps)} steps</p>"
    yield _section("Advice", lambda: _advice(advice))
    yield _section("Steps", lambda: _profile_steps(profile))
    for name, heading in (("scope", "Scopes"), ("code", "Python code")):
        yield _section(heading, lambda name=name: _profile_tree(profile, name))  # type: ignore[misc]
    yield _section("Operators", lambda: _profile_ops(profile))


def _profile_steps(profile: Profile) -> str:
    rows = profile_steps(profile).rows[:_MOST_STEPS]
    labels = [f"step {row.step}" for row in rows]
    sizes = [
        ("accelerator", [(row.device_ns or 0) / 1e6 for row in rows]),
        ("cpu", [(row.host_ns or 0) / 1e6 for row in rows]),
    ]
    cells = [
        [_time(row.device_ns), _time(row.host_ns), text.time(row.duration_ns), label]
        for row, label in zip(rows, labels, strict=True)
    ]
    return page.stacked_bars(labels, sizes, unit="ms") + page.table(
        ["accelerator", "cpu", "step takes", "step"], cells
    )


def _profile_tree(profile: Profile, name: str) -> str:
    from stepscope.analyze.tfprof import profile as ask

    shown = ask(name, profile, ViewOptions(order_by="micros", max_depth=30, min_micros=1))
    total = shown.total
    whole = int(total["micros"][0]) or 1
    branches = [
        page.PageRow(
            line.depth,
            int(total["micros"][line.node]) / whole,
            [text.time(int(total[name][line.node]) * 1000) for name in ("accelerator_micros", "cpu_micros")],
            line.name,
        )
        for line in shown.lines
    ]
    return page.tree(["accelerator", "cpu"], branches[:_MOST_LINES])


def _profile_ops(profile: Profile) -> str:
    from stepscope.analyze.tfprof import profile as ask

    shown = ask("op", profile, ViewOptions(order_by="micros", max_depth=_MOST_ROWS - 1, min_micros=1))
    whole = int(shown.total["micros"][0]) or 1
    rows = []
    for at, line in enumerate(shown.lines):
        own = {name: int(values[line.node]) for name, values in shown.own.items()}
        rows.append(
            [
                text.time(own["accelerator_micros"] * 1000),
                text.time(own["cpu_micros"] * 1000),
                text.share(own["micros"] / whole),
                text.size(own["bytes"]),
                text.flops(own["float_ops"]),
                f"{len(shown.counted(at)):,}",
                line.name,
            ]
        )
    return page.table(["accelerator", "cpu", "share", "requested", "FLOPs", "nodes", "operation"], rows)
