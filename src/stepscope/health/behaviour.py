"""Meaning by behaviour: what a series is if its name tells too little, by how it moves beside others.

Names are asked first. Where they tell neither a role nor a better end, the points do: what is measured on
other data gets better while the training loss falls. A series is taken for something once, for good, and
only if that is clear; its findings say why and are of low severity, and it excuses nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.health.facts import CHANCE
from stepscope.health.looks import FEWEST, Known, RunFacts, at_steps
from stepscope.health.noise import Floats, rise_chance
from stepscope.health.series import Stream
from stepscope.names.roles import is_metric, without_split
from stepscope.names.splits import words_of

RARELY = 2
"""Points of a loss between two of a series that comes rarely, as evaluations do."""


def taken_for(known: Known, run: RunFacts) -> Stream | None:
    """Return a series with what its points show it to be; None if they show nothing yet."""
    stream, loss = known.stream, run.lowered(known)
    if loss is None:
        return _objective(known, run)
    split = "eval" if _is_of_other_data(known, run) else stream.split
    if stream.role == "metric" and stream.lower_is_better is not None:
        why = "" if is_metric(stream.tag) else "taken as a score of other data: it comes rarely"
        return replace(stream, split=split, because=why) if split != stream.split else None
    if split != "eval":
        return None
    role, falls = "metric", None
    if _names(loss.stream) <= set(words_of(stream.tag)):
        role, falls = "loss", True
        why = f"taken as a loss: its name is that of {loss.stream.tag}, but for the data"
    elif (
        stream.split == "eval"
        and known.facts.only == 0
        and known.facts.count >= FEWEST
        and loss.facts.only is None
    ):
        falls, why = False, "taken as a score: it is of an evaluation, and no count by its name"
    else:
        falls = _better_end(known, loss, run)
        what, went = ("an error", "fell") if falls else ("a score", "rose")
        why = f"taken as {what}: it {went} as the loss fell"
    if falls is None:
        return None
    return replace(stream, role=role, split=split, lower_is_better=falls, because=why)


def _names(stream: Stream) -> set[str]:
    """Return the words of a name without those for the data."""
    return set(words_of(without_split(stream.tag)))


def _is_of_other_data(known: Known, run: RunFacts) -> bool:
    """Return whether a series is not of the training, by its name or by the others of the run.

    It comes rarely beside a loss, and no evaluation has its name; or it has the name of a training series
    with another word for the data.
    """
    stream = known.stream
    if stream.split is not None:
        return stream.split == "eval"
    own = set(words_of(stream.tag))
    every = [other.stream for other in run.of(stream.run, "loss", "metric", "other") if other is not known]
    trained = [
        other.tag for other in every if other.split == "train" and without_split(other.tag) != other.tag
    ]
    if any(set(words_of(without_split(tag))) < own for tag in trained):
        return True
    if any(other.split == "eval" and without_split(other.tag) == stream.tag for other in every):
        return False
    losses = [one.facts for one in run.of(stream.run, "loss", "part_loss", split="train")]
    begun, newest, gaps = known.facts.first_wall, known.facts.last_wall, known.facts.count - 1
    between = ((loss.walls > begun) & (loss.walls <= newest) for loss in losses)
    most = max((int(own.sum()) * loss.width for own, loss in zip(between, losses, strict=True)), default=0)
    return gaps > 1 and most >= RARELY * gaps


def _better_end(known: Known, loss: Known, run: RunFacts) -> bool | None:
    """Return whether less is better of what is measured on other data; None if that is not clear.

    It is for all data what it is for one: a score of the training that rises as the loss falls tells it, too.
    """
    for other in run.of(known.stream.run, "metric", "other"):
        if other is known or _names(other.stream) == _names(known.stream):
            falls = _trend(other, loss) if other.stream.role == "other" else other.stream.lower_is_better
            if falls is not None:
                return falls
    return None


def _trend(known: Known, loss: Known) -> bool | None:
    """Return whether a series falls as the loss does, False if it rises, None if neither is clear.

    A schedule moves one way as well: a measured value has noise, and goes back more than once.
    """
    facts = known.facts
    steps, values = facts.curve
    if len(values) < FEWEST or facts.broken is not None or not _rises(-at_steps(loss.facts, steps)):
        return None
    if known.stream.split is None and not 0 <= facts.least[0] <= facts.most[0] <= 1:
        return None
    for sign in (1.0, -1.0):
        if _rises(sign * values) and (sign * np.diff(values) < 0).sum() > 1:
            return sign < 0
    return None


def _objective(known: Known, run: RunFacts) -> Stream | None:
    """Return a series that falls as the training loss if it is evaluated, or alone while others gain."""
    stream, (_, values) = known.stream, known.facts.curve
    if stream.role != "other" or stream.split == "eval" or len(values) < FEWEST or not _rises(-values):
        return None
    beside = [one for one in run.of(stream.run, "metric", "other") if one is not known]
    others = (set(words_of(one.stream.tag)) for one in beside if one.stream.split != "train")
    alone = not any(one.is_open and one.facts.count > known.facts.count / RARELY for one in beside)
    paired = any(_names(stream) <= other for other in others) or (alone and run.gains())
    if not paired or known.facts.count < max((one.facts.count for one in beside), default=0):
        return None
    why = "taken as the training loss: it falls, and the run records no other"
    return replace(stream, role="loss", split="train", lower_is_better=True, because=why)


def _rises(values: Floats) -> bool:
    parts = np.array([part.mean() for part in np.array_split(values, min(64, len(values)))])
    return rise_chance(parts) < CHANCE
