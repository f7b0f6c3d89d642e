"""A job's steps, accounted for: aligned at the ranks' meetings, group by group, and over time.

A step of a rank begins when its own last one ended, and ranks that end a step apart begin the next one apart.
Ranks that wait for each other leave together the stage in which they do, so steps are counted from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.frontier import FEWEST_STEPS, Frontier, StageTimes, frontier_of
from stepscope.errors import EmptyTraceError
from stepscope.health.worth import WORTH, is_worth

Floats = npt.NDArray[np.floating[Any]]
Steps = npt.NDArray[np.int64]
DISTINCT = 0.5
"""Ranks meet if their times from meeting to meeting differ less than this, against the steps' own."""
SAMPLE = 1000
"""Number of last steps that show the meetings of ranks."""
EXCHANGES = "backward"
"""The stage in which ranks that train together wait for each other, unless the recording says otherwise."""
APART = 0.1
"""Ranks whose times over a window differ by more than this do not wait for each other in each step."""
MOST_STRETCHES, FEWEST_IN_STRETCH = 20, 10
"""Number of stretches into which a window is divided to determine that, and the steps in each."""


@dataclass(frozen=True, slots=True)
class Account:
    """A window of steps of ranks whose work is alike.

    Attributes:
        group: The common work of the ranks; empty if they are all of the job.
        meets: The stage at whose end the ranks are together, from which steps are counted; None for the end
            of the step.
        steps: The steps that were used.
        shares_s: Shape ``(steps, stages)``: the group's loss in each stage of each step; sums over stages
            to the slowest rank's step.
        apart: Difference between the slowest and the fastest rank's time, as a share, in the median stretch
            of the window; above :data:`APART` the ranks do not wait for each other step by step.
        off: How much longer the group's steps are in sum than those of the rank that took longest, as a share
            of these: each step is counted as if all ranks began it together.
        lines: For some ranks the line in which they spend more time than the others, and that in a sentence.
        own: The ranks' own steps, if they count their steps together and do not wait for each other.
    """

    group: str
    frontier: Frontier
    meets: str | None
    steps: Steps
    shares_s: Floats
    apart: float
    off: float = 0.0
    own: OwnSteps | None = None
    lines: Mapping[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """Steps of ranks that do not wait for each other, each rank's numbered by their order.

    Attributes:
        frontier: Of the steps as one stage: which rank takes longest for its n-th step, and how surely.
        quartiles_s: Of each rank's steps, in seconds, from the step on at which the leader persists, if it
            does.
    """

    frontier: Frontier
    quartiles_s: dict[int, tuple[float, float, float]]

    @property
    def median_s(self) -> dict[int, float]:
        """The usual step of each rank."""
        return {rank: middle for rank, (_, middle, _) in self.quartiles_s.items()}


class Durations(Protocol):
    """Times of a run's ranks for each stage of each step, as the store has them."""

    @property
    def durations_s(self) -> Floats:
        """Shape (steps, ranks, stages), NaN if not recorded."""

    @property
    def ranks(self) -> list[int]:
        """Their numbers."""

    @property
    def stages(self) -> list[str]:
        """Names, in the order in which they run."""

    @property
    def steps(self) -> Steps:
        """Their numbers."""

    @property
    def groups(self) -> dict[int, str]:
        """The work that ranks name as theirs, if recorded."""

    @property
    def doubled(self) -> list[int]:
        """Ranks that recorded a step more than once."""

    @property
    def clock(self) -> str:
        """Either "host" or "device": whose time the stages are."""

    @property
    def devices(self) -> bool:
        """Whether ranks computed on devices, which work behind their hosts."""

    @property
    def own_steps(self) -> bool:
        """Whether the steps are numbered by each rank's own order, since the ranks count them together."""

    @property
    def lines(self) -> Mapping[int, tuple[str, str]]:
        """For some ranks the line in which they spend more time than the others, and that in a sentence."""


def accounts_of(table: Durations) -> tuple[Account, ...]:
    """Account for each group of ranks of a run separately, in order of their names.

    Raises:
        EmptyTraceError: No group of two ranks or more has steps that all of them recorded.
    """
    made, why = [], None
    for group, here, durations_s in _groups(table):
        ranks = [table.ranks[at] for at in here]
        try:
            made.append((_own_account if table.own_steps else _account)(table, group, ranks, durations_s))
        except EmptyTraceError as error:
            why = why or error
    if not made and why is not None:
        raise why
    return tuple(made)


def _groups(table: Durations) -> Iterator[tuple[str, list[int], Floats]]:
    """Yield the groups of ranks, a rank without one in "": name, columns and durations of each."""
    names = [table.groups.get(rank, "") for rank in table.ranks]
    for group in sorted(set(names)):
        here = [at for at, name in enumerate(names) if name == group]
        yield group, here, table.durations_s if len(here) == len(names) else table.durations_s[:, here]


def _account(table: Durations, group: str, ranks: list[int], durations_s: Floats) -> Account:
    stages = table.stages
    views = [_view(table, ranks, durations_s, at) for at in meetings(durations_s, table.steps, stages)]
    frontier, shares, times, numbers, meets = views[0]
    for other in views[1:]:  # of two ranks either may be the one that waits: then the likely stage decides
        more = _explained(other[0]) - _explained(frontier)
        if is_worth(more, frontier.group_s, ratio=WORTH, steps=frontier.steps):
            frontier, shares, times, numbers, meets = other
    if meets is not None:
        back = len(stages) - 1 - meets
        shares = np.roll(shares, -back, axis=1)
        frontier = replace(
            frontier,
            stages=tuple(np.roll(np.array(frontier.stages, object), -back).tolist()),
            leader=np.roll(frontier.leader, -back, axis=1),
            beyond_s=np.roll(frontier.beyond_s, -back, axis=1),
            led_s=np.roll(frontier.led_s, -back, axis=0),
            led=np.roll(frontier.led, -back, axis=0),
        )
    totals = _totals(times)
    longest = float(totals.sum(axis=0).max())
    off = max(frontier.group_s / longest - 1.0, 0.0) if longest > 0 else 0.0
    meeting = None if meets is None else stages[meets]
    return Account(group, frontier, meeting, numbers, shares, _apart(totals), off, lines=table.lines)


def _own_account(table: Durations, group: str, ranks: list[int], durations_s: Floats) -> Account:
    """Return the account of ranks that meet nowhere: the rule of a stage judges their whole steps."""
    frontier, shares, times, numbers, _ = _view(table, ranks, durations_s, None)
    took = times.sum_of(times.shape[2])
    whole = np.ones(len(took), bool)
    own, _ = frontier_of(StageTimes([took]), whole, ranks=ranks, stages=["step"], steps=numbers.tolist())
    since = own.stages[0].since
    low, middle, high = np.quantile(
        took if since is None else took[numbers >= since], (0.25, 0.5, 0.75), axis=0
    ).tolist()
    return Account(
        group, frontier, None, numbers, shares, _apart(_totals(times)), lines=table.lines,
        own=OwnSteps(own, dict(zip(ranks, zip(low, middle, high, strict=True), strict=True))),
    )  # fmt: skip


def _totals(times: StageTimes) -> Floats:
    """Return the time of each rank in each stretch of the window, shape ``(stretches, ranks)``, seconds."""
    steps, ranks, stages = times.shape
    edges = [
        int(part[0])
        for part in np.array_split(np.arange(steps), max(1, min(MOST_STRETCHES, steps // FEWEST_IN_STRETCH)))
    ]
    totals = np.zeros((len(edges), ranks))
    for row, (begin, end) in enumerate(pairwise([*edges, steps])):
        for at in range(stages):
            totals[row] += times.stage(at, slice(begin, end)).sum(axis=0, dtype=np.float64)
    return totals


def _apart(totals: Floats) -> float:
    """Return how far the slowest and the fastest rank's time are apart, as a share: the median stretch's.

    A few steps may be longer for one rank alone, as the first, or one after which its profile was written.

    Args:
        totals: Shape ``(stretches, ranks)``, seconds.
    """
    longest = totals.max(axis=1)
    apart = (longest - totals.min(axis=1)) / np.where(longest > 0, longest, 1.0)
    return float(np.median(apart))


def _view(
    table: Durations, ranks: list[int], durations_s: Floats, meets: int | None
) -> tuple[Frontier, Floats, StageTimes, Steps, int | None]:
    """Return the frontier of steps that begin after a stage.

    Also return the group's loss in each stage of each step, the times of these steps, and their numbers.
    """
    times, steps = after_meeting(durations_s, table.steps, meets)
    begin = 0 if meets is None else meets + 1
    order = [*table.stages[begin:], *table.stages[:begin]]
    whole = times.whole()
    frontier, lost = frontier_of(times, whole, ranks=ranks, stages=order, steps=steps.tolist())
    return frontier, lost, times.of_steps(whole), steps[whole], meets


def named_loss(frontier: Frontier) -> float:
    """Return the loss in stages for which one rank is named.

    Counted from the ranks' meeting, a delay comes before the waiting for it. Counted from elsewhere the
    waiting comes first, and as most ranks wait, nothing lies beyond the median.
    """
    return sum(stage.beyond_median_s for stage in frontier.stages if stage.label == "persistent")


def _explained(frontier: Frontier) -> float:
    """Return the loss for which one rank is named, its pauses included."""
    return named_loss(frontier) + (0.0 if frontier.pauses is None else frontier.pauses.cost_s)


def meetings(durations_s: Floats, steps: Steps, names: Sequence[str]) -> list[int | None]:
    """Return the stages at whose end ranks may be together; None is the end of the step.

    The time from one meeting to the next is the same on every rank, whatever each did meanwhile. The end of
    another stage is reached earlier by one rank and later by another as their work varies. If ranks leave
    their meeting less evenly than that, both may be.

    Args:
        durations_s: Shape ``(steps, ranks, stages)``, seconds.
        steps: Number of each step.
        names: Name of each stage.
    """
    stages = durations_s.shape[2]
    if stages < 3 or durations_s.shape[1] < 2:
        return [None]
    durations_s, steps = durations_s[-SAMPLE:], steps[-SAMPLE:]
    spreads = []
    for stage in range(stages):
        times, _ = after_meeting(durations_s, steps, stage if stage < stages - 1 else None)
        totals = times.sum_of(stages)
        totals = totals[np.isfinite(totals).all(axis=1)]
        if len(totals) < FEWEST_STEPS:
            return [None]
        spreads.append(float(np.median(totals.max(axis=1) - totals.min(axis=1))))
    best = int(np.argmin(spreads))
    if spreads[best] < DISTINCT * spreads[-1]:
        return [best]
    likely = list(names).index(EXCHANGES) if EXCHANGES in names else stages - 1
    if likely == stages - 1 or DISTINCT * spreads[likely] > spreads[-1]:
        return [None]
    return [likely, None]


def after_meeting(durations_s: Floats, steps: Steps, stage: int | None) -> tuple[StageTimes, Steps]:
    """Return steps that begin after a stage of the one before, numbered by the step in which they end.

    Without a copy, if every step follows the one before it; the steps as they are for None.
    """
    if stage is None:
        return StageTimes.of(durations_s), steps
    follow = np.flatnonzero(np.diff(steps) == 1)
    by_stage = durations_s.transpose(2, 0, 1)
    if len(follow) == len(steps) - 1:
        before, here = by_stage[stage + 1 :, :-1], by_stage[: stage + 1, 1:]
    else:
        before, here = by_stage[stage + 1 :, follow], by_stage[: stage + 1, follow + 1]
    return StageTimes([*before, *here]), steps[follow + 1]


def own_work(table: Durations) -> Floats:
    """Return how long each rank worked in each step, without waiting for the others of its group.

    In the stage in which the ranks meet, each waits for the last one to come to it, at most as long as it is
    in that stage. Ranks that do not wait for each other in each step work as long as their steps are.

    Returns:
        Shape ``(steps, ranks)``, seconds, NaN if not recorded.
    """
    work: Floats = table.durations_s.sum(axis=2)
    if table.own_steps or not work.size:
        return work
    for _, here, durations_s in _groups(table):
        meets = meetings(durations_s, table.steps, table.stages)[0]
        times, steps = after_meeting(durations_s, table.steps, meets)
        whole = times.of_steps(times.whole())
        if not whole.shape[0] or _apart(_totals(whole)) > APART:
            continue
        last = times.shape[2] - 1
        come = times.sum_of(last)
        waits = np.clip(np.fmax.reduce(come, axis=1)[:, None] - come, 0.0, times.stage(last))
        work[np.searchsorted(table.steps, steps)[:, None], here] -= waits
    return work


def over_time(account: Account, edges: Steps) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the mean time lost in each stage, by column of steps, and the steps in each column.

    Args:
        account: The account.
        edges: First step of each column, and the one after the last.

    Returns:
        Shape ``(stages, columns)``, seconds a step, NaN if there is no step; and counts, ``(columns,)``.
    """
    at = np.searchsorted(account.steps, edges)
    counts = np.diff(at)
    total = np.zeros((len(account.shares_s) + 1, account.shares_s.shape[1]))
    np.cumsum(account.shares_s, axis=0, out=total[1:])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total[at[1:]] - total[at[:-1]]) / counts[:, None]
    return means.T, counts


@dataclass(frozen=True, slots=True)
class Onset:
    """A rank that holds the others up: its beginning and its cost; seconds."""

    rank: int
    stage: str
    since: int
    before_s: float | None
    """Mean step of the group before; None if it was so from the first step."""
    after_s: float
    without_s: float
    """Mean step since, had the stages that the rank leads taken the median rank's time."""
    delay_s: float
    """The time by which a step takes longer because of it: ``after_s - without_s``."""
    lost_gpu_s: float
    """Cost of the delay, over all steps since and all ranks that wait."""


def onset(account: Account) -> Onset | None:
    """Return the rank that costs the group most, of those that persist.

    None if none does, or if no rank waits for another.
    """
    if account.own is not None:
        return None
    frontier = account.frontier
    slow = [stage for stage in frontier.stages if stage.label == "persistent"]
    if not slow:
        return None
    worst = max(slow, key=lambda stage: stage.beyond_median_s)
    assert worst.since is not None
    whole = account.shares_s.sum(axis=1)
    after = account.steps >= worst.since
    mean = float(whole[after].mean())
    led_s, _ = frontier.led_from(int(after.argmax()))
    lost = min(float(led_s[:, frontier.ranks.index(worst.leader)].sum()), float(whole[after].sum()))
    return Onset(
        worst.leader, worst.stage, worst.since, float(whole[~after].mean()) if (~after).any() else None,
        mean, mean - lost / int(after.sum()), lost / int(after.sum()), lost * len(frontier.ranks),
    )  # fmt: skip


SAID = 4
"""Number of earlier attempts whose number of ranks is reported."""


def notes_of_sizes(sizes: Mapping[int, Sequence[int]]) -> list[str]:
    """Return in sentences how the number of ranks changed from attempt to attempt, and ranks disagree.

    Args:
        sizes: Of each attempt, in order, how many ranks its ranks said there are.
    """
    if not sizes:
        return []
    last = max(sizes)
    notes = []
    if len(sizes[last]) > 1:
        listing = ", ".join(map(str, sizes[last][:-1])) + f" and {sizes[last][-1]}"
        notes.append(
            f"ranks of attempt {last} disagree on how many there are: {listing}; "
            "the largest number is assumed"
        )
    others = {attempt: counts for attempt, counts in sizes.items() if counts != sizes[last]}
    if others:
        listing = ", ".join(
            f"attempt {attempt} had {' or '.join(map(str, others[attempt]))}" for attempt in [*others][-SAID:]
        )
        more = f" ({len(others) - SAID} earlier ones are not named)" if len(others) > SAID else ""
        notes.append(
            f"the number of ranks changed: {listing}{more}, attempt {last} has "
            f"{' or '.join(map(str, sizes[last]))}; everything here is about attempt {last} alone"
        )
    return notes


HOST_TIME = (
    "the stages are the hosts' time: work that a device does later counts towards the stage in which its "
    "host waits for it"
)


def notes_of(accounts: Sequence[Account], table: Durations) -> list[str]:
    """Return the limits of an account, in sentences.

    Args:
        accounts: The accounts of one job.
        table: The accounted times.
    """
    steps, doubled = len(table.steps), table.doubled
    stages = [stage.stage for stage in accounts[0].frontier.stages]
    notes = []
    if stages == ["data", "rest"]:
        notes.append("the stages are the wait for data and the rest of the step: no others were recorded")
    used = min(account.frontier.steps for account in accounts)
    if table.own_steps:
        notes.append(
            "the ranks count their steps together, as workers with parameter servers do: each one's own "
            "steps are compared, in their order"
        )
    short = 0 if table.own_steps else steps - used - any(account.meets is not None for account in accounts)
    if table.clock == "device":
        notes.append("the stages are the devices' time, from events that nobody waited for")
    elif table.devices:
        notes.append(HOST_TIME)
    if short > 0:
        who = "ranks' devices timed" if table.clock == "device" else "ranks recorded"
        notes.append(f"{short} of {steps} steps are left out: not all {who} them")
    if doubled:
        some = ", ".join(map(str, doubled[:8])) + (" and more" if len(doubled) > 8 else "")
        notes.append(f"rank {some} recorded steps more than once: the newest count")
    notes += [
        f"the ranks{f' of {account.group}' if account.group else ''} do not wait for each other in each "
        f"step: their times differ by {100 * account.apart:.0f} %"
        for account in accounts
        if account.apart > APART
    ]
    return notes
