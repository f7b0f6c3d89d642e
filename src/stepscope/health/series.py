"""The series that rules look at: each tag of a run with the role that its name gives it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import nan

from stepscope.names.kinds import tells_nothing
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.roles import BOUND, MEASURED
from stepscope.names.splits import JudgedSplit, judged_split

_OF_RANK = re.compile(r"rank[_-]?(\d{1,6})/(.+)")
"""Names of the series of single ranks in one log."""

_MEASURED = (*MEASURED, "speed/", "system/", "ranks/", "optimizer/", "attention/", "router/")
"""Beginnings of the names of what is measured, which has no better end."""


def without_rank(tag: str) -> str:
    """Return the tag without the part that names a rank: ``train/loss`` for ``rank2/train/loss``."""
    named = _OF_RANK.fullmatch(tag)
    return tag if named is None else named[2]


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: it is looked up for every point
class Stream:
    """One series that rules look at; there is one for each in a monitor.

    Attributes:
        split: Part of the data, from the tag or the run; a loss without one counts as a training loss.
        run: Name of the run, if the series of several are judged together.
        lower_is_better: Of a loss or a metric; None if its name tells neither end.
        because: Why it is taken for what it is, if its points told it and not its name.
    """

    tag: str
    role: str
    split: JudgedSplit | None = None
    layer: str | None = None
    rank: int | None = None
    run: str = ""
    scale: float = 1.0
    lower_is_better: bool | None = None
    because: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its name leaves open what it is, or which data it is of."""
        if self.role == "metric":
            return self.split is None or self.lower_is_better is None
        return self.role == "other" and not self.tag.startswith(_MEASURED) and tells_nothing(self.tag)

    @property
    def perfect(self) -> tuple[float, ...]:
        """The values of an evaluation at which nothing is left to gain."""
        return (0.0,) if self.lower_is_better else (1.0, 100.0)


def stream_of(
    tag: str,
    *,
    rank: int | None = None,
    run: str = "",
    split: JudgedSplit | None = None,
    meanings: Meanings = NAMED,
    first: float = nan,
) -> Stream | None:
    """Return the stream of a tag, None for the recorder's own series.

    Args:
        tag: Name of the series.
        rank: That recorded it.
        run: That it belongs to.
        split: Of its run, for tags that do not say.
        meanings: The meanings of tags.
        first: Its first value; a bound of a likelihood that is positive may have either sign, and is not
            judged.
    """
    named = _OF_RANK.fullmatch(tag)
    if rank is None and named is not None:
        rank = int(named[1])
    meaning = meanings.role(tag)
    part = judged_split(meanings.part(tag, split))
    if meaning is None or (meaning.scale < 0 and first > 0 and BOUND.search(tag)):
        # Nothing but a sign of life.
        return None if tag.startswith("stepscope/") else Stream(tag, "other", part, None, rank, run)
    if meaning.role == "loss" and part is None:
        part = "train"
    lower = meanings.lower_is_better(tag) if meaning.role in ("loss", "metric") else None
    if meaning.scale < 0:  # judged with the sign of a loss
        lower = True
    return Stream(tag, meaning.role, part, meaning.layer, rank, run, meaning.scale, lower)
