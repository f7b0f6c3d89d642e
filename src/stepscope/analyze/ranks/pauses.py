"""Pauses of one rank that all others wait for: it saves, evaluates or logs now and then, they do not.

A mean over all steps hides such a rank, and among many ranks the sum of the steps' losses by noise hides it
too. So each step is looked at by itself: how much earlier it would have ended if its last rank had come with
the second. A lead far above that rank's usual one is a pause. A pause that most ranks make in the same step,
as a checkpoint of all, is nobody's.

Whether the pauses are one rank's is tested against ranks that pause alike at random steps. The number of
pauses that this rank has of all of their size is binomial then, and their steps are spread at random. Both
chances are joined as Fisher does: a product ``q`` of two independent chances, or a smaller one, has the
chance ``q (1 - ln q)``. Ranks that each pause in a rhythm of their own, as garbage collectors do, are kept
apart by a second condition: nearly all of the time that pauses of this size cost must be this rank's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.stragglers import chance_of_wins

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
CHANCE = 0.01
"""Chance at which one rank would be named in a job of ranks that pause alike: one such job in a hundred."""
WORTH = 0.01
"""Share of the group's time that pauses must cost to be named; a pause is no noise, so a small one counts."""
ONE_RANKS = 0.8
"""Share of the cost of all pauses of this size that must be one rank's."""
OUTLYING = 5.0
"""Deviations above the usual lead from which on a step is held up."""
SMALLER = 0.25
"""Pauses of a kind last alike: one shorter than this part of the usual one is of another kind."""
SHARED = 0.5
"""Part of a pause by which the median rank is late in the same step, too, that makes it everybody's."""
MOST_PAUSED = 0.4
"""Share of the steps from which on they are not single ones but a time in which a rank was slow."""
MIN_PAUSES = 2


@dataclass(frozen=True, slots=True)
class Pauses:
    """Single steps in which one rank holds the others up.

    Attributes:
        rank: Its number.
        stage: The stage in which it comes late, in most of the steps.
        steps: The numbers of these steps.
        every: Steps from one to the next; None if that varies by more than one step.
        pause_s: Median of the cost of each.
        cost_s: The group's cost of all of them.
        share: The same as a share of the group's time.
        chance: The chance of as clear a picture among ranks that pause alike.
    """

    rank: int
    stage: str
    steps: tuple[int, ...]
    every: int | None
    pause_s: float
    cost_s: float
    share: float
    chance: float


def pauses_of(
    margin_s: Floats,
    leader: Ints,
    excess_s: Floats,
    typical_s: Floats,
    *,
    ranks: Sequence[int],
    stages: Sequence[str],
    steps: Ints,
    group_s: float,
) -> Pauses | None:
    """Return the pauses of the one rank that makes nearly all of them; None if no rank does.

    Args:
        margin_s: Shape ``(steps, stages)``: how far the last rank is behind the second at the end of a stage.
        leader: Likewise: the column of the last rank.
        excess_s: Likewise: how much longer than the median rank it took in that stage.
        typical_s: Likewise: the median rank's time.
        ranks: Number of each rank.
        stages: Name of each stage.
        steps: Number of each step, ascending.
        group_s: The time of the group.
    """
    rows = np.arange(len(steps))
    at = margin_s.argmax(axis=1)
    late_s, last = margin_s[rows, at], leader[rows, at]
    if len(ranks) == 2:  # the median of two is half the pause: the other's time tells whether it paused, too
        typical_s = typical_s - excess_s
    events = _alone(late_s, last, np.cumsum(typical_s, axis=1)[rows, at], len(ranks))
    if events is None:
        return None
    held, extra_s = events
    cost_by_rank = np.bincount(last[held], weights=extra_s, minlength=len(ranks))
    column = int(cost_by_rank.argmax())
    usual_s = _usual(extra_s[last[held] == column])
    alike = extra_s >= SMALLER * usual_s
    held, extra_s = held[alike], extra_s[alike]
    mine = last[held] == column
    own, cost_s = held[mine], float(extra_s[mine].sum())
    if len(own) < MIN_PAUSES or len(own) > MOST_PAUSED * len(steps):
        return None
    if cost_s < WORTH * group_s or cost_s < ONE_RANKS * float(extra_s.sum()):
        return None
    chance = joined(
        min(1.0, len(ranks) * chance_of_wins(len(own), len(held), 1 / len(ranks))),
        chance_of_rhythm(np.diff(own), len(steps)),
    )
    if chance >= CHANCE:
        return None
    # The stage in which it fell behind, not the one in which the others see it.
    behind = np.where(np.arange(excess_s.shape[1]) <= at[own, None], excess_s[own], -np.inf)
    stage = int(np.bincount(behind.argmax(axis=1), minlength=len(stages)).argmax())
    gaps = np.diff(steps[own])
    every = int(np.median(gaps)) if len(gaps) > 1 and np.ptp(gaps) <= 1 else None
    return Pauses(
        ranks[column], stages[stage], tuple(steps[own].tolist()), every, float(np.median(extra_s[mine])),
        cost_s, cost_s / group_s, chance,
    )  # fmt: skip


def _alone(late_s: Floats, last: Ints, typical_s: Floats, ranks: int) -> tuple[Ints, Floats] | None:
    """Return the steps that one rank alone holds up, and by how much beyond its usual lead.

    A rank that is last in most steps has a lead of its own, which is no pause.
    """
    most = int(np.bincount(last, minlength=ranks).argmax())
    leads = last == most
    if leads.mean() > 0.5:  # the others lead so rarely that they have no usual lead
        extra_s = late_s - np.where(leads, np.median(late_s[leads]), 0.0)
    else:
        extra_s = late_s - np.median(late_s)
    spread_s = 1.4826 * float(np.median(np.abs(extra_s)))
    together_s = typical_s - np.median(typical_s)
    held = np.flatnonzero((extra_s > OUTLYING * max(spread_s, 1e-9)) & (together_s < SHARED * extra_s))
    return (held, extra_s[held]) if len(held) else None


def _usual(extra_s: Floats) -> float:
    """Return the length of a pause such that longer ones make half of the cost."""
    ordered = np.sort(extra_s)
    return float(ordered[int(np.searchsorted(np.cumsum(ordered), ordered.sum() / 2))])


def joined(one: float, two: float) -> float:
    """Return the chance of two independent chances whose product is as small (Fisher's method)."""
    product = one * two
    return product * (1.0 - math.log(product)) if product > 0 else 0.0


def chance_of_rhythm(gaps: Ints, steps: int) -> float:
    """Return the chance that as many steps, chosen at random, would be at as equal distances.

    Of all sets of ``n`` of ``steps`` steps, ``steps² / (2 (n - 1))`` have equal distances, by their beginning
    and distance; if distances may differ by ``w``, each step after the second has ``2 w + 1`` places.

    Args:
        gaps: Distances between the steps.
        steps: How many there are to choose from.
    """
    count = len(gaps) + 1
    apart = int(np.ptp(gaps)) if len(gaps) > 1 else steps
    if count < 3 or apart > 1:
        return 1.0
    logarithm = (
        math.lgamma(count + 1) - math.log(2 * (count - 1))
        + (count - 2) * (math.log(2 * apart + 1) - math.log(steps))
    )  # fmt: skip
    return min(1.0, 2 * math.exp(logarithm))  # twice: equal, or nearly equal
