"""The work of the rank that came last while the others waited for it.

The waits of a collective are laid to the rank that arrived last. What kept it is read from its own profile
between the second-to-last arrival and its own: what its device computed, another collective that it stood in
(whose own last arrival takes the blame in turn), and in the time in which its device had nothing to do, what
its host did instead of launching the collective.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.waits import Waits
from stepscope.analyze.sampled import Sampled
from stepscope.analyze.spans import Spans
from stepscope.trace.model import Kind, Trace
from stepscope.trace.sampled import samples_of

Ints = npt.NDArray[np.int64]
_COMPUTES = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
_COMMUNICATES = (Kind.COLLECTIVE, Kind.SEND_RECV)
_HOST = {
    Kind.DATA_LOADING: "data loading",
    Kind.OVERHEAD: "the profiler",
    Kind.SYNC: "waiting for its device",
    Kind.RUNTIME_CALL: "launching",
    Kind.HOST_OP: "host operators",
    Kind.PYTHON_FRAME: "Python",
    Kind.MODULE_SCOPE: "Python",
    Kind.ANNOTATION: "host code",
    Kind.STEP: "host code",
    Kind.OTHER: "host code",
}
_SYNCS = ("Synchronize", "_local_scalar_dense", "::item")
_DEEPEST_CHAIN = 8
UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Blame:
    """Waiting of others that one rank caused in one way."""

    rank: int
    wait_caused_ns: int
    """Waiting of all other ranks together: multiplied by the price of a rank's second it is what it cost."""
    share: float
    """Of all waiting."""
    cause: str
    """Such as ``computing``, ``data loading``, ``Python``; ``not recorded`` where its profile is silent."""
    name: str
    """The kernel, operator or function that took most of that time, empty where none is known."""
    line: str
    """``file:line function`` where stacks were recorded, else empty."""


def blame(trace: Trace, waits: Waits) -> tuple[Blame, ...]:
    """Lay all waiting to ranks and causes; the parts sum to the total. The largest comes first."""
    sums: dict[tuple[int, str], float] = defaultdict(float)
    names: dict[tuple[int, str], dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    causes = _Causes(trace, waits)
    for number in range(len(waits.joint)):
        caused = float(waits.wait_ns[number].sum())
        if caused <= 0:
            continue
        for rank, cause, name, line, share in causes.of(number):
            sums[rank, cause] += caused * share
            names[rank, cause][name, line] += caused * share
    total = waits.total_ns
    found = []
    laid, given = 0.0, 0
    for (rank, cause), caused in sums.items():
        of = names[rank, cause]
        name, line = max(of, key=of.__getitem__)
        laid += caused
        whole = round(laid) - given  # rounded so that the parts sum to the total
        given += whole
        found.append(Blame(rank, whole, caused / total, cause, name, line))
    return tuple(sorted(found, key=lambda row: (-row.wait_caused_ns, row.rank, row.cause)))


class _Causes:
    def __init__(self, trace: Trace, waits: Waits) -> None:
        self.trace, self.waits = trace, waits
        self._rows_of = {rank: np.flatnonzero(trace.rank == rank) for rank in waits.joint.ranks}
        self._number_of = {
            int(row): number
            for number, rows in enumerate(waits.joint.row.tolist())
            for row in rows
            if row >= 0
        }
        self._samples: dict[int, Sampled | None] = {}

    def of(self, number: int, depth: int = 0) -> list[tuple[int, str, str, str, float]]:
        """Return rank, cause, name, line and share of what kept the last rank of a collective."""
        waits, trace = self.waits, self.trace
        at = int(waits.last[number])
        rank, row = waits.joint.ranks[at], int(waits.joint.row[number, at])
        end = int(trace.start_ns[row])  # the rank's own clock from here on
        start = end - int(waits.margin_ns[number])
        if start >= end:
            return [(rank, UNKNOWN, "", "", 1.0)]
        rows = self._rows_of[rank]
        near = rows[(trace.start_ns[rows] < end) & (trace.end_ns[rows] > start)]
        near = near[near != row]
        length = end - start
        found: list[tuple[int, str, str, str, float]] = []
        computing = near[np.isin(trace.kind[near], _COMPUTES) & (trace.device[near] == trace.device[row])]
        busy = self._spans(computing, start, end)
        if trace.device[row] < 0:
            computing, busy = computing[:0], Spans.empty()
        if busy.measure_ns:
            name, _ = self._longest(computing, start, end)
            found.append(
                (rank, "computing", name, self._line(computing, start, end), busy.measure_ns / length)
            )
        standing = near[np.isin(trace.kind[near], _COMMUNICATES)]
        standing = np.array(
            [other for other in standing.tolist() if self._number_of.get(other, number) != number]
        )
        in_others = self._spans(standing.astype(np.int64), start, end).minus(busy)
        if in_others.measure_ns and depth < _DEEPEST_CHAIN:
            _, other = self._longest(standing.astype(np.int64), start, end)
            share = in_others.measure_ns / length
            found += [(*part[:4], part[4] * share) for part in self.of(self._number_of[other], depth + 1)]
        else:
            in_others = Spans.empty()
        idle = busy.union(in_others).gaps(start, end)
        if idle.measure_ns:
            found += self._host(rank, row, near, idle, length)
        return found

    def _host(
        self, rank: int, row: int, near: Ints, idle: Spans, length: int
    ) -> list[tuple[int, str, str, str, float]]:
        """Say what the host did in the time in which the rank's device had nothing to do."""
        trace = self.trace
        host = near[
            (trace.device[near] < 0) & ~np.isin(trace.kind[near], (*_COMPUTES, *_COMMUNICATES, Kind.STEP))
        ]
        launched_by = int(trace.launch[row])
        if launched_by >= 0:
            host = host[trace.lane[host] == trace.lane[launched_by]]
        elif len(host):
            host = host[trace.lane[host] == self._training_lane(near, host, idle)]
        took: dict[tuple[str, str, str], int] = defaultdict(int)
        covered = idle.within(trace.start_ns[host], trace.end_ns[host])
        inner = dict(zip(host.tolist(), covered.tolist(), strict=True))
        for event, within in zip(host.tolist(), covered.tolist(), strict=True):
            parent = int(trace.parent[event])
            while parent >= 0 and parent not in inner:  # steps and collectives are between
                parent = int(trace.parent[parent])
            if parent >= 0:  # its own part is what its children leave of it
                inner[parent] -= within
        known = 0
        events: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for event, own in inner.items():
            if own > 0:
                key = (self._kind(event), trace.name_of(event), self._line_of(event))
                took[key] += own
                events[key].append(event)
                known += own
        # Events of one thread may overlap without being nested: together they had no more than the time.
        scale = min(1.0, idle.measure_ns / known) / length if known else 0.0
        found: list[tuple[int, str, str, str, float]] = []
        by_cause: dict[str, int] = defaultdict(int)
        for (cause, _, _), own in took.items():
            by_cause[cause] += own
        for cause, own in by_cause.items():
            most = max((key for key in took if key[0] == cause), key=lambda key: took[key])
            rows = np.array(events[most])
            spent = idle.intersect(Spans.of(trace.start_ns[rows], trace.end_ns[rows]))
            found.append((rank, cause, most[1], most[2] or self._sampled(rank, spent), own * scale))
        rest = idle.measure_ns - known
        if rest > 0:
            others = idle.minus(Spans.of(trace.start_ns[host], trace.end_ns[host]))
            found.append((rank, UNKNOWN, "", self._sampled(rank, others), rest / length))
        return found

    def _sampled(self, rank: int, spans: Spans) -> str:
        """Return the line of the user's own code in which most samples beside the profile were taken."""
        if rank not in self._samples:  # of most ranks nothing is asked
            samples = samples_of(self.trace, rank)
            self._samples[rank] = None if samples is None else Sampled(samples)
        sampled = self._samples[rank]
        lines = sampled.lines(spans) if sampled is not None and spans.measure_ns else []
        return str(lines[0].line) if lines else ""

    def _training_lane(self, near: Ints, host: Ints, idle: Spans) -> int:
        """Return the lane of the thread that trains: that of the steps, else the one with most to do."""
        trace = self.trace
        steps = near[(trace.kind[near] == Kind.STEP) & np.isin(trace.lane[near], trace.lane[host])]
        rows = steps if len(steps) else host[trace.kind[host] != Kind.PYTHON_FRAME]
        rows = rows if len(rows) else host
        inside = idle.within(trace.start_ns[rows], trace.end_ns[rows])
        return int(np.bincount(trace.lane[rows], weights=inside).argmax())

    def _kind(self, row: int) -> str:
        trace, at = self.trace, row
        if any(part in trace.name_of(row) for part in _SYNCS):
            return "waiting for its device"
        while at >= 0:
            if trace.kind[at] == Kind.DATA_LOADING:
                return "data loading"
            at = int(trace.parent[at])
        return _HOST.get(Kind(int(trace.kind[row])), "host code")

    def _line_of(self, row: int) -> str:
        """Return the innermost Python line above an event."""
        trace, at = self.trace, row
        while at >= 0:
            frames = list(trace.stacks.parts(int(trace.stack[at]))) if trace.stack[at] >= 0 else []
            if trace.kind[at] == Kind.PYTHON_FRAME:
                frames.append(trace.name_of(at))
            lines = [frame for frame in frames if not frame.startswith("<")]  # else no Python function
            if lines:
                return str(lines[-1])
            at = int(trace.parent[at])
        return ""

    def _line(self, rows: Ints, start: int, end: int) -> str:
        name, row = self._longest(rows, start, end)
        launched_by = int(self.trace.launch[row]) if row >= 0 else -1
        return self._line_of(launched_by) if name and launched_by >= 0 else ""

    def _longest(self, rows: Ints, start: int, end: int) -> tuple[str, int]:
        trace = self.trace
        inside = np.minimum(trace.end_ns[rows], end) - np.maximum(trace.start_ns[rows], start)
        row = int(rows[int(inside.argmax())])
        return trace.name_of(row), row

    def _spans(self, rows: Ints, start: int, end: int) -> Spans:
        return Spans.of(self.trace.start_ns[rows], self.trace.end_ns[rows]).clip(start, end)
