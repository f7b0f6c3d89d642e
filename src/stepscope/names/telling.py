"""Telling charts: which charts of a run a person looks at first, by what their series are."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from stepscope.names.kinds import Measure, MetricKind
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.roles import LR, MEASURED, Meaning, without_split
from stepscope.names.splits import Split, words_of

ChartRole = Literal[
    "return",
    "loss",
    "part_loss",
    "score",
    "learning_rate",
    "gradient_norm",
    "update_ratio",
    "step_time",
    "data_wait",
    "throughput",
    "utilization",
    "memory",
    "epoch",
]
"""The most telling first. An agent is trained for its ``return``; its losses say less."""
ChartTier = Literal["learning", "running", "recorded", "detail"]
"""The subject of a chart: how the training learns, how it runs, something else that a person records, or a
detail, such as a count, a spread, a layer or a part of the machine.
"""
_PLACE: dict[ChartRole | None, int] = {role: place for place, role in enumerate((*get_args(ChartRole), None))}
_TIERS: tuple[ChartTier, ...] = get_args(ChartTier)
_OF_MEANING: dict[str, ChartRole] = {
    LR: "learning_rate",
    "gradient_norm": "gradient_norm",
    "step_time": "step_time",
    "data_wait": "data_wait",
    "gpu": "utilization",
    "memory": "memory",
}
_LEARNING: dict[str, ChartRole] = {"loss": "loss", "part_loss": "part_loss", "metric": "score"}
_OF_WORDS: tuple[tuple[ChartRole, MetricKind, tuple[Set[str], ...]], ...] = (
    ("learning_rate", "schedule", ({"lr"},)),
    ("learning_rate", "schedule", ({"learning"}, {"rate"})),
    ("gradient_norm", "norm", ({"grad", "grads", "gradient", "gradients"}, {"norm"})),
    ("update_ratio", "ratio", ({"update", "updates"}, {"ratio", "weight"})),
    ("utilization", "ratio", ({"gpu"},)),
    ("memory", "bytes", ({"memory", "mem", "vram", "rss"},)),
)
"""Role and kind of a series that no rule of health knows, and words of which it has one of each set."""
_THINGS = frozenset({"examples", "tokens", "samples", "items", "images", "tps", "fps"})
"""Units of the throughput that tells most."""
_RETURN = re.compile(
    r"(?:.*[/_.-])?(?:ep|episod(?:e|ic)|mean|avg|average|total|eval|test)[_-]?(?:rew(?:ard)?|return)s?(?:[_-](?:mean|avg))?"
    r"|(?:.*/)?(?:reward|return)(?:_mean)?",
    re.IGNORECASE,
)
"""Not ``rewards/chosen``, which is a part of a loss."""
_DETAIL = re.compile(r"[/_.-](?:p\d+|min|max|std)(?:[/_.-]|$)|(?:^|/)(?:children|host)/", re.IGNORECASE)
"""Spreads, and parts of the machine."""
_MEASURED = (*MEASURED, "speed/", "system/", "ranks/", "stepscope/")
"""Beginnings of the tags that Stepscope measures by itself."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One tag of a chart; it is drawn for every run that has it."""

    tag: str
    split: Split | None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over all runs: the series that share one pair of axes.

    Attributes:
        id: Its first tag, that of training if there is one; the same when a tag joins later.
        short: The shortest end of its title that no other chart has and that still says what it is.
        section: The metric's path up to the first slash.
        section_place: Place of its section: what a run is about comes first, its own cost last.
        own_cost: Whether it shows what Stepscope itself costs.
        unit: ``ms µs s bytes ratio`` or ``per second``, None if the tag does not say.
        measure: In which unit its values are shown, in charts, tables and cards alike.
        kind: Kind of the metric, which decides how it is drawn.
        lower_is_better: None: neither end is.
        split: The part of the data that the title names.
        role: What it tells, if that is something that one looks for.
        tier: The subject of the chart.
        place: Its place among all charts, the most telling first.
    """

    id: str
    title: str
    short: str
    section: str
    unit: str | None
    measure: Measure
    lines: tuple[ChartLine, ...]
    kind: MetricKind
    lower_is_better: bool | None
    split: Split | None
    role: ChartRole | None
    tier: ChartTier
    place: int
    section_place: int
    own_cost: bool


class Telling(NamedTuple):
    """The subject of a chart and its place: the chart with the lowest place tells most."""

    role: ChartRole | None
    tier: ChartTier
    place: tuple[int, ...]


def telling(
    title: str, tags: Sequence[str], kind: MetricKind, *, evaluated: bool, meanings: Meanings = NAMED
) -> Telling:
    """Return what a chart shows.

    Args:
        title: Its title, which a person can have given to it.
        tags: The tags of its lines.
        kind: The kind of its metric.
        evaluated: Whether one of its lines is of an evaluation. Of two losses, the evaluated one tells more.
        meanings: The meanings of the tags.
    """
    corrected = [tag for tag in tags if meanings.corrects(tag)]
    names = dict.fromkeys(corrected or (title, *tags))
    role = min((chart_role(name, kind, meanings.role(name)) for name in names), key=_PLACE.__getitem__)
    meaning = meanings.role(tags[0])
    tier, detail = _tier(title, tags[0], role, kind, meaning)
    usual = _usual(tags[0], role, meaning)
    place = (_TIERS.index(tier), detail, _PLACE[role], int(not evaluated), int(not usual))
    return Telling(role, tier, place)


def _tier(
    title: str, tag: str, role: ChartRole | None, kind: MetricKind, meaning: Meaning | None
) -> tuple[ChartTier, int]:
    """Return what a chart shows, and how little, if that is a detail."""
    if _DETAIL.search(title):
        return "detail", 2
    if role in ("return", "loss", "part_loss", "score"):
        return "learning", 0
    if role == "epoch" or kind in ("counter", "nonfinite"):
        return "detail", 1
    if role:
        return "running", 0
    return ("detail" if tag.startswith(_MEASURED) or (meaning and meaning.layer) else "recorded"), 0


def _usual(tag: str, role: ChartRole | None, meaning: Meaning | None) -> bool:
    """Return whether a tag is the usual one of its role, if several have it."""
    if role == "loss":
        return without_split(tag).rpartition("/")[2].lower() in ("loss", "total_loss")
    if role == "score":
        return meaning is not None and meaning.role == "metric"
    return role != "throughput" or not _THINGS.isdisjoint(words_of(tag))


def chart_role(name: str, kind: MetricKind, meaning: Meaning | None) -> ChartRole | None:
    """Return the role of a series of a kind by its name and its meaning; None if it has none."""
    if name.rpartition("/")[2].lower() == "epoch":
        return "epoch"
    if _RETURN.fullmatch(name):
        return "return"
    if meaning and (role := _OF_MEANING.get(meaning.role)):
        return role
    measured = name.startswith(_MEASURED)
    if kind in ("loss", "score") and not measured:
        return _LEARNING.get(meaning.role, "score") if meaning else "score"
    if meaning and meaning.role == "loss" and kind == "other":
        return "loss"
    if kind == "rate" and (not measured or name.startswith("speed/")):
        return "throughput"
    words = frozenset(words_of(name))
    of_layer = name.startswith(MEASURED) and name.count("/") > 1  # its name may have any words
    if meaning is None and not of_layer:
        for role, of_kind, needed in _OF_WORDS:
            if kind == of_kind and all(words & some for some in needed):
                return role
    return None
