"""Telling charts: which charts of a run a person looks at first, by what their series are."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Literal, NamedTuple, get_args

from stepscope.names.kinds import MetricKind
from stepscope.names.roles import LR, MEASURED, meaning_of, without_split
from stepscope.names.splits import words_of

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
_BY_EPOCH = re.compile(r"(?:.*/)?epoch_[^/]+", re.DOTALL)
"""Tags of Keras' own callback: their steps are epochs, beside others whose steps are batches."""


class Telling(NamedTuple):
    """The subject of a chart and its place: the chart with the lowest place tells most."""

    role: ChartRole | None
    tier: ChartTier
    place: tuple[int, ...]


def telling(title: str, tags: Sequence[str], kind: MetricKind, *, evaluated: bool) -> Telling:
    """Return what a chart shows.

    Args:
        title: Its title, which a person can have given to it.
        tags: The tags of its lines.
        kind: The kind of its metric.
        evaluated: Whether one of its lines is of an evaluation. Of two losses, the evaluated one tells more.
    """
    role = min((chart_role(name, kind) for name in dict.fromkeys((title, *tags))), key=_PLACE.__getitem__)
    tier, detail = _tier(title, tags[0], role, kind)
    place = (_TIERS.index(tier), detail, _PLACE[role], int(not evaluated), int(not _usual(tags[0], role)))
    return Telling(role, tier, place)


def _tier(title: str, tag: str, role: ChartRole | None, kind: MetricKind) -> tuple[ChartTier, int]:
    """Return what a chart shows, and how little, if that is a detail."""
    if _DETAIL.search(title):
        return "detail", 2
    if role in ("return", "loss", "part_loss", "score"):
        return "learning", 0
    if role == "epoch" or kind in ("counter", "nonfinite"):
        return "detail", 1
    if role:
        return "running", 0
    meaning = meaning_of(tag)
    return ("detail" if tag.startswith(_MEASURED) or (meaning and meaning.layer) else "recorded"), 0


def _usual(tag: str, role: ChartRole | None) -> bool:
    """Return whether a tag is the usual one of its role, if several have it."""
    if role == "loss":
        return without_split(tag).rpartition("/")[2].lower() in ("loss", "total_loss")
    if role == "score":
        meaning = meaning_of(tag)
        return meaning is not None and meaning.role == "metric"
    return role != "throughput" or not _THINGS.isdisjoint(words_of(tag))


def by_epoch(tags: Sequence[str]) -> bool:
    """Return whether the steps of all tags are numbers of epochs."""
    return all(_BY_EPOCH.fullmatch(tag) for tag in tags)


def chart_role(name: str, kind: MetricKind) -> ChartRole | None:
    """Return the role of a series of a kind by its name; None if it has none."""
    if name.rpartition("/")[2].lower() == "epoch":
        return "epoch"
    if _RETURN.fullmatch(name):
        return "return"
    meaning = meaning_of(name)
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
    if meaning is None:
        for role, of_kind, needed in _OF_WORDS:
            if kind == of_kind and all(words & some for some in needed):
                return role
    return None
