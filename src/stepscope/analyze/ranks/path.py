"""The critical path across ranks: the chain of work and transfers, on any rank, that makes up a step.

It is traced backwards from the rank that ended a step last: its work since it left its last collective, that
collective's transfer, and then the work of the last rank to arrive there since its previous collective, and
so on. Consecutive steps are one path, because a rank's work at the end of a step delays it in the next. So
its pieces fill the steps exactly, and no waiting is on it: the step does not wait for a waiting rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.blame import UNKNOWN, Doing, Doings, OwnStretches, whole
from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.waits import StepRun, Waits, runs_of_steps
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]
TRANSFER, LATER = "transfer", "began later"


@dataclass(frozen=True, slots=True)
class RankPiece:
    """All pieces of the path of one rank that are of one kind."""

    rank: int
    cause: str
    """As in blame; also ``transfer`` of a collective, and ``began later`` than the first rank."""
    name: str
    line: str
    scope: str
    time_ns: int
    """Over all steps."""
    share: float


@dataclass(frozen=True, slots=True)
class RanksPath:
    """The critical path of all ranks' steps."""

    steps: int
    total_ns: int
    """From the first rank's beginning to the last one's end, over all steps; the pieces sum to it."""
    pieces: tuple[RankPiece, ...]
    """Longest first."""
    ranks: Mapping[int, int]
    """Time on the path by rank, transfers left out; longest first."""
    switches: int
    """How often the path changes from one rank to another."""
    refused: str | None = None
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A stretch of one rank's own time that is on the path."""

    rank: int
    start_ns: int
    end_ns: int
    row: int


class Walks:
    """The paths back through the steps that all ranks recorded.

    Args:
        trace: The ranks' profiles, or of each its collectives and steps.
        waits: The waits in them.
        clocks: The ranks' clocks.

    Attributes:
        stretches: By rank, its own time that is on the path and is to be explained.
        refused: Why there is no path.
    """

    def __init__(self, trace: Trace, waits: Waits, clocks: Clocks) -> None:
        runs, self.refused = runs_of_steps(trace, waits, clocks)
        self._walks = [_Walk(trace, waits, run) for run in runs]
        self._works = [work for walk in self._walks for work in walk.works]
        self.stretches = _asked(trace, self._works, clocks)

    def path(self, doings: Doings) -> RanksPath:
        """Return the path, given the ranks' work in their stretches of it."""
        if self.refused is not None:
            return RanksPath(0, 0, (), {}, 0, self.refused)
        pieces: dict[tuple[int, str, str, str, str], float] = defaultdict(float)
        ranks: dict[int, int] = defaultdict(int)
        for number, work in enumerate(self._works):
            length = work.end_ns - work.start_ns
            ranks[work.rank] += length
            for part in doings.get(number) or [Doing(UNKNOWN)]:
                pieces[work.rank, part.cause, part.name, part.line, part.scope] += length * part.share
        for walk in self._walks:
            for (rank, cause, name), ns in walk.others.items():
                pieces[rank, cause, name, "", ""] += ns
        total = sum(walk.length_ns for walk in self._walks)
        joined = [
            RankPiece(*key, time_ns, exact / total)
            for (key, exact), time_ns in zip(pieces.items(), whole(pieces.values()), strict=True)
            if exact > 0
        ]
        return RanksPath(
            sum(walk.steps for walk in self._walks),
            total,
            tuple(sorted(joined, key=lambda piece: (-piece.time_ns, piece.rank, piece.cause))),
            dict(sorted(ranks.items(), key=lambda item: -item[1])),
            sum(walk.switches for walk in self._walks),
        )


class _Walk:
    """The way back through steps that follow each other."""

    def __init__(self, trace: Trace, waits: Waits, steps: StepRun) -> None:
        row, first, last = waits.joint.row, steps.begin_ns, steps.end_ns
        self.steps = len(steps.numbers)
        inside = np.flatnonzero(np.where(row >= 0, np.isin(trace.step[row], steps.numbers), False).any(1))
        self._present = row[inside] >= 0
        self._rows, self._last = row[inside], waits.last[inside]
        length = np.where(self._present, trace.duration_ns[self._rows], 0)
        nowhere = np.iinfo(np.int64).min
        self._arrival = np.where(self._present, waits.arrival_ns[inside], nowhere)
        self._leaves = np.where(self._present, waits.arrival_ns[inside] + length, nowhere)
        self._names = [waits.joint.operation[at] for at in inside.tolist()]
        self._ranks = waits.joint.ranks
        self._gone = np.zeros(len(inside), bool)
        self._orders: dict[int, list[int]] = {}
        """By column, the collectives that may come before, the latest at the end."""
        self.works: list[_Work] = []
        self.others: dict[tuple[int, str, str], int] = defaultdict(int)
        self.switches = 0
        ends = np.maximum(last, self._leaves.max(axis=0, initial=nowhere))
        start, end = int(first.min()), int(ends.max())
        self.length_ns = end - start
        self._back(int(ends.argmax()), end, first, start)

    def _back(self, at: int, time: int, first: Ints, start: int) -> None:
        """Go back from a rank's column and a time to the beginning of the first step."""
        after = -1
        while time > start:
            number = self._before(at, time)
            if number < 0:
                break
            self._gone[number] = True
            leaves = max(int(self._leaves[number, at]), start)
            row = int(self._rows[number, at])
            self._worked(at, leaves, time, after if after >= 0 else row)
            came, before = int(self._last[number]), at
            begun = max(int(self._arrival[number].max()), start)
            self._spent(at, TRANSFER, self._names[number], min(leaves, time) - min(begun, leaves))
            # A rank whose clock has it leave before the last one came is followed from its own end.
            at, time = came, min(begun, leaves)
            after = int(self._rows[number, at])
            self.switches += at != before
        if time > start:
            begins = min(max(int(first[at]), start), time)
            self._worked(at, begins, time, after)
            self._spent(at, LATER, "", begins - start)

    def _before(self, at: int, time: int) -> int:
        """Return the collective that a rank left last up to a time and came to before it; -1 without one."""
        order = self._orders.get(at)
        if order is None:
            there = np.flatnonzero(self._present[:, at])
            # Of those left at once the first one is the last here.
            order = self._orders[at] = there[np.lexsort((-there, self._leaves[there, at]))].tolist()
        while order:
            number = order[-1]
            left = self._leaves[number, at] <= time and self._arrival[number, at] < time
            if left and not self._gone[number]:
                return int(number)
            order.pop()  # the way only goes back: what is later than now is later than all that follows
        return -1

    def _worked(self, at: int, start: int, end: int, row: int) -> None:
        if end > start:
            self.works.append(_Work(self._ranks[at], start, end, row))

    def _spent(self, at: int, cause: str, name: str, ns: int) -> None:
        if ns > 0:
            self.others[self._ranks[at], cause, name] += ns


def _asked(trace: Trace, works: list[_Work], clocks: Clocks) -> dict[int, OwnStretches]:
    """Return the stretches of each rank, on its own clock; without those of steps without collectives."""
    by_rank = {}
    for rank in sorted({work.rank for work in works}):
        mine = [number for number, work in enumerate(works) if work.rank == rank and work.row >= 0]
        rows = np.array([works[number].row for number in mine], np.int64)
        start, end = (
            clocks.recorded(np.array(times, np.int64), rank) - trace.start_ns[rows]
            for times in (
                [works[number].start_ns for number in mine],
                [works[number].end_ns for number in mine],
            )
        )
        by_rank[rank] = OwnStretches(np.array(mine, np.int64), start, end, rows)
    return by_rank
