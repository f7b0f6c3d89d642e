"""The time of a step if a rank, a stage or the waits were other: the ranks' collectives replayed.

Between two collectives a rank works by itself; a collective ends for all its ranks when the last has come and
the transfer is done. So a step is a chain of own work and transfers, and is played again from them: with
nothing changed it must give the recorded step, else nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.waits import Waits
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
TOLERANCE = 0.02
"""How far the replay of the unchanged steps may lie from the recorded ones."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change and what the steps would take on average with it."""

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
    """A replay of the steps, and what changes would do."""

    recorded_ns: float
    replayed_ns: float
    changes: tuple[WhatIf, ...]
    """Largest gain first; empty where the replay was refused."""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of all ranks: own work before each collective and after the last, and its transfers.

    ``own[c, r]`` is what rank ``r`` worked from its previous collective's end to this one's start; it is
    below zero where collectives overlap. ``transfer[c, r]`` is from the last arrival to the rank's end.
    """

    begin: Floats
    own: Floats
    transfer: Floats
    present: npt.NDArray[np.bool_]
    tail: Floats
    recorded_ns: float

    def play(self, own: Floats, tail: Floats) -> float:
        clock = self.begin.copy()
        for at in range(len(own)):
            here = self.present[at]
            arrival = clock[here] + own[at, here]
            clock[here] = arrival.max() + self.transfer[at, here]
        return float((clock + tail).max() - self.begin.min())


def what_if(trace: Trace, waits: Waits, clocks: Clocks) -> JobReplay:
    """Replay each step with each rank's own work replaced by the median rank's, and with every rank's.

    Only steps that all ranks recorded count. A step lasts from the first rank's start to the last rank's end.
    """
    if clocks.refused is not None:
        return JobReplay(0.0, 0.0, (), f"the clocks cannot be aligned: {clocks.refused}")
    steps = _steps(trace, waits, clocks)
    if not steps:
        return JobReplay(0.0, 0.0, (), "no step was recorded on all ranks")
    if not waits.joint.whole.all():
        return JobReplay(0.0, 0.0, (), "not all ranks of the process groups were recorded")
    recorded = float(np.mean([step.recorded_ns for step in steps]))
    replayed = _mean(steps, lambda values: values)
    if abs(replayed - recorded) > TOLERANCE * recorded:
        off = 100 * abs(replayed - recorded) / recorded
        return JobReplay(recorded, replayed, (), f"the replay of the unchanged steps is {off:.0f} % off")
    ranks = waits.joint.ranks
    changes = [
        WhatIf(f"rank {rank} like the median rank", rank, recorded, _mean(steps, _replaced(at)))
        for at, rank in enumerate(ranks)
    ]
    changes.append(
        WhatIf("all ranks like the median rank", -1, recorded, _mean(steps, _replaced(slice(None))))
    )
    return JobReplay(recorded, replayed, tuple(sorted(changes, key=lambda change: change.predicted_ns)))


def _replaced(at: int | slice) -> Callable[[Floats], Floats]:
    def change(values: Floats) -> Floats:
        """Give a rank the median of all that took part; NaN marks those that did not."""
        typical = np.nanmedian(values, axis=-1)
        changed = values.copy()
        changed[..., at] = typical if isinstance(at, int) else typical[..., None]
        return np.where(np.isnan(values), values, changed)

    return change


def _mean(steps: list[_Step], change: Callable[[Floats], Floats]) -> float:
    played = []
    for step in steps:
        own = change(np.where(step.present, step.own, np.nan))
        played.append(step.play(np.nan_to_num(own), change(step.tail)))
    return float(np.mean(played))


def _steps(trace: Trace, waits: Waits, clocks: Clocks) -> list[_Step]:
    joint, table = waits.joint, trace.steps
    begin = clocks.aligned(table.start_ns, table.rank)
    end = clocks.aligned(table.end_ns, table.rank)
    at = {rank: number for number, rank in enumerate(joint.ranks)}
    found = []
    for number in np.unique(table.number).tolist():
        mine = np.flatnonzero((table.number == number) & np.isin(table.rank, joint.ranks))
        if {int(rank) for rank in table.rank[mine]} != set(joint.ranks) or len(mine) != len(joint.ranks):
            continue
        order = np.argsort([at[int(rank)] for rank in table.rank[mine]])
        first, last = begin[mine][order].astype(np.float64), end[mine][order].astype(np.float64)
        found.append(_step(trace, waits, number, first, last))
    return found


def _step(trace: Trace, waits: Waits, number: int, first: Floats, last: Floats) -> _Step:
    joint = waits.joint
    row = joint.row
    inside = np.where(row >= 0, trace.step[row] == number, False).any(1)
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
    return _Step(first, own, transfer, present, tail, recorded)
