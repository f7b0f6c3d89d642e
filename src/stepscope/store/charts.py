"""The charts of a log directory: one per metric, over all runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stepscope.names.kinds import LOWER_IS_BETTER, MetricKind, metric_kind
from stepscope.names.splits import Split
from stepscope.store.family import groups

if TYPE_CHECKING:
    from stepscope.store.log import Log

UNITS = {
    "_per_second": "per second",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
    "_bytes": "bytes",
    "_ratio": "ratio",
}
"""Units by the ending of a tag, longest ending first."""
KEPT_IN_TITLE = {"_per_second", "_ratio"}
"""Endings without which the rest would mean something else."""
TOP, OWN = "metrics", "stepscope"
"""The section of metrics without a path, which comes first, and that of Stepscope's cost, which comes
last.
"""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One tag of a chart; it is drawn for every run that has it."""

    tag: str
    split: Split | None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: the series that share one pair of axes.

    Attributes:
        id: Its first tag, that of training if there is one; the same when a tag joins later.
        section: The metric's path up to the first slash.
        unit: ``ms µs s bytes ratio`` or ``per second``, None if the tag does not say.
        kind: Kind of the metric, which decides how it is drawn.
    """

    id: str
    title: str
    section: str
    unit: str | None
    lines: tuple[ChartLine, ...]
    kind: MetricKind = "other"

    @property
    def lower_is_better(self) -> bool | None:
        """True if lower is better; None if neither direction is."""
        return LOWER_IS_BETTER.get(self.kind)


def charts(log: Log, said: Mapping[str, MetricKind] | None = None) -> list[Chart]:
    """Return all charts of a log directory, section by section.

    Args:
        log: The log directory.
        said: The kinds that people gave to tags whose names are misleading.
    """
    tags = frozenset().union(*(run.tags() for run in log.runs()))
    found = charts_of(tags, declared_names(log.experiment))
    if not said:
        return list(found)
    return [replace(each, kind=said.get(each.id, each.kind)) for each in found]


def declared_names(experiment: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return tag and name of each metric that an experiment names differently from its tag."""
    metrics = experiment.get("metrics", ())
    return frozenset((each["tag"], each["display_name"]) for each in metrics if each["display_name"])


@lru_cache(maxsize=16)
def charts_of(tags: frozenset[str], names: frozenset[tuple[str, str]] = frozenset()) -> tuple[Chart, ...]:
    """Return the charts of a set of tags.

    Overlays come first in their section; titles are in order, their numbers by size. Metrics that only their
    units tell apart have these in their titles.

    Args:
        tags: Of all runs.
        names: Names of tags. If lines of one chart have different names, it keeps its own title.
    """
    made = [(group.metric, chart(group.metric, group.lines, names)) for group in groups(tags)]
    shared = Counter(each.title for _, each in made)
    found = [
        replace(each, title=metric) if shared[each.title] > 1 and metric.startswith(each.title) else each
        for metric, each in made
    ]
    return tuple(sorted(found, key=place))


def chart(
    metric: str,
    lines: Iterable[tuple[str, Split | None]],
    names: frozenset[tuple[str, str]] = frozenset(),
) -> Chart:
    """Return one chart."""
    drawn = tuple(ChartLine(*line) for line in lines)
    title, unit = title_and_unit(metric)
    tags = {line.tag for line in drawn}
    said = {name for tag, name in names if tag in tags}
    title = said.pop() if len(said) == 1 else title
    section = metric.split("/")[0] if "/" in metric else TOP
    return Chart(drawn[0].tag, title, section, unit, drawn, metric_kind(metric, unit))


def title_and_unit(metric: str) -> tuple[str, str | None]:
    """Return a metric's name without its unit, and the unit."""
    for end, unit in UNITS.items():
        if metric.endswith(end) and len(metric.rpartition("/")[2]) > len(end):
            if unit == "s" and metric_kind(metric, None) == "score":
                return metric, None  # that of small things, as COCO's `bbox_mAP_s`
            return (metric if end in KEPT_IN_TITLE else metric.removesuffix(end)), unit
    return metric, None


def place(chart: Chart) -> tuple[bool, bool, list[str | int], bool, list[str | int], str]:
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
