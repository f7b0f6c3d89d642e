"""The ranks that a hanging job waits for, from the flight-recorder dumps of its ranks.

A collective ends when the last rank of its group has arrived. So a rank waits for another if it has
enqueued a collective that the other has not, or whose device has not come as far. These waits are a graph
over ranks; the ranks at which all its paths end wait for nobody, so the job waits for them. A path that
does not end is a circle: ranks that wait for each other, as collectives called in different orders make them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from stepscope.errors import EmptyTraceError
from stepscope.trace.communication import PAIRWISE
from stepscope.trace.model import Trace
from stepscope.trace.tables import CollectiveState

_SAME_SIZE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Operations whose message has one size on all ranks; of others a difference means nothing."""
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BlockedRank:
    """One rank cannot go on before others have come as far."""

    rank: int
    group: str
    """Name of the process group, with its description if there is one."""
    operation: str
    sequence: int
    """Sequence number of the collective in its group; -1 for a send or receive."""
    blockers: tuple[int, ...]
    """Ranks that have not joined, or whose device has not come as far; ascending."""
    absent: tuple[int, ...]
    """Those of the blockers that have not even enqueued the collective."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Ranks of a group called different collectives under one sequence number."""

    group: str
    sequence: int
    calls: dict[str, tuple[int, ...]]
    """The call, as operation with type and number of elements, and the ranks that made it."""
    odd: tuple[int, ...]
    """The ranks that differ from the majority; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that others wait for, while it waits for nobody."""

    rank: int
    reason: str
    """One of ``left no dump, did not join, device stopped, called another collective, deadlock``."""
    confidence: float
    """0 to 1; ``find_hang`` says how it is made."""
    evidence: tuple[str, ...]
    """The chain in sentences, the nearest wait first."""


@dataclass(frozen=True, slots=True)
class Hang:
    """The reason why a job does not continue, as far as its dumps show it."""

    ranks: tuple[int, ...]
    """Ranks whose dump was read."""
    missing: tuple[int, ...]
    """Ranks that the process groups name and that left no dump."""
    waits: tuple[BlockedRank, ...]
    mismatches: tuple[Mismatch, ...]
    suspects: tuple[Suspect, ...]
    """Most certain first. Empty if nothing waits, or if the dumps cannot tell."""
    notes: tuple[str, ...] = ()


@dataclass
class _Member:
    """The progress of one rank in one group, by its enqueued and ended collectives."""

    enqueued: int = _UNKNOWN
    completed: int = _UNKNOWN
    pending: dict[int, str] = field(default_factory=dict)
    created_ns: dict[int, int] = field(default_factory=dict)
    calls: dict[int, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Sequence number of the first collective that has not ended, -1 if all have."""
        if self.pending:
            return min(self.pending)
        return self.completed + 1 if 0 <= self.completed < self.enqueued else _UNKNOWN


@dataclass(frozen=True, slots=True)
class _Pair:
    """The oldest send or receive of a rank that has not ended."""

    group: str
    name: str
    peer: int
    created_ns: int


@dataclass
class _Groups:
    members: dict[str, tuple[int, ...]]
    labels: dict[str, str]
    progress: dict[str, dict[int, _Member]]
    pairs: dict[int, list[_Pair]]
    oldest_ns: dict[int, int]
    """When a rank enqueued its oldest collective that has not ended."""
    taken_ns: dict[int, int] = field(default_factory=dict)
    """When a rank's dump was taken, in the trace's time, if that is known."""
    silent: frozenset[int] = frozenset()
    """Ranks that run, of whose calls nothing is known."""
    outrun: set[tuple[int, int]] = field(default_factory=set)
    """Ranks that made the call in which they wait after the dump of another was taken: it and they."""


def find_hang(trace: Trace, taken_ns: Mapping[int, int] | None = None, silent: Collection[int] = ()) -> Hang:
    """Find the ranks that a hanging job waits for.

    If the time of each dump is known, a dump says nothing about calls that others made later: its rank may
    have made them since.

    The confidence of a suspect is ``1 - 0.5 ** n`` for the ``n`` ranks that wait for it directly, and half of
    that if the suspect itself has work that has not ended and that nobody is known to hold up. It is divided
    by the number of odd ranks if ranks called different collectives and no majority says which were wrong.

    Args:
        trace: Flight-recorder dumps of the ranks of one job, as a directory of them is read.
        taken_ns: When each rank's dump was taken, as Unix time, if that is known.
        silent: Ranks that are known to run though they left no dump that can be read. They may have made any
            call, so nobody is said to wait for them.

    Raises:
        EmptyTraceError: The trace holds no flight-recorder dump.
    """
    if not any(source.format == "flight_recorder" for source in trace.sources):
        raise EmptyTraceError(
            "cannot tell which rank hangs: expected flight-recorder dumps, found none",
            hint="set TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 in the job; "
            "pass the folder with the dumps of all ranks",
            path=trace.sources[0].path if trace.sources else None,
        )
    groups = _read(trace)
    if trace.clock == "unix":
        groups.taken_ns = {rank: taken - trace.origin_ns for rank, taken in (taken_ns or {}).items()}
    ranks = trace.ranks
    groups.silent = frozenset(silent).difference(ranks)
    named = {rank for members in groups.members.values() for rank in members}
    missing = tuple(sorted(named - set(ranks) - groups.silent))
    mismatches = _mismatches(groups)
    waits = _waits(groups, ranks, missing)
    suspects = _suspects(groups, waits, mismatches, missing)
    notes = []
    for rank in sorted({rank for rank, _ in groups.outrun}):
        later = [waiting for outrun, waiting in groups.outrun if outrun == rank]
        notes.append(
            f"rank {rank} was recorded before {listed(later)} made the call that waits: take the dumps again"
        )
    if groups.silent:
        notes.insert(
            0,
            f"nothing is known of the calls of {listed(groups.silent)}: the flight recorder is off there, "
            "its dump cannot be read, or it ended a step after others were recorded; set "
            "TORCH_FR_BUFFER_SIZE in all ranks, or look again",
        )
    elif not waits and not mismatches and not groups.outrun:
        notes.insert(
            0,
            "no rank waits for another: the dumps were not taken in a hang, or all ranks stopped at the "
            "same place",
        )
    elif not suspects:
        notes.insert(0, "ranks wait, but the dumps do not say for whom")
    return Hang(ranks, missing, waits, mismatches, suspects, tuple(notes))


def sentence(hang: Hang) -> str:
    """Return in one sentence which ranks the job waits for, or why that is unknown."""
    if not hang.suspects:
        return hang.notes[0]
    by_reason: dict[str, list[int]] = {}
    for suspect in hang.suspects:
        by_reason.setdefault(suspect.reason, []).append(suspect.rank)
    waiting = {wait.rank for wait in hang.waits} - {suspect.rank for suspect in hang.suspects}
    causes = "; ".join(f"{listed(ranks)}: {reason}" for reason, ranks in by_reason.items())
    verb = "waits" if len(waiting) == 1 else "wait"
    return f"the job waits for {causes}" + (f" ({listed(waiting)} {verb})" if waiting else "")


def _read(trace: Trace) -> _Groups:
    groups = _Groups({}, {}, defaultdict(lambda: defaultdict(_Member)), defaultdict(list), {})
    for group in trace.process_groups:
        known = groups.members.get(group.name, ())
        groups.members[group.name] = tuple(sorted({*known, *group.ranks}))
        groups.labels[group.name] = f"{group.name} {group.description}".strip()
    pairwise = _calls(trace, groups)
    for source in trace.sources:
        for name, status in (source.facts.get("group_status") or {}).items():
            if name in pairwise or not isinstance(status, dict):
                continue  # in such a group a rank numbers its own sends and receives
            member = groups.progress[name][source.rank]
            member.enqueued = max(member.enqueued, _whole(status.get("last_enqueued_collective")))
            member.completed = max(member.completed, _whole(status.get("last_completed_collective")))
    return groups


def _whole(value: object) -> int:
    """Return a number of a dump, which may come from anybody."""
    return value if isinstance(value, int) and not isinstance(value, bool) else _UNKNOWN


def _calls(trace: Trace, groups: _Groups) -> set[str]:
    """Enter each rank's dump; return the groups in which ranks send and receive."""
    table, pairwise = trace.collectives, set()
    created = table.created_ns.tolist()
    for at, row in enumerate(table.row.tolist()):
        rank, group = int(trace.rank[row]), str(trace.strings[int(table.group[at])])
        operation = str(trace.strings[int(table.operation[at])])
        ended = int(table.state[at]) == CollectiveState.COMPLETED
        if not ended:
            groups.oldest_ns[rank] = min(groups.oldest_ns.get(rank, created[at]), created[at])
        if operation in PAIRWISE:
            pairwise.add(group)
            peer, members = int(table.peer[at]), groups.members.get(group, ())
            if not ended and 0 <= peer < len(members):  # peers are numbered within their group
                pair = _Pair(group, trace.name_of(row), members[peer], created[at])
                groups.pairs[rank].append(pair)
            continue
        sequence, member = int(table.sequence[at]), groups.progress[group][rank]
        member.created_ns[sequence] = created[at]
        member.enqueued = max(member.enqueued, sequence)
        dtype = int(table.dtype[at])
        member.calls[sequence] = (
            operation,
            str(trace.strings[dtype]) if dtype >= 0 else "",
            int(table.in_elements[at]),
        )
        if ended:
            member.completed = max(member.completed, sequence)
        else:
            member.pending[sequence] = operation
    return pairwise


def _waits(groups: _Groups, ranks: Iterable[int], missing: tuple[int, ...]) -> tuple[BlockedRank, ...]:
    blocked: list[BlockedRank] = []
    for name, progress in sorted(groups.progress.items()):
        for rank, member in sorted(progress.items()):
            first = member.first
            if first < 0:
                continue
            called = member.created_ns.get(first, _UNKNOWN)
            members = groups.members.get(name, ())
            others = [other for other in members if other != rank and other not in groups.silent]
            outrun = [other for other in others if groups.taken_ns.get(other, called) < called]
            groups.outrun |= {(other, rank) for other in outrun if _short_of(progress[other], first)}
            others = [other for other in others if other not in outrun]
            absent = tuple(
                other for other in others if other in missing or progress[other].enqueued < first
            )  # one that is in the group and whose dump says nothing of it has not called it either
            behind = tuple(
                other for other in others if other not in absent and _behind(progress[other], first)
            )
            if absent or behind:
                operation = member.calls.get(first, ("a collective", "", -1))[0]
                label = groups.labels.get(name, name)
                blocked.append(
                    BlockedRank(rank, label, operation, first, tuple(sorted((*absent, *behind))), absent)
                )
    held = {wait.rank for wait in blocked}
    for rank in ranks:
        if rank not in held and groups.pairs.get(rank):
            pair = min(groups.pairs[rank], key=lambda pair: pair.created_ns)
            known = pair.peer not in groups.silent
            if known and pair.created_ns <= groups.oldest_ns[rank]:  # else what came before it holds it up
                label = groups.labels.get(pair.group, pair.group)
                blocked.append(BlockedRank(rank, label, pair.name, _UNKNOWN, (pair.peer,), ()))
    return tuple(blocked)


def _short_of(member: _Member, first: int) -> bool:
    """Return whether a rank had not called a collective, or not ended all that comes before it."""
    return member.enqueued < first or _behind(member, first)


def _behind(member: _Member, first: int) -> bool:
    """Return whether a rank's device has not ended all earlier work, or work that a peer has ended."""
    return 0 <= member.first < first


def _mismatches(groups: _Groups) -> tuple[Mismatch, ...]:
    mismatches = []
    for name, progress in sorted(groups.progress.items()):
        sequences = Counter(sequence for member in progress.values() for sequence in member.calls)
        for sequence in sorted(number for number, count in sequences.items() if count > 1):
            calls: dict[str, list[int]] = defaultdict(list)
            for rank, member in sorted(progress.items()):
                if sequence in member.calls:
                    calls[_described(*member.calls[sequence])].append(rank)
            if len(calls) > 1:
                sizes = sorted((len(members) for members in calls.values()), reverse=True)
                most = max(calls.values(), key=len)
                odd = [rank for members in calls.values() if members is not most for rank in members]
                label = groups.labels.get(name, name)
                members_of = {call: tuple(members) for call, members in calls.items()}
                mismatches.append(
                    Mismatch(label, sequence, members_of, tuple(sorted(odd)) if sizes[0] > sizes[1] else ())
                )
                break  # what follows a first difference differs because of it
    return tuple(mismatches)


def _described(operation: str, dtype: str, elements: int) -> str:
    if operation in _SAME_SIZE and elements >= 0:
        return f"{operation} of {elements:,} {dtype}".strip()
    return operation


def _suspects(
    groups: _Groups,
    waits: tuple[BlockedRank, ...],
    mismatches: tuple[Mismatch, ...],
    missing: tuple[int, ...],
) -> tuple[Suspect, ...]:
    edges: dict[int, set[int]] = defaultdict(set)
    by_blocker: dict[int, list[BlockedRank]] = defaultdict(list)
    for wait in waits:
        edges[wait.rank].update(wait.blockers)
        for blocker in wait.blockers:
            by_blocker[blocker].append(wait)
    suspects = [_odd(mismatch, rank) for mismatch in mismatches for rank in _accused(mismatch)]
    accused = {suspect.rank for suspect in suspects}
    reach = {rank: _reachable(rank, edges) for rank in {*edges, *by_blocker}}
    ends = [rank for rank in sorted(by_blocker) if not edges.get(rank) and rank not in accused]
    suspects += [_end(rank, by_blocker[rank], groups, missing) for rank in ends]
    circles = {
        rank
        for rank in reach
        if rank in reach[rank] and not any(end in reach[rank] for end in (*ends, *accused))
    }
    suspects += [_in_circle(rank, edges, by_blocker, circles) for rank in sorted(circles - accused)]
    return tuple(sorted(suspects, key=lambda suspect: (-suspect.confidence, suspect.rank)))


def _accused(mismatch: Mismatch) -> tuple[int, ...]:
    return mismatch.odd or tuple(sorted(rank for ranks in mismatch.calls.values() for rank in ranks))


def _odd(mismatch: Mismatch, rank: int) -> Suspect:
    calls = "; ".join(f"{listed(ranks)} called {call}" for call, ranks in mismatch.calls.items())
    sure = 0.95 if mismatch.odd else 1 / len(_accused(mismatch))
    sentence = f"in group {mismatch.group}, collective {mismatch.sequence}: {calls}"
    return Suspect(rank, "called another collective", round(sure, 3), (sentence,))


def _end(rank: int, waits: list[BlockedRank], groups: _Groups, missing: tuple[int, ...]) -> Suspect:
    progress = groups.progress.values()
    own = any(rank in members and members[rank].first >= 0 for members in progress)
    behind = [wait for wait in waits if _stands_at(rank, wait, groups) >= 0]
    absent = [wait for wait in waits if rank in wait.absent and wait not in behind]
    sure = 1 - 0.5 ** len({wait.rank for wait in waits})
    if rank in missing:
        reason = "left no dump"
    elif behind:
        reason = "device stopped"
    elif absent or not own:
        reason = "did not join"
    else:  # it has come as far as the others in every collective; only sends and receives point at it
        reason, sure = "device stopped", sure / 2
    evidence = [_sentence(rank, wait, groups) for wait in (*behind, *absent)]
    evidence += [_sentence(rank, wait, groups) for wait in waits if wait.sequence < 0]
    if not own and rank not in missing:
        evidence.append(f"rank {rank} itself has nothing in flight: its host stopped before the next call")
    return Suspect(rank, reason, round(min(sure, 0.99), 3), tuple(dict.fromkeys(evidence)))


def _stands_at(rank: int, wait: BlockedRank, groups: _Groups) -> int:
    """Return the collective that a blocker's device has not ended though its peer has, or -1."""
    if wait.sequence < 0:
        return _UNKNOWN
    name = next((name for name, label in groups.labels.items() if label == wait.group), wait.group)
    member = groups.progress[name].get(rank)
    return member.first if member is not None and _behind(member, wait.sequence) else _UNKNOWN


def _sentence(rank: int, wait: BlockedRank, groups: _Groups) -> str:
    if wait.sequence < 0:
        return f"rank {wait.rank} waits for rank {rank} in {wait.operation} of group {wait.group}"
    where, stands = f"{wait.operation} {wait.sequence} of group {wait.group}", _stands_at(rank, wait, groups)
    if stands >= 0:
        return f"rank {wait.rank} has reached {where}; the device of rank {rank} is still at {stands}"
    return f"rank {wait.rank} waits in {where}, which rank {rank} has not called"


def _in_circle(
    rank: int, edges: dict[int, set[int]], by_blocker: dict[int, list[BlockedRank]], circles: set[int]
) -> Suspect:
    others = sorted((edges[rank] & circles) - {rank})
    held = sorted({wait.rank for wait in by_blocker[rank]} & circles - {rank})
    sentence = f"rank {rank} waits for {listed(others)}, while {listed(held)} waits for rank {rank}"
    return Suspect(rank, "deadlock", round(1 / max(len(circles), 1), 3), (sentence,))


def _reachable(start: int, edges: dict[int, set[int]]) -> set[int]:
    seen: set[int] = set()
    open_ranks = list(edges.get(start, ()))
    while open_ranks:
        rank = open_ranks.pop()
        if rank not in seen:
            seen.add(rank)
            open_ranks += edges.get(rank, ())
    return seen


def listed(ranks: Iterable[int]) -> str:
    """Name ranks in a sentence: ``rank 3``, ``ranks 0 to 7 and 12``."""
    numbers = sorted(ranks)
    runs: list[list[int]] = []
    for rank in numbers:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    *most, last = ", ".join(parts).split(", ")
    text = f"{', '.join(most)} and {last}" if most else last
    return f"rank{'s' * (len(numbers) != 1)} {text}"
