"""Ranks that others wait for again and again, beyond the chance of equal ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analyze.ranks.blame import COMPUTING, UNKNOWN, Answers, Blame, blame_of, chained
from stepscope.analyze.ranks.waits import Waits
from stepscope.health.worth import WORTH, is_worth
from stepscope.trace.model import Trace

CONFIDENT = 0.95


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that comes last."""

    rank: int
    score: float
    """Share of all waiting that it caused."""
    confidence: float
    """One minus the chance that one of equal ranks comes last as often, corrected for looking at all."""
    since: int | None
    """First step in which it came last; None if no steps were recorded."""
    last: int
    """Collectives in which it came last, of ``of``."""
    of: int


def find_stragglers(trace: Trace, waits: Waits, answers: Answers | None = None) -> tuple[Straggler, ...]:
    """Name the ranks that come last beyond chance and cost something, most waiting first.

    Only collectives whose waits can be distinguished from the time that a rank needs to arrive count: those
    in which others waited longer than the transfer took. One to which its last rank came late because it
    stood in another does not count by itself; its waiting is laid to whom that one waited for.

    Args:
        trace: The ranks' profiles.
        waits: The waits in them.
        answers: The causes of the last ranks' delays, if known.
    """
    joint = waits.joint
    total = waits.total_ns
    used = waits.wait_ns.sum(1) > waits.transfer_ns.max(1)
    if answers:
        used &= ~chained(waits, answers)
    if not total or not used.any():
        return ()
    ranks = len(joint.ranks)
    recorded = _recorded_ns(trace)
    caused = dict.fromkeys(joint.ranks, 0)
    if answers:
        for row in blame_of(waits, answers):
            caused[row.rank] += row.wait_caused_ns
    stragglers = []
    for at, rank in enumerate(joint.ranks):
        mine = used & (waits.last == at)
        cost = caused[rank] if answers else int(waits.wait_ns[mine].sum())
        chance = min(1.0, ranks * chance_of_wins(int(mine.sum()), int(used.sum()), 1 / ranks))
        worth = is_worth(1e-9 * cost, 1e-9 * recorded, ratio=WORTH, steps=max(len(trace.steps), 1))
        if not worth or 1 - chance < CONFIDENT:
            continue
        steps = trace.step[joint.row[mine, at]]
        known = steps[steps >= 0]
        since = int(known.min()) if len(known) else None
        stragglers.append(
            Straggler(rank, cost / total, round(1 - chance, 4), since, int(mine.sum()), int(used.sum()))
        )
    return tuple(sorted(stragglers, key=lambda straggler: -straggler.score))


def _recorded_ns(trace: Trace) -> int:
    """Return how long all ranks were recorded: their steps, else from first to last event."""
    if len(trace.steps):
        return int((trace.steps.end_ns - trace.steps.start_ns).sum())
    whole = 0
    for rank in trace.ranks:
        mine = trace.rank == rank
        if mine.any():
            whole += int(trace.end_ns[mine].max() - trace.start_ns[mine].min())
    return whole


def needed(count: int, ranks: int) -> int | None:
    """Return how many collectives are needed to tell a slow rank from chance; None if there are enough."""
    fewest = next(wins for wins in range(1, 64) if ranks * (1 / ranks) ** wins <= 1 - CONFIDENT)
    return fewest if count < fewest else None


def chance_of_wins(wins: int, count: int, chance: float) -> float:
    """Return the chance of at least that many wins (binomial)."""
    if wins <= 0:
        return 1.0
    at = np.arange(wins, count + 1)
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        + k * math.log(chance) + (count - k) * math.log1p(-chance)
        for k in at.tolist()
    ]  # fmt: skip
    return float(min(1.0, np.exp(logs).sum()))


@dataclass(frozen=True, slots=True)
class SharedCause:
    """A cause that delays changing ranks, if no rank stands out."""

    cause: str
    share: float
    """Of all waiting."""
    cost: float
    """The waiting for it, as a share of the ranks' recorded time."""
    ranks: int
    """Ranks that it kept."""


MOST_OF_IT = 0.5


def shared_cause(trace: Trace, waits: Waits, blame: Sequence[Blame]) -> SharedCause | None:
    """Return the work of several ranks in turn while others wait; None if they compute, or it costs little.

    Ranks whose work differs a little each time come last in turn while computing: there is nothing to fix.
    """
    by_cause: dict[str, dict[int, int]] = {}
    for row in blame:
        by_cause.setdefault(row.cause, {})[row.rank] = row.wait_caused_ns
    total = waits.total_ns
    for cause, ranks in by_cause.items():
        caused = sum(ranks.values())
        if cause in (COMPUTING, UNKNOWN) or caused < MOST_OF_IT * total or len(ranks) < 2:
            continue
        if is_worth(1e-9 * caused, 1e-9 * _recorded_ns(trace), ratio=WORTH, steps=max(len(trace.steps), 1)):
            return SharedCause(cause, caused / total, caused / _recorded_ns(trace), len(ranks))
    return None
