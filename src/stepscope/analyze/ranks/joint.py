"""Matching of collectives between ranks, as a matrix of ranks and collectives.

If a recording has sequence numbers, they decide. If not, the n-th collective of an operation in a group is
the n-th on every rank, within the steps that all ranks recorded. That holds only if ranks recorded equally
many in each step, so ranks whose counts differ from most are left out and reported, or all if there is no
majority.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.operators import FOLLOWED_STEP
from stepscope.analyze.ranks.hangs import listed
from stepscope.attribute.named import named
from stepscope.errors import EmptyTraceError
from stepscope.trace.communication import PAIRWISE
from stepscope.trace.model import Trace

Ints = npt.NDArray[np.int64]
SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that no rank can leave before the last has arrived. A broadcast's root may leave early."""


@dataclass(frozen=True, slots=True)
class Joint:
    """Collectives in which at least two of the recorded ranks took part, ordered by their start.

    Attributes:
        ranks: Recorded ranks, shape ``(R,)``, ascending.
        row: Row of the trace, shape ``(C, R)``; -1 if the rank took no part or was not recorded.
        operation: Name of the operation of each.
        group: Name of its process group, empty if none was recorded.
        expected: Members of the group, if that is known, else 0.
        notes: The unmatched parts, in sentences.
    """

    ranks: tuple[int, ...]
    row: Ints
    operation: tuple[str, ...]
    group: tuple[str, ...]
    expected: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.row)

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """Which collectives have all members among the recorded ranks, as far as that is known."""
        present = (self.row >= 0).sum(1)
        expected = np.array(self.expected, np.int64)
        return np.asarray(present >= np.where(expected > 0, expected, len(self.ranks)), bool)

    @property
    def synchronising(self) -> npt.NDArray[np.bool_]:
        """Which collectives no rank can leave before the last has arrived."""
        return np.isin(np.array(self.operation, str), SYNCHRONISING)


def joint_collectives(trace: Trace) -> Joint:
    """Match the collectives of all ranks of a trace.

    Sends and receives are left out: two ranks alone take part, and they need not leave together.

    Raises:
        EmptyTraceError: One rank only, no timed collective, or none that two ranks share.
    """
    ranks = trace.ranks
    if len(ranks) < 2:
        raise EmptyTraceError(
            "cannot tell which rank waits for which: expected profiles of several ranks, "
            f"found rank {ranks[0] if ranks else '-'} alone",
            hint="pass the folder that holds the profiles of all ranks, of the same steps",
            path=trace.sources[0].path if trace.sources else None,
        )
    keyed, notes = _by_key(trace)
    members = _sizes(trace)
    at = {rank: number for number, rank in enumerate(ranks)}
    rows, operations, groups, expected = [], [], [], []
    for (group, operation, _), numbers in keyed.items():
        if len(numbers) < 2:
            continue
        row = np.full(len(ranks), -1, np.int64)
        for rank, number in numbers.items():
            row[at[rank]] = number
        rows.append(row)
        operations.append(operation)
        groups.append(group)
        expected.append(members.get(group, 0))
    if not rows:
        raise EmptyTraceError(
            "cannot tell which rank waits for which: no collective was recorded on two ranks",
            hint="record the same steps on all ranks; " + (notes[0] if notes else "the profiles hold none"),
            path=trace.sources[0].path if trace.sources else None,
        )
    matrix = np.array(rows)
    starts = np.where(matrix >= 0, trace.start_ns[matrix], np.iinfo(np.int64).max).min(1)
    order = np.argsort(starts, kind="stable")
    matched = np.asarray((matrix >= 0).any(axis=0))
    if left_out := [ranks[column] for column in np.flatnonzero(~matched)]:
        notes.append(f"{listed(left_out)}: left out, as no collective matches those of the others")
        expected = [members or len(ranks) for members in expected]
    return Joint(
        tuple(ranks[column] for column in np.flatnonzero(matched)),
        matrix[order][:, matched],
        tuple(operations[number] for number in order),
        tuple(groups[number] for number in order),
        tuple(expected[number] for number in order),
        tuple(notes),
    )


def _sizes(trace: Trace) -> dict[str, int]:
    """Return how many ranks a group has, as far as its collectives or the profiles say."""
    sizes = {group.name: group.size or len(group.ranks) for group in trace.process_groups}
    table = trace.collectives
    for group, size in set(zip(table.group.tolist(), table.group_size.tolist(), strict=True)):
        if size > 0:
            name = str(trace.strings[group]) if group >= 0 else ""
            sizes[name] = max(sizes.get(name, 0), size)
    return sizes


Place = tuple[int, int]
"""A step and 1; all that lies before the first step of a recording has that step and 0."""


def _of_common_steps(
    trace: Trace, of_rank: dict[int, list[int]]
) -> tuple[dict[int, dict[Place, list[int]]], int]:
    """Return the rows of steps that all ranks recorded, by step, and how many others there were.

    Ranks that share no step with most are left out of "all": they were captured at another time.
    Ranks are not captured in the same steps if one is asked later. Time outside every step belongs to
    the one that began last on its rank. If a rank marked no step, all rows are of one.
    """
    if not all((trace.steps.rank == rank).any() for rank in of_rank):
        return {rank: {(0, 1): rows} for rank, rows in of_rank.items()}, 0
    every = {rank: _by_step(trace, rank, rows) for rank, rows in of_rank.items()}
    tally = Counter(place for places in every.values() for place in places)
    usual = {place for place, ranks in tally.items() if 2 * ranks > len(every)}
    sharing = [set(places) for places in every.values() if usual & set(places)]
    common = set.intersection(*(sharing or map(set, every.values())))
    common_rows = {
        rank: {at: rows for at, rows in places.items() if at in common} for rank, places in every.items()
    }
    left = sum(len(rows) for places in common_rows.values() for rows in places.values())
    return common_rows, sum(map(len, of_rank.values())) - left


def _by_step(trace: Trace, rank: int, rows: list[int]) -> dict[Place, list[int]]:
    steps = trace.steps
    mine = steps.rank == rank
    begun, number = steps.start_ns[mine], steps.number[mine]
    last = np.searchsorted(begun, trace.start_ns[rows], side="right") - 1
    rows_at: dict[Place, list[int]] = defaultdict(list)
    for row, at in zip(rows, last.tolist(), strict=True):
        step = int(trace.step[row])
        place = (step, 1) if step >= 0 else (int(number[at]), 1) if at >= 0 else (int(number[0]), 0)
        rows_at[place].append(row)
    return rows_at


def _by_key(trace: Trace) -> tuple[dict[tuple[str, str, int], dict[int, int]], list[str]]:
    """Group rows of timed collectives by group, operation and sequence number, or count."""
    table = trace.collectives
    timed = trace.duration_ns[table.row] > 0
    order = np.lexsort((trace.start_ns[table.row], trace.rank[table.row]))
    counted: dict[tuple[str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    keyed: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
    repeated = 0
    timed[timed] = ~_followed(trace, table.row[timed])
    for number in order[timed[order]].tolist():
        row, rank = int(table.row[number]), int(trace.rank[table.row[number]])
        operation = str(trace.strings[int(table.operation[number])])
        if operation in PAIRWISE or operation == "unknown":
            continue
        group = str(trace.strings[int(table.group[number])]) if table.group[number] >= 0 else ""
        sequence = int(table.sequence[number])
        if sequence < 0:
            counted[group, operation][rank].append(row)
        elif rank in keyed[group, operation, sequence]:
            repeated += 1
        else:
            keyed[group, operation, sequence][rank] = row
    notes = []
    if repeated:
        notes.append(
            f"{repeated} collectives have a sequence number that their rank used twice, and are left out"
        )
    for (group, operation), recorded in counted.items():
        of_rank, left_out = _of_common_steps(trace, recorded)
        where = f" in group {group}" if group else ""
        if left_out:
            notes.append(f"{operation}{where}: {left_out} in steps that not all ranks recorded are left out")
        counts = {
            rank: tuple((at, len(rows)) for at, rows in sorted(places.items()))
            for rank, places in of_rank.items()
        }
        usual, agreeing = Counter(counts.values()).most_common(1)[0]
        others = [rank for rank, count in counts.items() if count != usual]
        if others and (agreeing < 2 or agreeing <= len(others)):
            whole = {sum(rows for _, rows in count) for count in counts.values()}
            many = f"{min(whole)} to {max(whole)} a rank"
            if len(whole) == 1:
                many = f"{max(whole)} a rank in other steps"
            notes.append(f"{operation}{where}: {many} and no sequence numbers, so they cannot be matched")
            continue
        notes += _differing(f"{operation}{where}", others, counts)
        for rank, places in of_rank.items():
            rows = [row for _, own in sorted(places.items()) for row in own]
            for number, row in enumerate(rows if rank not in others else ()):
                keyed[group, operation, number][rank] = row
    return keyed, notes


def _followed(trace: Trace, rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which rows lie after a capture's steps, in those whose values it followed."""
    within = np.zeros(len(rows), bool)
    for mark in np.flatnonzero(named(trace, FOLLOWED_STEP)[trace.name]).tolist():
        rank, end_ns = trace.rank[mark], trace.end_ns[mark]
        ended = trace.steps.end_ns[trace.steps.rank == rank]
        since_ns = max(ended[ended <= trace.start_ns[mark]].tolist(), default=trace.start_ns[mark])
        start_ns = trace.start_ns[rows]
        within |= (trace.rank[rows] == rank) & (start_ns >= since_ns) & (start_ns < end_ns)
    return within


def _differing(what: str, others: list[int], counts: Mapping[int, tuple[object, ...]]) -> list[str]:
    """Return which ranks were left out because they recorded other steps, or different numbers in them."""
    answers = {
        "none of the steps of the rest": [rank for rank in others if not counts[rank]],
        "a different number than the rest": [rank for rank in others if counts[rank]],
    }
    return [
        f"{what}: {listed(ranks)} recorded {how}, and no sequence numbers: matched on the others alone"
        for how, ranks in answers.items()
        if ranks
    ]
