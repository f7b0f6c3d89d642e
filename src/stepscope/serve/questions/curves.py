"""Questions about curves: series reduced to few points, and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.errors import UnknownTagError, UsageError
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.runs import Run, reported
from stepscope.serve.run_series import points_of, tags_of
from stepscope.serve.values import runs_found
from stepscope.store.nearest import hint_nearest
from stepscope.text import counted, number

if TYPE_CHECKING:
    from stepscope.serve.questions.picture import Curve
    from stepscope.store import StoredRun

MOST_RUNS = 50
"""Runs that one answer reads."""
MOST_POINTS = 2000
POINTS = 24
"""Points of a curve if nothing else is asked for: enough for its shape in a hundred tokens."""
Tags = Annotated[tuple[str, ...], Meta(description="tags, or patterns with *; default: the most telling")]
First = Annotated[int | None, Meta(description="first step")]
Last = Annotated[int | None, Meta(description="last step")]


@question
def series(
    desk: Desk,
    tags: Tags = (),
    runs: Annotated[str, Meta(description="run query, as of runs; default: the newest run")] = "",
    points: Annotated[int, Meta(ge=2, le=MOST_POINTS, description="points per curve")] = POINTS,
    begin: First = None,
    end: Last = None,
) -> Answer:
    """Show curves, each reduced to points that keep minimum, maximum, ends and onsets of findings."""
    chosen, lines = chosen_runs(desk, runs)
    rows: list[tuple[Cell, ...]] = []
    outside: list[str] = []
    for stored in chosen[:MOST_RUNS]:
        own = list(tags_of(stored))
        wanted = matching(tags, own) if tags else telling_tags(desk, own)
        onsets = onsets_of(desk, stored) if len(chosen) <= 5 else {}
        for tag in wanted:
            step, value = points_of(stored.find(tag))
            inside = np.ones(len(step), bool)
            inside &= True if begin is None else step >= begin
            inside &= True if end is None else step <= end
            if not inside.any():
                if len(step):
                    outside.append(f"{tag} of {stored.name} has steps {step[0]:,} to {step[-1]:,}")
                continue
            step, value = step[inside], value[inside]
            at = thinned(step, value, points, keep=onsets.get(tag, ()))
            curve = " ".join(f"{step[n]}:{value[n]:.4g}" for n in at)
            finite = value[np.isfinite(value)]
            low = float(finite.min()) if len(finite) else None
            high = float(finite.max()) if len(finite) else None
            rows.append((stored.name, tag, curve, low, high, len(step), len(step) - len(at)))
    if not rows and outside:
        ends = f"{'the first' if begin is None else begin} to {'the last' if end is None else end}"
        raise UsageError(f"no point at steps {ends}", hint=outside[0])
    if not rows:
        raise missing(desk, tags, chosen)
    known = sorted({tag for stored in chosen[:MOST_RUNS] for tag in tags_of(stored)})
    lines += [
        f"no such tag: {name!r:.100} ({hint_nearest(name, known, 'the tags')})"
        for name in tags
        if not matching([name], known)
    ]
    lines.append(
        "each curve is step:value; minimum, maximum, first, last and onsets of findings are among its points"
    )
    left = Table(
        "curves",
        ("run", "tag", "curve", "min", "max", "points", "left out"),
        tuple(rows),
        names=("run", "tag"),
    )
    return Answer("series", tuple(lines), (left,))


def missing(desk: Desk, tags: Sequence[str], chosen: Sequence[StoredRun]) -> UnknownTagError:
    """Return the error that no chosen run has a tag; the hint knows the tags of the other runs, too."""
    runs = {tag: run.name for run in desk.runs() for tag in tags_of(run)}
    if elsewhere := matching(tags, list(runs)):
        hint = f"run {runs[elsewhere[0]]!r} has {elsewhere[0]!r}: name it in runs"
    else:
        hint = hint_nearest(tags[0] if tags else "", list(runs), "the tags")
    asked = ", ".join(tags)
    if len(chosen) == 1:
        return UnknownTagError(f"run {chosen[0].name!r} has no {asked or 'series':.200}", hint=hint)
    return UnknownTagError(f"none of {len(chosen)} runs has {asked or 'a series':.200}", hint=hint)


def chosen_runs(desk: Desk, query: str, most: int | None = MOST_RUNS) -> tuple[list[StoredRun], list[str]]:
    """Return the runs that a query matches, or the one with this name, or the newest; with a line about them.

    A query that no run matches may also be names of runs, separated by commas. Of more than ``most``, the
    newest are chosen, and the line says so; None for all.

    Raises:
        UnknownRunError: None matches.
    """
    every = {run.name: run for run in desk.runs()}
    if not query or query in every:
        return [desk.run(query)], []
    chosen = runs_found(desk, query)
    if not chosen:
        named = [name.strip() for name in query.split(",") if name.strip()] or [query]
        chosen = list({run.name: run for run in map(desk.run, named)}.values())
        if len(chosen) == 1:
            return chosen, []
    chosen.sort(key=lambda run: -run.written)
    if most is not None and len(chosen) > most:
        return chosen[:most], [f"{len(chosen):,} runs match; the {most} newest are shown: name fewer in runs"]
    return chosen, ["1 run matches" if len(chosen) == 1 else f"{len(chosen):,} runs match"]


def matching(wanted: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the tags that names or patterns with ``*`` match, in the order of the names."""
    from fnmatch import fnmatchcase

    matches: dict[str, None] = {}
    for name in wanted:
        exact = [tag for tag in known if tag == name]
        ends = [tag for tag in known if tag.endswith(f"/{name}")]
        matches |= dict.fromkeys(
            exact or [tag for tag in known if "*" in name and fnmatchcase(tag, name)] or ends
        )
    return list(matches)


def telling_tags(desk: Desk, known: Sequence[str]) -> list[str]:
    """Return the tags of a run that a person looks at first."""
    charts = desk.charts()
    ordered = [line.tag for chart in charts for line in chart.lines]
    return [tag for tag in dict.fromkeys([*ordered, *known]) if tag in known][:6]


def onsets_of(desk: Desk, run: StoredRun) -> dict[str, list[int]]:
    """Return the steps since which findings hold, by tag."""
    onsets: dict[str, list[int]] = {}
    for finding in reported(desk, run).verdict.findings:
        if finding.since is not None:
            onsets.setdefault(finding.tag, []).append(int(finding.since))
    return onsets


def thinned(step: NDArray[Any], value: NDArray[Any], count: int, *, keep: Sequence[int] = ()) -> list[int]:
    """Return the rows of a curve that are kept: its shape in about ``count`` points.

    First, last, least, greatest and the first non-finite value are always kept, and the points at onsets. The
    others are chosen by largest triangles (Steinarsson 2013), bucket by bucket.

    Args:
        step: Ascending.
        value: As many.
        count: Points to return; more if more must be kept.
        keep: Steps of onsets.
    """
    size = len(step)
    if size <= count:
        return list(range(size))
    finite = np.isfinite(value)
    rows = {0, size - 1, *np.searchsorted(step, [at for at in keep if step[0] <= at <= step[-1]]).tolist()}
    if finite.any():
        shown = np.flatnonzero(finite)
        rows |= {int(shown[value[shown].argmin()]), int(shown[value[shown].argmax()])}
    if not finite.all():
        rows.add(int(np.flatnonzero(~finite)[0]))
    left = count - len(rows)
    if left > 0:
        rows |= set(_triangles(step, value, left, finite))
    return sorted(rows)


def _triangles(step: NDArray[Any], value: NDArray[Any], count: int, finite: NDArray[np.bool_]) -> list[int]:
    x, y = step.astype(np.float64), np.where(finite, value, np.nan)
    edges = np.linspace(1, len(x) - 1, count + 1).astype(int)
    sizes = np.add.reduceat(finite[:-1], edges[:-1], dtype=np.int64)
    with np.errstate(invalid="ignore"):
        means = np.append(np.add.reduceat(np.where(finite, y, 0.0)[:-1], edges[:-1])[1:] / sizes[1:], y[-1])
    chosen, last = [], 0
    for at, (low, high) in enumerate(pairwise(edges.tolist())):
        if not sizes[at]:
            continue
        inside = y[low:high]
        good = finite[low:high]
        ahead = means[at]
        ahead = ahead if np.isfinite(ahead) else inside[good][-1]
        before = y[last] if np.isfinite(y[last]) else inside[good][0]
        area = np.abs((x[last] - x[high]) * (inside - before) - (x[last] - x[low:high]) * (ahead - before))
        last = low + int(np.where(good, area, -1.0).argmax())
        chosen.append(last)
    return chosen


@question
def image(
    desk: Desk,
    run: Run = "",
    tag: Annotated[str, Meta(description="tag of a recorded picture, or of a series, drawn as a chart")] = "",
    step: Annotated[int | None, Meta(description="of a picture: the newest at or before it")] = None,
    runs: Annotated[str, Meta(description="run query: draw the series of several runs")] = "",
    scale: Annotated[Literal["linear", "log"], Meta(description="of a chart's values")] = "linear",
) -> Answer:
    """Return a recorded picture, or a chart of a series, as PNG."""
    from stepscope.serve.questions import picture

    chosen, matches = chosen_runs(desk, runs) if runs else ([desk.run(run)], [])
    stored = chosen[0]
    pictures = [record.tag for record in stored.records() if record.kind == "image"]
    if tag in pictures or (not tag and pictures and not tags_of(stored)):
        name = tag or pictures[0]
        values = [(int(at), one, row) for one in stored.record(name) for row, at in enumerate(one.step)]
        before = [value for value in values if step is None or value[0] <= step]
        if not before:
            raise UsageError(
                f"no picture of {name!r:.80} at or before step {step}", hint=f"the first is of {values[0][0]}"
            )
        at, images, row = max(before, key=lambda value: value[0])
        shown = images[row]
        size = f"{shown.width} by {shown.height}"
        line = f"{name} of {stored.name} at step {at}, {size}; {len(values)} are recorded"
        return Answer("image", (line,), image=picture.png_of(shown.blobs[0].data))
    title, curves = drawn(desk, chosen, [tag] if tag else [])
    lines = [*matches, f"chart of {title} over the steps: {counted(len(curves), 'line')}"]
    for curve in curves:
        good = curve.value[np.isfinite(curve.value)]
        if len(good):
            lines.append(f"{curve.label}: {number(float(good[0]))} to {number(float(good[-1]))}")
    return Answer("image", tuple(lines), image=picture.chart(title, curves, log=scale == "log").png())


def drawn(desk: Desk | None, chosen: Sequence[StoredRun], tags: Sequence[str]) -> tuple[str, list[Curve]]:
    """Return the title and the curves of a chart: of several runs one series, of one run several.

    Args:
        desk: Knows which series is the most telling; None if tags are given.
        chosen: The runs; the first :data:`~stepscope.serve.questions.picture.MOST_LINES` are drawn.
        tags: Tags, or patterns with ``*``; none: the most telling one.

    Raises:
        UnknownTagError: The first run has no such series.
    """
    from stepscope.serve.questions.picture import MOST_LINES, Curve

    own = list(tags_of(chosen[0]))
    wanted = matching(tags, own) if tags or desk is None else telling_tags(desk, own)[:1]
    if not wanted:
        raise UnknownTagError(
            f"run {chosen[0].name!r} has no picture or series {' '.join(tags)!r:.80}",
            hint=hint_nearest(
                " ".join(tags), [*(record.tag for record in chosen[0].records()), *own], "its tags"
            ),
        )
    curves = []
    several = len(chosen) > 1
    wanted = wanted[: 1 if several else MOST_LINES]
    for run in chosen[:MOST_LINES]:
        known = tags_of(run)
        for name in wanted:
            if name in known:
                steps, value = points_of(run.find(name))
                rows = thinned(steps, value, 600)
                label = run.name if several else name
                curves.append(Curve(label, steps[rows].astype(float), value[rows]))
    return ", ".join(wanted[:4]), curves
