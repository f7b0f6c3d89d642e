"""The charts of a log directory: one per metric, over all runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepscope.names.kinds import LOWER_IS_BETTER, metric_kind, title_and_unit
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.splits import split_tag
from stepscope.names.telling import Chart, ChartLine, by_epoch, telling
from stepscope.store.family import TagGroup, groups

if TYPE_CHECKING:
    from stepscope.store.log import Log

TOP, OWN = "metrics", "stepscope"
"""The section of metrics without a path, which comes first, and that of Stepscope's cost, which comes
last.
"""


def charts(log: Log) -> list[Chart]:
    """Return all charts of a log directory, section by section."""
    tags = frozenset().union(*(run.tags() for run in log.runs()))
    return list(charts_of(tags, declared_names(log.experiment), log.meanings))


def declared_names(experiment: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return tag and name of each metric that an experiment names differently from its tag."""
    metrics = experiment.get("metrics", ())
    return frozenset((each["tag"], each["display_name"]) for each in metrics if each["display_name"])


@lru_cache(maxsize=16)
def charts_of(
    tags: frozenset[str],
    names: frozenset[tuple[str, str]] = frozenset(),
    meanings: Meanings = NAMED,
) -> tuple[Chart, ...]:
    """Return the charts of a set of tags.

    Overlays come first in their section; titles are in order, their numbers by size. Metrics that only their
    units tell apart have these in their titles.

    Args:
        tags: Of all runs.
        names: Names of tags. If lines of one chart have different names, it keeps its own title.
        meanings: The meanings of the tags.
    """
    made = [(group, titled(group, names)) for group in groups(tags, meanings)]
    shared = Counter(title for _, (title, _) in made)
    drawn = []
    for group, (title, unit) in made:
        apart = shared[title] > 1 and group.metric.startswith(title)
        drawn.append(chart(group, group.metric if apart else title, unit, meanings))
    drawn.sort(key=lambda each: order(each[0]))
    places = {each.id: number for number, (each, _) in enumerate(sorted(drawn, key=lambda each: each[1]))}
    return tuple(replace(each, place=places[each.id]) for each, _ in drawn)


def titled(group: TagGroup, names: frozenset[tuple[str, str]]) -> tuple[str, str | None]:
    """Return the title of a chart, and its unit."""
    title, unit = title_and_unit(group.metric)
    tags = {tag for tag, _ in group.lines}
    said = {name for tag, name in names if tag in tags}
    return said.pop() if len(said) == 1 else title, unit


def chart(group: TagGroup, title: str, unit: str | None, meanings: Meanings) -> tuple[Chart, tuple[int, ...]]:
    """Return one chart whose place is not known yet, and by which key it finds that among all."""
    tags = [tag for tag, _ in group.lines]
    named = metric_kind(group.metric, unit)
    kinds = (meanings.kind(tag, named) for tag in tags)
    kind = next((kind for kind in kinds if kind != named), named)
    evaluated = any(split in ("eval", "test") for _, split in group.lines)
    subject = telling(title, tags, kind, evaluated=evaluated, meanings=meanings)
    made = Chart(
        id=tags[0],
        title=title,
        section=group.metric.split("/")[0] if "/" in group.metric else TOP,
        unit=unit,
        lines=tuple(ChartLine(*line) for line in group.lines),
        kind=kind,
        lower_is_better=LOWER_IS_BETTER.get(kind),
        split=split_tag(title).split,
        role=subject.role,
        tier=subject.tier,
        place=0,
        by_epoch=by_epoch(tags),
    )
    return made, subject.place


def order(chart: Chart) -> tuple[bool, bool, list[str | int], bool, list[str | int], str]:
    """Return the sort key of a chart."""
    return (
        chart.section != TOP,
        chart.section == OWN,
        natural(chart.section),
        len(chart.lines) == 1,
        natural(chart.title),
        chart.id,
    )


def natural(text: str) -> list[str | int]:
    """Return a sort key by which ``layer2`` comes before ``layer10``."""
    parts = enumerate(re.split(r"(\d+)", text))
    return [int(part) if number % 2 else part.lower() for number, part in parts]
