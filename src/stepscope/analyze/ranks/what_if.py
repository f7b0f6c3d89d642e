"""The time of a step with a different rank or stage, or without waits: the ranks' collectives replayed.

Between two collectives a rank works by itself; a collective ends for all its ranks when the last has come and
the transfer is done. So a step is a chain of own work and transfers, from which it is replayed: unchanged, it
must give the recorded step, otherwise nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.own_work import OwnWork, combined
from stepscope.analyze.ranks.waits import StepRun, Waits, runs_of_steps
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
TOLERANCE = 0.02
"""How far the replay of the unchanged steps may lie from the recorded ones."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change and the mean time of steps with it."""

    change: str
    """A sentence's beginning, such as ``rank 3 like the median rank``."""
    rank: int
    """The rank that is changed, -1 for a change to all."""
    recorded_ns: float
    """Mean step as recorded."""
    predicted_ns: float

    @property
    def gain_ns(self) -> float:
        """The gain per step; never below zero by more than the replay's error."""
        return self.recorded_ns - self.predicted_ns


@dataclass(frozen=True, slots=True)
class JobReplay:
    """A replay of the steps, and the effects of changes."""

    recorded_ns: float
    replayed_ns: float
    changes: tuple[WhatIf, ...]
    """Largest gain first; empty if the replay was refused."""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class _Chain:
    """Steps of all ranks that follow each other: own work before each collective, transfers, and the end.

    ``own[c, r]`` is the work of rank ``r`` from its previous collective's end to this one's start, also where
    that was in the step before; it is below zero if collectives overlap. ``transfer[c, r]`` is from the
    last arrival to the rank's end. ``tail[r]`` is the time after the last collective. ``recorded_ns`` is of
    all steps together. ``numbers[c]`` is the step of each collective.
    """

    begin: Floats
    own: Floats
    transfer: Floats
    present: npt.NDArray[np.bool_]
    tail: Floats
    recorded_ns: float
    steps: tuple[int, ...]
    numbers: Ints
    rows: Ints

    def typical(self) -> tuple[Floats, float]:
        """Return the median rank's own work: before each collective, of those that took part; at the end."""
        if self.present.all():
            return np.median(self.own, axis=1), float(np.median(self.tail))
        own = np.where(self.present, self.own, np.nan)
        return np.nanmedian(own, axis=1), float(np.median(self.tail))

    def without(self, rank: int) -> _Chain:
        """Return the steps of all ranks but one."""
        others = np.arange(len(self.begin)) != rank
        return replace(
            self, begin=self.begin[others], own=self.own[:, others], transfer=self.transfer[:, others],
            present=self.present[:, others], tail=self.tail[others], rows=self.rows[:, others],
        )  # fmt: skip

    def play(self, own: Floats, tail: Floats) -> float:
        clock = self.begin.copy()
        for at in range(len(own)):
            here = self.present[at]
            arrival = clock[here] + own[at, here]
            clock[here] = arrival.max() + self.transfer[at, here]
        return float((clock + tail).max() - self.begin.min())


MOST_RANKS = 32
"""Number of ranks whose cost is reported: those that caused most waiting. One that nobody waits for costs
nothing, and each is a replay of all steps of all ranks.
"""


def what_if(trace: Trace, waits: Waits, clocks: Clocks, own: Mapping[int, OwnWork]) -> JobReplay:
    """Replay each step with each rank's own work replaced by the median rank's, and with every rank's.

    Also with a loader that is twice as fast and with each of the longest operators free, if the ranks' own
    work is given. Only steps that all ranks recorded count. Those that follow each other are one chain, from
    the first rank's start to the last rank's end: ranks that end a step apart begin the next one apart.

    Args:
        trace: The ranks' profiles, or of each its collectives and steps.
        waits: The waits in them.
        clocks: The ranks' clocks.
        own: Each rank's savings by itself, in rows of ``trace``.
    """
    steps, replay = _unchanged(trace, waits, clocks)
    if replay.refused is not None:
        return replay
    recorded = replay.recorded_ns
    ranks = waits.joint.ranks
    typical = [step.typical() for step in steps]
    changes = [
        WhatIf(
            f"rank {ranks[at]} like the median rank", ranks[at], recorded, _like_median(steps, typical, at)
        )
        for at in _costly(waits)
    ]
    every = _like_median(steps, typical, slice(None))
    changes.append(WhatIf("all ranks like the median rank", -1, recorded, every))
    changes += [
        WhatIf(change, -1, recorded, predicted)
        for change, predicted in _savings(steps, waits, own, len(trace))
    ]
    return replace(replay, changes=tuple(sorted(changes, key=lambda change: change.predicted_ns)))


def like_the_others(trace: Trace, waits: Waits, clocks: Clocks, rank: int) -> WhatIf | None:
    """Return how long the steps would take if one rank did its own work like the median of the others.

    None if a replay is refused, as in :func:`what_if`, and if collectives are waited for at once: the
    time before each is not a rank's own work then.
    """
    steps, replay = _unchanged(trace, waits, clocks)
    if replay.refused is not None or any((step.own < 0).any() for step in steps):
        return None
    at = waits.joint.ranks.index(rank)
    others = [step.without(at).typical() for step in steps]
    return WhatIf(f"rank {rank} like the others", rank, replay.recorded_ns, _like_median(steps, others, at))


def _unchanged(trace: Trace, waits: Waits, clocks: Clocks) -> tuple[list[_Chain], JobReplay]:
    """Return the steps, and their replay without a change, which says if it is refused."""
    runs, refused = runs_of_steps(trace, waits, clocks)
    if refused is not None:
        return [], JobReplay(0.0, 0.0, (), refused)
    steps = [_chain(trace, waits, run) for run in runs]
    recorded = _mean(steps, [step.recorded_ns for step in steps])
    replayed = _mean(steps, [step.play(step.own, step.tail) for step in steps])
    off = abs(replayed - recorded)
    if off > TOLERANCE * recorded:
        refused = f"the replay of the unchanged steps is {100 * off / recorded:.0f} % off"
    return steps, JobReplay(recorded, replayed, (), refused)


def _costly(waits: Waits) -> list[int]:
    """Return the ranks whose cost is reported, as numbers of their columns."""
    ranks = len(waits.joint.ranks)
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    caused = np.bincount(waits.last, weights=waits.wait_ns.sum(1), minlength=ranks)
    return [at for at in np.argsort(-caused, kind="stable")[:MOST_RANKS].tolist() if caused[at] > 0]


def _mean(chains: list[_Chain], times: list[float]) -> float:
    """Return the time of a step, given that of each chain of steps."""
    return sum(times) / sum(len(chain.steps) for chain in chains)


def _like_median(steps: list[_Chain], typical: list[tuple[Floats, float]], at: int | slice) -> float:
    played = []
    for step, (own, tail) in zip(steps, typical, strict=True):
        changed, last = step.own.copy(), step.tail.copy()
        changed[:, at] = own[:, None] if isinstance(at, slice) else own
        last[at] = tail
        played.append(step.play(changed, last))
    return _mean(steps, played)


def _savings(
    steps: list[_Chain], waits: Waits, own: Mapping[int, OwnWork], rows: int
) -> Iterator[tuple[str, float]]:
    """Iterate over changes to the ranks' own work, with the mean step that each gives."""
    ranks = waits.joint.ranks
    if not set(ranks) <= set(own):
        return
    for change in combined([own[rank] for rank in ranks]):
        before = np.zeros(rows + 1)  # the last is that of -1
        after: dict[tuple[int, int], float] = {}
        for at, rank in enumerate(ranks):
            part = own[rank]
            if change in part.changes:
                column = part.changes.index(change)
                before[part.row] = part.before_ns[:, column]
                ends = zip(part.step.tolist(), part.after_ns[:, column].tolist(), strict=True)
                after |= {(at, step): saved for step, saved in ends}
        played = []
        for step in steps:
            saved, last = before[step.rows], np.zeros(len(ranks))
            for number in step.steps:
                ended = np.array([after.get((at, number), 0.0) for at in range(len(ranks))])
                later = np.flatnonzero(step.numbers > number)
                if len(later):  # the end of a step delays what comes next
                    saved[later[0]] += ended
                else:
                    last += ended
            saved = np.clip(saved, 0.0, np.maximum(step.own, 0.0))
            played.append(step.play(step.own - saved, np.maximum(step.tail - last, 0.0)))
        yield change, _mean(steps, played)


def _chain(trace: Trace, waits: Waits, steps: StepRun) -> _Chain:
    joint = waits.joint
    row, first, last = joint.row, steps.begin_ns.astype(np.float64), steps.end_ns.astype(np.float64)
    of_step = np.where(row >= 0, trace.step[row], -1).max(1)
    inside = np.isin(of_step, steps.numbers)
    rows, arrival = row[inside], waits.arrival_ns[inside].astype(np.float64)
    present, transfer = rows >= 0, waits.transfer_ns[inside].astype(np.float64)
    length = np.where(present, trace.duration_ns[rows], 0)
    latest = np.where(present, arrival, -np.inf).max(1)
    order = np.argsort(latest, kind="stable")
    arrival, present, transfer = arrival[order], present[order], transfer[order]
    leaves = arrival + length[order]
    # A rank that is already in the collective when the last one comes leaves with it; the last one's length
    # is its transfer.
    transfer = np.where(present, leaves - latest[order][:, None], 0.0)
    own, clock = np.zeros_like(arrival), first.copy()
    for at in range(len(arrival)):
        here = present[at]
        own[at, here] = arrival[at, here] - clock[here]
        clock[here] = leaves[at, here]
    tail = np.maximum(last - clock, 0.0)
    recorded = float(np.maximum(last, clock).max() - first.min())
    return _Chain(
        first, own, transfer, present, tail, recorded, steps.numbers, of_step[inside][order], rows[order]
    )  # fmt: skip
