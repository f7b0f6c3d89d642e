"""The charts of a log directory: one per metric, over all runs.

Training and evaluation of the same metric share a chart; such a family is found by name. Lightning writes a
metric of the training as ``train_loss_step`` and ``train_loss_epoch`` if it was asked for
both, beside one ``val_loss``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.names.kinds import LOWER_IS_BETTER, Measure, measure_of, metric_kind, title_and_unit
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.roles import meaning_of
from stepscope.names.splits import Habit, Split, split_tag
from stepscope.names.telling import Chart, ChartLine, telling
from stepscope.text import plain_line

if TYPE_CHECKING:
    from stepscope.store.log import Log
    from stepscope.store.run import StoredRun


class TagGroup(NamedTuple):
    """Tags for one chart: each with its split, training first."""

    metric: str
    lines: tuple[tuple[str, Split | None], ...]

    @property
    def overlay(self) -> bool:
        """True if several splits are drawn over each other."""
        return len({split for _, split in self.lines}) > 1


ORDER: list[Split | None] = ["train", None, "eval", "test"]


def groups(tags: Iterable[str], meanings: Meanings = NAMED) -> list[TagGroup]:
    """Return which tags go on one chart, in the order of their names.

    Tags of one metric, written in one habit, go together if it has at least two splits. A plain
    tag is the training part if there is no other: ``loss`` with ``val_loss``. Every tag is on exactly one
    chart.
    """
    plain: dict[str, str] = {}
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]] = {}
    for tag in sorted(tags):
        metric, word, habit = meanings.split(tag)
        if word is None:
            plain.setdefault(metric.lower(), tag)
        worded.setdefault((metric.lower() if word else tag, habit), []).append((tag, word))
    _join_forked(worded, plain)
    for (metric, habit), lines in sorted(worded.items(), key=lambda item: item[0][1] == "path"):
        alone = plain.get(metric)
        if alone is not None and habit != "plain" and not any(word == "train" for _, word in lines):
            lines.append((alone, None))
            del plain[metric], worded[alone, "plain"]
    tag_groups: list[TagGroup] = []
    for lines in worded.values():
        lines.sort(key=lambda line: (ORDER.index(line[1]), line[0]))
        metric = min((meanings.split(tag).metric for tag, _ in lines), key=len)
        together = TagGroup(metric, tuple(lines))
        tag_groups += (
            [together] if together.overlay else [TagGroup(tag, ((tag, word),)) for tag, word in lines]
        )
    return sorted(tag_groups, key=lambda group: group.lines[0][0])


def _join_forked(
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]], plain: dict[str, str]
) -> None:
    """Put ``X_step`` and ``X_epoch`` of the training to the evaluation's ``X``, if there is no other."""
    for (metric, habit), lines in list(worded.items()):
        if habit == "plain" or metric in plain or any(word == "train" for _, word in lines):
            continue
        forked = [f"{metric}_{part}" for part in ("epoch", "step")]
        for name in forked:
            trained = worded.get((name, habit), [])
            if trained and all(word == "train" for _, word in trained):
                lines += worded.pop((name, habit))
            elif name in plain and set(forked) <= plain.keys():
                lines.append((plain[name], None))
        if any(word is None for _, word in lines):
            for name in forked:
                del worded[plain.pop(name), "plain"]


TOP, OWN = "metrics", "stepscope"
"""The section of metrics without a path, which comes first, and that of Stepscope's cost, which comes
last.
"""
_FIRST, _LATER = (TOP, "train", "eval", "loss", "health"), ("speed", "system", OWN)
"""Sections that people look at first, and those that they look at after all others."""


def charts(log: Log, before: Mapping[str, Measure] | None = None) -> list[Chart]:
    """Return all charts of a log directory, section by section.

    Args:
        log: The directory.
        before: The measures of its charts so far, by their ids: a unit stays while it reads well.
    """
    runs = log.runs()
    tags = frozenset().union(*(run.tags() for run in runs))
    return [
        replace(made, measure=measured(made, runs, before or {})) if made.unit else made
        for made in charts_of(tags, declared_names(log.experiment), log.meanings)
    ]


def measured(chart: Chart, runs: Iterable[StoredRun], before: Mapping[str, Measure]) -> Measure:
    """Return the unit in which the largest of the recent values of all runs reads well.

    The newest value of each is known; the others are looked at only if that one asks for another unit.
    """
    known = before.get(chart.id, chart.measure)
    lines = [(run, line.tag) for run in runs for line in chart.lines]
    newest = max((run.newest_size(tag) for run, tag in lines), default=0.0)
    if measure_of(chart.unit, newest, known) == known:
        return known
    return measure_of(chart.unit, max(run.recent_size(tag) for run, tag in lines), known)


def declared_names(experiment: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return tag and name of each metric that an experiment names differently from its tag."""
    metrics = experiment.get("metrics", ())
    return frozenset((metric["tag"], metric["display_name"]) for metric in metrics if metric["display_name"])


@lru_cache(maxsize=16)
def charts_of(
    tags: frozenset[str],
    names: frozenset[tuple[str, str]] = frozenset(),
    meanings: Meanings = NAMED,
) -> tuple[Chart, ...]:
    """Return the charts of a set of tags.

    Overlays come first in their section; titles are in order, their numbers by size. Metrics that only their
    units tell apart have these in their titles, and are shown in them as they were recorded.

    Args:
        tags: Of all runs.
        names: Names of tags. If lines of one chart have different names, it keeps its own title.
        meanings: The meanings of the tags.
    """
    made = [(group, titled(group, names)) for group in groups(tags, meanings)]
    shared = Counter(title for _, (title, _) in made)
    made = [
        (group, (title, unit) if shared[title] == 1 or title == group.metric else (group.metric, None))
        for group, (title, unit) in made
    ]
    same = Counter(title for _, (title, _) in made)
    # "loss" of one run beside "train_loss" and "val_loss" of another: these two have their tags for a title.
    tags_of = {group: [tag for tag, _ in group.lines] for group, _ in made}
    made = [
        (group, (title if same[title] == 1 or tags_of[group] == [title] else ", ".join(tags_of[group]), unit))
        for group, (title, unit) in made
    ]
    # The unit that a title leaves out does not tell two ends apart.
    shared = Counter(
        end for group, _ in made for end in {*ends(group.metric), *map(bare, ends(group.metric))}
    )
    drawn = [
        chart(group, title, short(group, title, shared), unit, meanings) for group, (title, unit) in made
    ]
    drawn.sort(key=lambda entry: order(entry[0]))
    places = {chart.id: number for number, (chart, _) in enumerate(sorted(drawn, key=lambda entry: entry[1]))}
    return tuple(replace(chart, place=places[chart.id]) for chart, _ in drawn)


def titled(group: TagGroup, names: frozenset[tuple[str, str]]) -> tuple[str, str | None]:
    """Return the title of a chart, and its unit."""
    title, unit = title_and_unit(group.metric)
    tags = {tag for tag, _ in group.lines}
    titles = {name for tag, name in names if tag in tags}
    return titles.pop() if len(titles) == 1 else title, unit


def ends(path: str) -> list[str]:
    """Return all ends of a path that begin at one of its parts, the shortest first."""
    parts = path.split("/")
    return ["/".join(parts[at:]) for at in reversed(range(len(parts)))]


def bare(metric: str) -> str:
    """Return a metric's name without its unit."""
    return title_and_unit(metric)[0]


def short(group: TagGroup, title: str, shared: Mapping[str, int]) -> str:
    """Return the shortest end of a title that no other chart has and that means the same.

    An end means the same if it has the kind, the role and the split of the whole: ``step_time`` of
    ``speed/step_time``, but not ``norm`` of ``gradients/norm`` or ``sec`` of ``global_step/sec``.

    Args:
        group: The lines of the chart.
        title: Its whole title; one that a person gave stays.
        shared: How many charts have each end.
    """
    if not group.metric.startswith(title):
        return title

    def facts(name: str) -> tuple[str, str | None, str | None]:
        meaning, split = meaning_of(name), split_tag(name).split
        kind = metric_kind(name, title_and_unit(name)[1])
        return kind, meaning and meaning.role, None if split == "train" else split

    def says(end: str) -> bool:
        # A unit alone does not say what is measured.
        named = meaning_of(end) is not None or metric_kind(title_and_unit(end)[0], None) != "other"
        return named and facts(end) == facts(group.metric)

    shown = bare if title != group.metric else str
    nearest = next(
        (end for end in ends(group.metric) if shared[end] == shared[shown(end)] == 1 and says(end)),
        group.metric,
    )
    return shown(nearest)


def chart(
    group: TagGroup, title: str, short: str, unit: str | None, meanings: Meanings
) -> tuple[Chart, tuple[int, ...]]:
    """Return one chart whose place is not known yet, and by which key it finds that among all."""
    tags = [tag for tag, _ in group.lines]
    named = metric_kind(group.metric, title_and_unit(group.metric)[1])
    kinds = (meanings.kind(tag, named) for tag in tags)
    kind = next((kind for kind in kinds if kind != named), named)
    evaluated = any(split in ("eval", "test") for _, split in group.lines)
    section = plain_line(group.metric.split("/")[0]) if "/" in group.metric else TOP
    subject = telling(title, tags, kind, evaluated=evaluated, meanings=meanings)
    made = Chart(
        id=tags[0],
        title=plain_line(title),
        short=plain_line(short),
        section=section,
        unit=unit,
        measure=measure_of(unit),
        lines=tuple(ChartLine(*line) for line in group.lines),
        kind=kind,
        lower_is_better=LOWER_IS_BETTER.get(kind),
        split=split_tag(title).split,
        role=subject.role,
        tier=subject.tier,
        place=0,
        section_place=section_place(section),
        own_cost=section == OWN,
    )
    return made, subject.place


def section_place(section: str) -> int:
    """Return the place of a section; those that nobody knows share one."""
    if section in _LATER:
        return len(_FIRST) + 1 + _LATER.index(section)
    return _FIRST.index(section) if section in _FIRST else len(_FIRST)


def order(chart: Chart) -> tuple[bool, bool, list[str | int], bool, list[str | int], str]:
    """Return the sort key of a chart."""
    return (
        chart.section != TOP,
        chart.own_cost,
        natural(chart.section),
        len(chart.lines) == 1,
        natural(chart.title),
        chart.id,
    )


def natural(text: str) -> list[str | int]:
    """Return a sort key by which ``layer2`` comes before ``layer10``."""
    parts = enumerate(re.split(r"(\d+)", text))
    return [int(part) if number % 2 else part.lower() for number, part in parts]
