"""Frontier accounting: the time of a group of ranks by stage, from the durations of their stages alone.

In one step rank ``r`` has come to the end of stage ``k`` after ``C[r, k]``, the sum of its stages so far. The
frontier ``F[k]`` is the latest of all ranks and ``A[k] = F[k] - F[k - 1]`` is the group's loss in stage
``k``. These sum exactly to the slowest rank's step, so no delay is counted twice, and no clocks are compared.
The rank at the frontier leads the stage. A stage in which ranks wait for each other hides who was late, so a
leader shows the stage in which a delay first becomes visible (StageFrontier, arXiv 2606.06751).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.pauses import ONE_RANKS, SHARED, Pauses, pauses_of
from stepscope.analyze.ranks.stragglers import chance_of_wins
from stepscope.errors import EmptyTraceError
from stepscope.health.worth import WORTH, is_worth

Floats = npt.NDArray[np.floating[Any]]
FEWEST_STEPS = 20
BLOCK, RANKS_AT_ONCE = 1024, 64
"""Steps, and ranks, of which matrices are made at once."""
CHANCE = 0.001
"""Chance at which a rank that leads no more than any other would be called persistent, over all stages."""
MOST_SINGLE = 0.4
"""Share of a rank's steps from which on they are not single ones but a time in which it was slow."""
_OUTLYING = 5.0
"""Deviations from a rank's own median beyond which a stage of one step was held up."""


@dataclass(frozen=True, slots=True)
class StageLoss:
    """The time that a group lost in one stage of a window of steps."""

    stage: str
    exposed_s: float
    """Sum of ``A[k]``; over all stages these sum to the group's time."""
    beyond_median_s: float
    """The part that would not have been lost if every rank had taken as long as the median rank."""
    leader: int
    """The rank that leads it in most steps, by how far it leads."""
    margin_s: float
    """Median distance from the leader to the second, in the steps that it leads."""
    led: float
    """Share of the steps that the leader leads."""
    since: int | None
    """First step from which it leads; None if no rank persists."""
    label: str
    """``persistent``, ``recurring``, ``wandering``, ``alike`` or ``unclear``; see :func:`frontier_of`."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """A window of steps of a group of ranks."""

    ranks: tuple[int, ...]
    steps: int
    """Steps that all ranks recorded with all stages."""
    left_out: int
    """Steps that a rank lacks."""
    group_s: float
    """Sum of the slowest rank's steps."""
    stages: tuple[StageLoss, ...]
    leader: npt.NDArray[np.int64]
    """Shape ``(steps, stages)``: column of the rank that leads."""
    beyond_s: Floats
    """Shape ``(steps, stages)``: time lost beyond the median rank."""
    caused_s: dict[int, float]
    """By rank: time lost beyond the median rank's, in the stages of steps that this rank led."""
    led_s: Floats
    """Shape ``(stages, ranks)``: time lost beyond the median rank while each rank led each stage."""
    led: Floats
    """Shape ``(stages, ranks)``: share of the steps that each rank leads each stage."""
    noise_s: float
    """Median difference of a rank's stage from the median rank's, over stages, ranks and steps: smaller
    margins say nothing."""
    pauses: Pauses | None = None
    """The steps that one rank alone holds up; their stage is ``recurring``."""

    def led_from(self, at: int) -> tuple[Floats, Floats]:
        """Return ``led_s`` and ``led`` of the steps from a place on."""
        return _led(self.leader[at:], self.beyond_s[at:], len(self.ranks))


class StageTimes:
    """Times of stages, each a matrix by step and rank: views of the recorded data, so that nothing is copied.

    Args:
        parts: Of each stage, shape ``(steps, ranks)``.
        rows: The steps that count; None for all.
    """

    def __init__(self, parts: Sequence[Floats], rows: npt.NDArray[np.int64] | None = None) -> None:
        self._parts, self._rows = parts, rows

    @classmethod
    def of(cls, durations_s: Floats) -> StageTimes:
        """Return the times of an array of shape ``(steps, ranks, stages)``."""
        return cls([durations_s[:, :, at] for at in range(durations_s.shape[2])])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Steps, ranks and stages."""
        steps, ranks = self._parts[0].shape
        return steps if self._rows is None else len(self._rows), ranks, len(self._parts)

    def stage(self, at: int, rows: slice = slice(None)) -> Floats:
        """Return a stage of some steps, by rank."""
        part = self._parts[at]
        return part[rows] if self._rows is None else part[self._rows[rows]]

    def sum_of(self, stages: int) -> Floats:
        """Return the time of the first stages together, by step and rank."""
        total: Floats = np.zeros(self.shape[:2])
        for at in range(stages):
            total += self.stage(at)
        return total

    def whole(self) -> npt.NDArray[np.bool_]:
        """Return which steps all ranks recorded with all stages."""
        known = np.ones(self.shape[0], bool)
        for rows in blocks(self.shape[0]):
            for at in range(len(self._parts)):
                part = self.stage(at, rows)
                known[rows] &= ((part >= 0) & (part < np.inf)).all(axis=1)
        return known

    def of_steps(self, chosen: npt.NDArray[np.bool_]) -> StageTimes:
        """Return some steps."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        return StageTimes(self._parts, rows if self._rows is None else self._rows[rows])


def blocks(steps: int) -> Iterator[slice]:
    """Divide steps into parts of which a thousand ranks take little memory."""
    return (slice(begin, min(begin + BLOCK, steps)) for begin in range(0, steps, BLOCK))


def frontier_of(
    times: StageTimes,
    whole: npt.NDArray[np.bool_],
    *,
    ranks: Sequence[int],
    stages: Sequence[str],
    steps: Sequence[int],
) -> tuple[Frontier, Floats]:
    """Return the frontier of the steps that are whole, and the group's loss by step and stage.

    Labels, by the time lost beyond the median rank in a stage:

    - ``alike``: less than ``WORTH`` of the group's time, since its leader leads. Nobody is to blame.
    - ``persistent``: one rank leads so many steps that a rank that leads as often as any other would do so
      with a chance below :data:`CHANCE`, counted over independent steps (those of a lag-1 autoregressive
      series of the same correlation), and it leads by more than its margin varies.
    - ``recurring``: no rank persists, and one rank pauses in single steps, as when it saves or evaluates;
      see :func:`stepscope.analyze.ranks.pauses.pauses_of`.
    - ``wandering``: no rank persists, and single steps lie more than five deviations above their rank's
      median: steps of changing ranks.
    - ``unclear``: time is lost, and neither holds: ranks differ by noise alone, or too few steps.

    Args:
        times: The times of all steps, stages in the order in which they run.
        whole: Which steps all ranks recorded with all stages.
        ranks: Number of each rank.
        stages: Name of each stage.
        steps: Number of each step, ascending.

    Raises:
        EmptyTraceError: Fewer than two ranks, or no step that all of them recorded.
    """
    used = times.of_steps(whole)
    count = used.shape[0]
    if used.shape[1] < 2 or not count:
        raise EmptyTraceError(
            f"cannot tell who waits for whom: expected steps that several ranks recorded, found {count} "
            f"of {used.shape[1]} ranks",
            hint="let all ranks record: create the run in every process",
        )
    numbers = np.asarray(steps)[whole]
    columns = _Columns(used)
    losses = [_judge(columns, at, stage, ranks, numbers) for at, stage in enumerate(stages)]
    pauses = None
    if count >= FEWEST_STEPS:
        pauses = pauses_of(
            columns.margin, columns.leader, columns.excess, columns.typical, ranks=ranks, stages=stages,
            steps=numbers, group_s=columns.group_s,
        )  # fmt: skip
    if pauses is not None:
        losses = [
            replace(loss, label="recurring", leader=pauses.rank)
            if loss.stage == pauses.stage and loss.label != "persistent"
            else loss
            for loss in losses
        ]
    led_s, led = _led(columns.leader, columns.beyond, len(ranks))
    caused = dict(zip(ranks, led_s.sum(axis=0).tolist(), strict=True))
    account = Frontier(
        tuple(ranks), count, int((~whole).sum()), columns.group_s, tuple(losses), columns.leader,
        columns.beyond, caused, led_s, led, columns.noise_s, pauses,
    )  # fmt: skip
    return account, columns.lost


class _Columns:
    """Times of each stage of each step, some steps at a time: matrices of a thousand ranks are never made."""

    def __init__(self, times: StageTimes) -> None:
        self.times = times
        steps, self._ranks, stages = times.shape
        self.lost, self.margin, self.beyond = (np.empty((steps, stages)) for _ in range(3))
        self.typical, self.excess = np.empty((steps, stages)), np.empty((steps, stages))
        self.leader = np.empty((steps, stages), np.int64)
        self.whole_s = np.empty(steps)
        some: list[list[Floats]] = [[] for _ in range(stages)]
        every = 1 + steps // 200
        for rows in blocks(steps):
            at = np.arange(rows.stop - rows.start)
            reached, before = np.zeros((len(at), self._ranks)), np.zeros(len(at))
            for stage in range(stages):
                taken = np.ascontiguousarray(times.stage(stage, rows))
                reached += taken
                leader = self.leader[rows, stage] = reached.argmax(axis=1)
                front = reached[at, leader]
                typical = self.typical[rows, stage] = median_of(taken)
                self.excess[rows, stage] = taken[at, leader] - typical
                self.lost[rows, stage] = front - before
                self.margin[rows, stage] = front - np.partition(reached, self._ranks - 2, axis=1)[:, -2]
                self.beyond[rows, stage] = np.maximum(front - before - typical, 0.0)
                sample = slice(-rows.start % every, None, every)
                some[stage].append(np.abs(taken[sample] - typical[sample, None]))
                before = front
            self.whole_s[rows] = before
        self.group_s = float(self.whole_s.sum())
        self.noise_s = max(float(np.median(np.concatenate(parts))) for parts in some)


def _led(leader: npt.NDArray[np.int64], beyond: Floats, ranks: int) -> tuple[Floats, Floats]:
    """Return the loss beyond the median while each rank led each stage, and its share of steps."""
    stages = range(leader.shape[1])
    lost = [np.bincount(leader[:, at], weights=beyond[:, at], minlength=ranks) for at in stages]
    led = [np.bincount(leader[:, at], minlength=ranks) / len(leader) for at in stages]
    return np.array(lost), np.array(led)


def median_of(taken: Floats) -> Floats:
    """Return the median over ranks of each step; four times as fast as numpy's over many rows."""
    middle = taken.shape[1] // 2
    if taken.shape[1] % 2:
        medians: Floats = np.partition(taken, middle, axis=1)[:, middle]
        return medians
    pair = np.partition(taken, (middle - 1, middle), axis=1)[:, middle - 1 : middle + 1]
    mean: Floats = pair.mean(axis=1)
    return mean


def _judge(
    columns: _Columns, stage: int, name: str, ranks: Sequence[int], numbers: npt.NDArray[np.int64]
) -> StageLoss:
    lost, beyond, typical, margin = (
        column[:, stage] for column in (columns.lost, columns.beyond, columns.typical, columns.margin)
    )
    leader = columns.leader[:, stage]
    whole, stages = columns.whole_s, columns.lost.shape[1]
    by_rank = np.bincount(leader, weights=beyond, minlength=len(ranks))
    at = int(by_rank.argmax() if by_rank.any() else np.bincount(leader, minlength=len(ranks)).argmax())
    leads = leader == at
    middle = float(np.median(margin[leads])) if leads.any() else 0.0
    label, since = "unclear", None
    begin = _onset(np.where(leads, margin, 0.0)) if len(lost) >= FEWEST_STEPS else 0
    steps = len(beyond) - begin
    if not is_worth(float(beyond[begin:].sum()), float(whole[begin:].sum()), ratio=WORTH, steps=steps):
        label = "alike"
    elif len(lost) >= FEWEST_STEPS:
        if _persists(leads[begin:], len(ranks), stages) and by_rank[at] > beyond.sum() / 2:
            label, since = "persistent", int(numbers[begin])
        else:
            held_up = _held_up(columns.times.stage(stage), beyond, typical)
            if beyond[~_common(beyond, typical)].sum() < WORTH * whole.sum():
                label = "alike"
            elif held_up is not None and _changes(leader[held_up], beyond[held_up]):
                label = "wandering"
    return StageLoss(
        name, float(lost.sum()), float(beyond.sum()), ranks[at], middle, float(leads.mean()), since, label
    )


def _onset(lead: Floats) -> int:
    """Return the step at which a rank begins to lead: the best split of two levels, 0 without one."""
    count = len(lead)
    total = np.concatenate(([0.0], np.cumsum(lead)))
    cut = np.arange(1, count)
    before, after = total[cut] / cut, (total[-1] - total[cut]) / (count - cut)
    gain = cut * (count - cut) / count * (after - before) ** 2
    best = int(gain.argmax())
    noise = float(np.var(lead)) or 1e-30
    rises = (
        after[best] > 2 * before[best] and gain[best] > 20 * noise and count - cut[best] >= FEWEST_STEPS / 2
    )
    return int(cut[best]) if rises else 0


def _persists(leads: npt.NDArray[np.bool_], ranks: int, stages: int) -> bool:
    """Test whether a rank leads more often than one of equal ranks would, on as many independent steps."""
    count, share = len(leads), float(leads.mean())
    if share <= 1 / ranks or share < 0.5:
        return False
    centred = leads - share
    power = float((centred**2).sum())
    lag = float((centred[1:] * centred[:-1]).sum() / power) if power else 0.0
    independent = max(1, round(count * (1 - lag) / (1 + lag))) if 0 < lag < 1 else count
    wins = round(share * independent)
    return chance_of_wins(wins, independent, 1 / ranks) * ranks * stages < CHANCE


def _common(beyond: Floats, typical: Floats) -> npt.NDArray[np.bool_]:
    """Return the single steps that are long for all ranks, as at a checkpoint of all: nobody is to blame."""
    rise = typical - np.median(typical)
    spread = 1.4826 * float(np.median(np.abs(rise)))
    return np.asarray((rise > _OUTLYING * max(spread, 1e-9)) & (rise > SHARED * beyond))


def _changes(leader: npt.NDArray[np.int64], beyond: Floats) -> bool:
    """Return whether steps are held up by changing ranks: one alone does not lead nearly all of the loss."""
    return bool(np.bincount(leader, weights=beyond).max() <= ONE_RANKS * beyond.sum())


def _held_up(taken: Floats, beyond: Floats, typical: Floats) -> npt.NDArray[np.bool_] | None:
    """Return the single steps of single ranks that stand out from their usual durations.

    None if they are not single or do not make most of the loss. A step that is long for all does not count.
    """
    stands_out, single = np.zeros(len(taken), bool), True
    for begin in range(0, taken.shape[1], RANKS_AT_ONCE):
        some = taken[:, begin : begin + RANKS_AT_ONCE]
        usual = np.median(some, axis=0)
        spread = 1.4826 * np.median(np.abs(some - usual), axis=0)
        outlying = some > usual + _OUTLYING * np.maximum(spread, 1e-9)
        single = single and bool(outlying.mean(axis=0).max() < MOST_SINGLE)
        stands_out |= outlying.any(axis=1)
    stands_out &= ~_common(beyond, typical)
    return stands_out if single and beyond[stands_out].sum() > beyond.sum() / 2 else None
