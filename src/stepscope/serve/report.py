"""A run as one HTML file that needs nothing else: verdict, findings, charts, profile, config, costs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope import text
from stepscope.analyze.health.report import headline
from stepscope.export import page, plot
from stepscope.files import run_directory
from stepscope.health.finding import batch_line
from stepscope.serve.health import report_of
from stepscope.serve.summary import last_value
from stepscope.store import captures
from stepscope.store.annotations import RunNote
from stepscope.store.charts import OWN, Chart, charts_of, declared_names
from stepscope.store.info import age
from stepscope.store.query import SeriesLine, View, buckets
from stepscope.text import number

if TYPE_CHECKING:
    from stepscope.health import Finding
    from stepscope.store import Log, Series, StoredRun

WANTED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(^|/)(total_)?loss$", r"loss$", r"perplexity|\bppl\b", r"acc(uracy)?([@_]\w+)?$",
        r"(^|[/_.-])(auc|f1|bleu|reward|return|precision|recall|iou|wer|psnr|fid)([/_.@-]|$)",
        r"learning_?rate|(^|[/_.-])lr([/_.-]|$)", r"grad(ient)?s?[/_.-]?(global_?)?norm",
        r"step_time", r"data_wait", r"per_s(ec(ond)?)?$", r"gpu.*util|utilization", r"memory",
    )
)  # fmt: skip
"""Tags that people look at first, the most telling first."""
DETAIL = re.compile(r"[/_.-](p\d+|min|max|std)([/_.-]|$)|(^|/)(children|host)/", re.IGNORECASE)
"""Spreads and parts of what another chart shows as a whole."""
MOST_CHARTS = 12
POINTS = 300
MOST_RANKS = 64
STYLE = """
<style>
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 16px; }
.chart { margin: 0; border: 1px solid var(--line); border-radius: 4px; padding: 10px 12px; }
.facts { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 12px 0; }
.facts div { min-width: 90px; }
.facts b { display: block; font-size: 18px; font-weight: 600; color: var(--ink); }
.note { white-space: pre-wrap; overflow-wrap: anywhere; }
.note { border-left: 4px solid var(--line); padding: 4px 12px; }
.config th { text-align: left; vertical-align: top; }
.chart .legend { min-height: 20px; }
</style>
"""


def report(log: Log, name: str, note: RunNote, *, now: float | None = None) -> str:
    """Return the report of one run.

    Args:
        log: The log directory.
        name: The run.
        note: What people say of it.
        now: Seconds since the epoch.

    Raises:
        UnknownRunError: There is none.
    """
    run, now = log.run(name), time.time() if now is None else now
    title = note.title or (log.path.name if name == "." else name)
    parts: list[tuple[str, Callable[[], str]]] = [
        ("", lambda: head(run, title, note, now)),
        ("Findings", lambda: findings(log, run)),
        ("Charts", lambda: charts(log, run)),
        ("Profiled steps", lambda: profiled(log, run)),
        ("Ranks", lambda: ranks(run, now)),
        ("Config", lambda: config(run)),
        ("Problems", lambda: problems(run)),
    ]
    sections = [f"<h2>{heading}</h2>\n{make()}" if heading else make() for heading, make in parts]
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
    return page.document(title, [STYLE, *sections, f"<p>Made by Stepscope, {made}</p>"])


def head(run: StoredRun, title: str, note: RunNote, now: float) -> str:
    """Return name, state, note and the figures that are known."""
    state, reason = run.condition(now=now)
    labels = run.info.labels if note.tags is None else note.tags
    words = [state + (f" ({reason})" if reason else ""), *labels]
    facts = "".join(
        f"<div><span class='soft'>{page.escape(what)}</span><b>{page.escape(value)}</b></div>"
        for what, value in figures(run, now)
    )
    said = f'<div class="note">{page.escape(note.note)}</div>' if note.note else ""
    path = f"<p>{page.escape(run.name)}</p>" if title != run.name else ""
    words_ = page.escape(" · ".join(words))
    return f"<h1>{page.escape(title)}</h1>{path}<p>{words_}</p>{said}<div class='facts'>{facts}</div>"


def figures(run: StoredRun, now: float) -> Iterator[tuple[str, str]]:
    """Yield what is known of a run in figures; what was not recorded is left out."""
    info, begin, last = run.info, run.start_wall, run.last_wall
    if run.last_step is not None:
        yield "step", f"{run.last_step:,}" + (f" of {info.total_steps:,}" if info.total_steps else "")
    if begin is not None and last is not None:
        yield "duration", age(max(0.0, (now if run.state == "running" else last) - begin))
        yield "began", time.strftime("%Y-%m-%d %H:%M", time.localtime(begin))
    if run.steps_per_second is not None:
        yield "steps per second", number(run.steps_per_second)
    for tag, what, unit in (
        ("speed/step_time_ms", "step time", "ms"),
        ("speed/data_wait_ms", "data wait", "ms"),
        ("stepscope/overhead_us_per_step", "recording cost", "\u00b5s a step"),
        ("stepscope/dropped_points", "points dropped", ""),
    ):
        value = last_value(run, tag)
        if value is not None:
            yield what, f"{number(value)} {unit}".rstrip()
    yield "points", f"{run.num_points():,}"
    for what, name in (("host", info.host), ("Stepscope", info.version)):
        if name:
            yield what, name


def findings(log: Log, run: StoredRun) -> str:
    """Return the findings of the health rules with evidence and remedies, and what they could not judge."""
    judged = report_of(log, run)
    verdict = judged.verdict
    told = "".join(finding(each) for each in verdict.findings)
    more = sum(verdict.more.values())
    left = f"<p>and {more:,} more of the same rules</p>" if more else ""
    missing = "".join(
        f"<li>{page.escape(one.title)}: {page.escape(one.missing)}</li>" for one in verdict.abstained
    )
    unknown = (
        f"<details><summary>Could not tell: {len(verdict.abstained)}</summary><ul>{missing}</ul></details>"
    )
    ahead = [each.text(tag) for tag, each in judged.forecast.items()]
    ahead += [judged.batch_size.text] if judged.batch_size else []
    foretold = "".join(f"<p>{page.escape(line)}</p>" for line in ahead)
    return f"<p>{page.escape(headline(verdict))}</p>{told}{left}{foretold}{unknown if missing else ''}"


def finding(each: Finding) -> str:
    """Return one finding."""
    until = "still open" if each.closed_step is None else f"over by step {each.closed_step:,}"
    rank = "" if each.rank is None else f", rank {each.rank}"
    values = "\n".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in each.values.items())
    place = f"{each.tag}{rank}, since step {each.since:,}, {until}"
    more = [*each.causes, *map(batch_line, each.batches), *each.rewind]
    if each.also:
        more.append(f"also in {', '.join(each.also)}")
    told = "".join(f"<br>{page.escape(line)}" for line in more)
    return (
        f'<div class="finding {page.escape(each.severity)}"><strong>{page.escape(each.title)}</strong> · '
        f"{page.escape(each.severity)}<br>{page.escape(each.summary)}"
        f"<pre>{page.escape(place)}\n{page.escape(values)}</pre>{page.escape(each.action)}{told}</div>"
    )


def charts(log: Log, run: StoredRun) -> str:
    """Return the most important charts, and the number of the others."""
    family = [run, *run.parts]
    tags = frozenset().union(*(part.tags() for part in family))
    known = [each for each in charts_of(tags, declared_names(log.experiment)) if each.section != OWN]
    chosen = pick(known)
    drawn = "".join(chart(each, family) for each in chosen)
    if not drawn:
        return "<p>No scalars were recorded</p>"
    left = len(known) - len(chosen)
    more = (
        f"<p>{left:,} further charts: the page shows them, stepscope export writes them</p>" if left else ""
    )
    band = (
        "<p>A line goes through the last value of each stretch; the band goes from the smallest to the "
        "largest</p>"
    )
    return f'{band}<div class="charts">{drawn}</div>{more}'


def pick(known: list[Chart]) -> list[Chart]:
    """Return the charts that are shown: one for each important quantity, then more of those, then others."""
    whole = [each for each in known if not DETAIL.search(each.title)]
    firsts = [next((each for each in whole if pattern.search(each.title)), None) for pattern in WANTED]
    rest = [each for pattern in WANTED for each in whole if pattern.search(each.title)]
    found = [each for each in [*firsts, *rest, *whole, *known] if each is not None]
    return list({each.id: each for each in found}.values())[:MOST_CHARTS]


def chart(wanted: Chart, family: list[StoredRun]) -> str:
    """Return one chart with the newest attempt of every writer."""
    series: list[Series] = []
    for run in family:
        for line in wanted.lines:
            if line.tag in run.tags():
                series += {each.writer: each for each in run.columns(line.tag)}.values()
    view = buckets(series, buckets=POINTS)
    pairs = enumerate(zip(series, view.lines, strict=True))
    lines = [line_of(at, each, line, view) for at, (each, line) in pairs]
    return plot.chart(wanted.title + (f", {wanted.unit}" if wanted.unit else ""), lines)


def line_of(at: int, series: Series, line: SeriesLine, view: View) -> plot.PlotLine:
    """Return one line as it is drawn."""
    name = f"{series.split or series.tag} {number(series.last.value)}"
    dashed = series.split not in (None, "train")
    if view.x is None:
        x, value = (np.asarray(line.columns[key], np.float64) for key in ("x", "value"))
        return plot.PlotLine(name, at, x, value, dashed=dashed)
    there = line.columns["count"] > 0
    low, high, last = (np.asarray(line.columns[key], np.float64)[there] for key in ("min", "max", "last"))
    return plot.PlotLine(name, at, view.x[there], last, low, high, dashed)


def profiled(log: Log, run: StoredRun) -> str:
    """Return the newest profile at a glance; says what is missing where there is none."""
    found = captures.captures(run, run_directory(log.path, run.name), log)
    newest_ = next((each for each in found if each.summary), None)
    if newest_ is None or newest_.summary is None:
        how = "stepscope capture" if "ProfilerHook" in (run.info.hooks or ()) else "ProfilerHook"
        return f"<p>The run captured no profiles ({how} takes them)</p>"
    told, steps = newest_.summary, newest_.summary.get("steps") or {}
    numbers = ", ".join(map(str, steps.get("numbers") or ()))
    parts = [
        [time_of(part.get("mean_ns")), share(part.get("ratio")), str(part.get("part", "")).replace("_", " ")]
        for part in told.get("parts") or ()
    ]
    advice = "".join(map(advised, told.get("advice") or ()))
    of = f"the newest of {len(found)} captures" if len(found) > 1 else "one capture"
    about = f"<p>Steps {page.escape(numbers)}, {time_of(steps.get('mean_ns'))} on average; {of}</p>"
    return about + page.table(["mean", "share", "part of the step"], parts) + operations(told) + advice


def advised(one: dict[str, Any]) -> str:
    """Return one piece of advice."""
    severity, rule, summary, action = (
        page.escape(one.get(key, "")) for key in ("severity", "rule", "summary", "action")
    )
    return f'<div class="finding {severity}"><strong>{rule}</strong><br>{summary}<br>{action}</div>'


def operations(told: dict[str, Any]) -> str:
    """Return the operations that take the most time, on the device where that was recorded."""
    answer = told.get("operations") or {}
    rows = (answer.get("rows") or [])[1:]
    keys = [
        key for key in ("device_ns", "host_ns") if any(isinstance(row.get(key), int | float) for row in rows)
    ]
    if not keys:
        return ""
    cells = [
        [*(time_of(row.get(key)) for key in keys), count(row.get("calls")), str(row.get("name", ""))]
        for row in rows
    ]
    heads = [*(key.removesuffix("_ns") for key in keys), "calls", "operation"]
    return f"<p>{page.escape(answer.get('denominator', ''))}</p>" + page.table(heads, cells)


def ranks(run: StoredRun, now: float) -> str:
    """Return every rank of a job of several."""
    members = run.ranks.members(now=now)
    if not members:
        return "<p>A single process, or written by a tool that keeps no files of ranks</p>"
    rows = [
        [
            "-" if each.digest.last_step is None else f"{each.digest.last_step:,}",
            "-" if each.digest.median_step_s is None else text.time(round(each.digest.median_step_s * 1e9)),
            share(each.digest.wait_ratio),
            "-" if each.digest.loss is None else number(each.digest.loss),
            f"{each.digest.nonfinite:,}",
            f"{each.label}, {each.state}" + (f", {each.host}" if each.host else ""),
        ]
        for each in members[:MOST_RANKS]
    ]
    left = len(members) - len(rows)
    more = f"<p>and {left:,} more</p>" if left > 0 else ""
    return page.table(["step", "step time", "data wait", "loss", "non-finite", "rank"], rows) + more


def config(run: StoredRun) -> str:
    """Return the config, one line per key."""
    rows = "".join(
        f'<tr><th scope="row">{page.escape(key)}</th><td class="name">{page.escape(value)}</td></tr>'
        for key, value in flat(run.info.config)
    )
    return f'<table class="config">{rows}</table>' if rows else "<p>No config was recorded</p>"


def flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of a config with its dotted key."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else str(name))
    elif key:
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def problems(run: StoredRun) -> str:
    """Return what could not be read or was not kept."""
    lines = "".join(f"<li>{page.escape(each.text)} ({each.count:,})</li>" for each in run.problems)
    return f"<ul>{lines}</ul>" if lines else "<p>None: every record was read and its checksum is right</p>"


def time_of(ns: Any) -> str:
    """Return a time; a dash where it was not recorded."""
    return text.time(round(ns)) if isinstance(ns, int | float) else "-"


def count(number: Any) -> str:
    """Return a count; a dash where it was not recorded."""
    return f"{number:,}" if isinstance(number, int | float) else "-"


def share(ratio: Any) -> str:
    """Return a share in percent; a dash where it was not recorded."""
    return text.share(ratio) if isinstance(ratio, int | float) else "-"
