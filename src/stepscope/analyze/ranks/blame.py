"""The work of the last rank while others waited for it.

The waits of a collective are attributed to the rank that arrived last. The cause of its delay is read from
its own profile between the second-to-last arrival and its own (if several arrived together, since half of the
waiting accumulated): another collective that it was in, whose own last arrival takes the blame in turn, and
its work beyond the median rank's since it worked on its own: computing, loading, or its host's work while its
device was idle. If ranks cannot be compared, it is its work in exactly that time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.analyze.ranks.own_work import Excess, ends_of
from stepscope.analyze.ranks.waits import Waits
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import COMMUNICATION, COMPUTE, COPY, rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.purpose import WORDS, Purpose
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.source_lines import line_text, user_lines
from stepscope.attribute.spans import Spans
from stepscope.attribute.table import READING
from stepscope.trace.model import Kind, Trace, among
from stepscope.trace.sampled import samples_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_IS_COMPUTATION, _IS_COMMUNICATION = among(*COMPUTE, *COPY), among(*COMMUNICATION)
_IS_NO_HOST_WORK = among(*COMPUTE, *COPY, *COMMUNICATION, Kind.STEP)
COMPUTING, LOADING = "computing", "data loading"
ANOTHER, UNKNOWN = "another collective", "not recorded"
_WAITS_FOR_DEVICE = "waiting for its device"
_OF_PURPOSE = WORDS | {
    Purpose.LOADING: LOADING, Purpose.PREPROCESSING: LOADING, Purpose.PROFILING: "the profiler",
    Purpose.WAITING_DEVICE: _WAITS_FOR_DEVICE,
}  # fmt: skip
"""Causes that the purpose of an event tells; of all others its kind does."""
_OF_KIND = {
    Kind.SYNC: _WAITS_FOR_DEVICE,
    Kind.RUNTIME_CALL: "launching",
    Kind.HOST_OP: "host operators",
    Kind.PYTHON_FRAME: "Python",
    Kind.MODULE_SCOPE: "Python",
    Kind.ANNOTATION: "host code",
    Kind.STEP: "host code",
    Kind.OTHER: "host code",
}
_CAUSES = list(dict.fromkeys((*_OF_PURPOSE.values(), *_OF_KIND.values())))
_CAUSE_OF_KIND = np.full(max(Kind) + 1, _CAUSES.index("host code"))
_CAUSE_OF_KIND[list(_OF_KIND)] = [_CAUSES.index(cause) for cause in _OF_KIND.values()]
_CAUSE_OF_PURPOSE = np.full(len(Purpose), -1)
_CAUSE_OF_PURPOSE[list(_OF_PURPOSE)] = [_CAUSES.index(cause) for cause in _OF_PURPOSE.values()]
_DEEPEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Blame:
    """Waiting of others that one rank caused in one way."""

    rank: int
    wait_caused_ns: int
    """Waiting of all other ranks together; multiplied by the price of a rank's second, this is its cost."""
    share: float
    """Of all waiting."""
    cause: str
    """Such as ``computing``, ``data loading``, ``Python``; ``not recorded`` if its profile does not say."""
    name: str
    """The kernel, operator or function that took most of that time, empty if none is known."""
    line: str
    """The user's own line, ``file:line function``, if stacks were recorded, else empty."""
    scope: str = ""
    """The module that took most of that time, empty if none was recorded."""


@dataclass(frozen=True, slots=True)
class WaitCost:
    """Waiting of others caused by one host, scope, source line or cause, over all ranks."""

    what: str
    """Empty if it was not recorded."""
    wait_caused_ns: int
    share: float
    """Of all waiting."""
    ranks: tuple[int, ...]
    """The ranks that caused it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Collectives of one rank that are to be explained; rows are those of the trace that explains them.

    Attributes:
        row: Rows of all its joint collectives.
        number: Their numbers among those of all ranks.
        kept_ns: How much time before its arrival is to be explained; -1 if it was not last.
        own_ns: How long it had been by itself when it came; NaN if unknown, like the next two.
        computing_ns: How much longer than the median rank's its device had computed meanwhile.
        loading_ns: How much longer it had loaded.
    """

    row: Ints
    number: Ints
    kept_ns: Ints
    own_ns: Floats
    computing_ns: Floats
    loading_ns: Floats


class Doing(NamedTuple):
    """The activity of a rank in a share of a stretch of time."""

    cause: str
    name: str = ""
    """The kernel, operator or function that took most of it."""
    line: str = ""
    share: float = 1.0
    other: int = -1
    """Number of another collective, whose own last rank takes that share in turn."""
    scope: str = ""
    """The module or name scope that it belongs to; empty if none was recorded."""


Answers = dict[int, list[Doing]]
"""By the number of a collective, its last rank's work instead of coming."""
Doings = dict[int, list[Doing]]
"""By the number of a stretch of time, its rank's work in it."""


@dataclass(frozen=True, slots=True)
class OwnStretches:
    """Stretches of one rank's own time that are to be explained.

    Attributes:
        number: To tell them apart.
        start_ns: On the rank's own clock, counted from the beginning of the row.
        end_ns: Likewise.
        row: The row of the collective before or after each, in rows of the trace that explains them.
    """

    number: Ints
    start_ns: Ints
    end_ns: Ints
    row: Ints


def asked_of(waits: Waits, at: int, excess: Excess) -> Asked:
    """Return the questions about the rank in a column, in rows of the trace of the waits."""
    number = np.flatnonzero(waits.joint.row[:, at] >= 0)
    waited = np.where(waits.last[number] == at, waits.kept_ns[number], -1)
    more = excess.own_ns[number], excess.computing_ns[number], excess.loading_ns[number]
    return Asked(waits.joint.row[number, at], number, waited, *more)


def told_by(trace: Trace, rank: int, asked: Asked, stretches: OwnStretches | None) -> tuple[Answers, Doings]:
    """Return the causes of a rank's delays in collectives where it came last, and its work in stretches."""
    causes = _Causes(trace, rank, asked)
    late = np.flatnonzero(asked.kept_ns > 0)
    answers = {int(asked.number[at]): causes.of(int(at)) for at in late.tolist()}
    if stretches is None:
        return answers, {}
    columns = (stretches.number, stretches.start_ns, stretches.end_ns, stretches.row)
    doings = {
        number: causes.during(row, int(trace.start_ns[row]) + start, int(trace.start_ns[row]) + end)
        for number, start, end, row in zip(*(column.tolist() for column in columns), strict=True)
    }
    return answers, doings


def answers_of(
    trace: Trace, waits: Waits, excess: Excess, stretches: Mapping[int, OwnStretches]
) -> tuple[Answers, Doings]:
    """Return the causes of the last ranks' delays, from whole profiles of all of them.

    Also return the ranks' work in stretches of their own time, if requested.
    """
    answers: Answers = {}
    doings: Doings = {}
    for at, rank in enumerate(waits.joint.ranks):
        exact, did = told_by(trace, rank, asked_of(waits, at, excess), stretches.get(rank))
        answers |= exact
        doings |= did
    return answers, doings


def chained(waits: Waits, answers: Answers) -> npt.NDArray[np.bool_]:
    """Return for each collective whether its last rank was delayed mostly by another collective."""
    known = np.zeros(len(waits.joint), bool)
    for number, parts in answers.items():
        known[number] = sum(part.share for part in parts if part.other >= 0) > 0.5
    return known


def blame_of(waits: Waits, answers: Answers) -> tuple[Blame, ...]:
    """Attribute all waiting to ranks and causes, from the answers of each rank's own profile."""
    sums: dict[tuple[int, str], float] = defaultdict(float)
    names: dict[tuple[int, str], dict[tuple[str, str, str], float]] = defaultdict(lambda: defaultdict(float))
    for rank, part, caused in laid(waits, answers):
        sums[rank, part.cause] += caused
        names[rank, part.cause][part.name, part.line, part.scope] += caused
    total = waits.total_ns
    rows = []
    for ((rank, cause), exact), caused in zip(sums.items(), whole(sums.values()), strict=True):
        of = names[rank, cause]
        name, line, scope = max(of, key=of.__getitem__)
        rows.append(Blame(rank, caused, exact / total, cause, name, line, scope))
    return tuple(sorted(rows, key=lambda row: (-row.wait_caused_ns, row.rank, row.cause)))


def laid(waits: Waits, answers: Answers) -> Iterator[tuple[int, Doing, float]]:
    """Iterate over each collective's blame: the rank, the cause, and how much waiting, in ns."""
    for number, caused in enumerate(waits.wait_ns.sum(1, dtype=np.float64).tolist()):
        if caused > 0:
            for rank, part, share in _resolved(waits, answers, number):
                yield rank, part, caused * share


def whole(values: Iterable[float]) -> Iterator[int]:
    """Round values so that they sum to the whole."""
    so_far, given = 0.0, 0
    for value in values:
        so_far += value
        part = round(so_far) - given
        given += part
        yield part


BY = ("host", "scope", "line", "cause")
"""Dimensions by which waiting is summed, besides its ranks."""


def costs_of(waits: Waits, answers: Answers, hosts: Mapping[int, str]) -> dict[str, tuple[WaitCost, ...]]:
    """Sum all waiting by host, scope, source line and cause; each sums to the whole, most first.

    A dimension of which nothing was recorded is left out.
    """
    sums: dict[str, dict[str, dict[int, float]]] = {by: {} for by in BY}
    for rank, part, caused in laid(waits, answers):
        keys = (hosts.get(rank, ""), part.scope, part.line, part.cause)
        for by, key in zip(BY, keys, strict=True):
            of = sums[by].setdefault(key, {})
            of[rank] = of.get(rank, 0.0) + caused
    total = waits.total_ns
    tables = {}
    for by, rows in sums.items():
        if not any(rows):
            continue
        exact_ns = [sum(of.values()) for of in rows.values()]
        costs = [
            WaitCost(what, caused, exact / total, tuple(sorted(of)))
            for (what, of), caused, exact in zip(rows.items(), whole(exact_ns), exact_ns, strict=True)
        ]
        tables[by] = tuple(sorted(costs, key=lambda cost: (-cost.wait_caused_ns, cost.what)))
    return tables


def _resolved(
    waits: Waits, answers: Answers, number: int, depth: int = 0
) -> Iterator[tuple[int, Doing, float]]:
    """Iterate over rank, part and share of the causes of a last rank's delay."""
    rank = waits.joint.ranks[int(waits.last[number])]
    for part in answers.get(number) or [Doing(UNKNOWN)]:
        if part.other < 0:
            yield rank, part, part.share
        elif depth < _DEEPEST_CHAIN:
            for who, why, share in _resolved(waits, answers, part.other, depth + 1):
                yield who, why, share * part.share
        else:
            yield rank, Doing(ANOTHER), part.share


def _groups(*columns: Ints) -> tuple[Ints, Ints]:
    """Return the group of each row, those that are alike in all columns, and the first row of each group."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[which.ravel()], first[order]


class _Causes:
    def __init__(self, trace: Trace, rank: int, asked: Asked) -> None:
        self.trace, self.rank, self.asked = trace, rank, asked
        self._rows = np.flatnonzero(trace.rank == rank)
        self._start, self._end = trace.start_ns[self._rows], ends_of(trace, self._rows)
        self._has_device = bool((trace.device[self._rows] >= 0).any())
        self._number_of = dict(zip(asked.row.tolist(), asked.number.tolist(), strict=True))
        self._samples: list[Sampled | None] = []
        self._scopes: dict[int, str] = {}

    def of(self, at: int) -> list[Doing]:
        """Return the causes that kept the rank from the collective in this place."""
        trace = self.trace
        row, number = int(self.asked.row[at]), int(self.asked.number[at])
        end = int(trace.start_ns[row])  # the rank's own clock from here on
        start = end - int(self.asked.kept_ns[at])
        if np.isfinite(self.asked.own_ns[at]):
            return self._compared(at, row, start, end)
        return self._outside(row, number, start, end)

    def during(self, row: int, start: int, end: int) -> list[Doing]:
        """Return the rank's work in a stretch of its own time, other collectives as such."""
        number = self._number_of.get(row, -1)
        return [part._replace(other=-1) for part in self._outside(row, number, start, end)]

    def _outside(self, row: int, number: int, start: int, end: int) -> list[Doing]:
        """Return the rank's work in a stretch of time, if it cannot be compared with others."""
        trace = self.trace
        near, length = self._near(row, start, end), end - start
        busy = self._computing(row, near, start, end)
        standing = near[_IS_COMMUNICATION[trace.kind[near]]]
        standing = np.array(
            [other for other in standing.tolist() if self._number_of.get(other, number) != number], np.int64
        )
        in_others = self._spans(standing, start, end).minus(busy)
        doings: list[Doing] = []
        if busy.measure_ns:
            doings.append(self._computed(row, near, start, end, busy.measure_ns / length))
        if in_others.measure_ns:
            name, other = self._longest(standing, start, end)
            doings.append(
                Doing(ANOTHER, name, "", in_others.measure_ns / length, self._number_of.get(other, -1))
            )
        idle = busy.union(in_others).gaps(start, end)
        if idle.measure_ns:
            doings += self._host(row, near, idle, length)
        return doings

    def _compared(self, at: int, row: int, start: int, end: int) -> list[Doing]:
        """Return the rank's work beyond the others'; its last activity may only have begun late.

        If it left the previous collective too late, that one is the cause.
        """
        length, begin = end - start, end - int(self.asked.own_ns[at])
        doings, rest = [], 1.0
        if begin > start and (before := self._before(begin)) >= 0:
            share = (begin - start) / length
            doings.append(Doing(ANOTHER, self.trace.name_of(before), "", share, self._number_of[before]))
            rest -= share
        near = self._near(row, begin, end)
        computing, loading = float(self.asked.computing_ns[at]), float(self.asked.loading_ns[at])
        scale = min(1.0, rest * length / (computing + loading)) / length if computing + loading else 0.0
        if computing > 0:
            doings.append(self._computed(row, near, begin, end, computing * scale))
        idle = self._computing(row, near, begin, end).gaps(begin, end)
        if self.trace.device[row] < 0 and begin < start:
            idle = idle.clip(start, end)  # its host's work is all that it does
        host = self._host(row, near, idle, end - begin) if idle.measure_ns else []
        if loading > 0:
            seen = next((part for part in host if part.cause == LOADING), Doing(LOADING))
            doings.append(seen._replace(share=loading * scale))
        others, left = [part for part in host if part.cause != LOADING], rest - (computing + loading) * scale
        together = sum(part.share for part in others)
        if left > 1e-9:
            doings += [part._replace(share=left * part.share / together) for part in others]
            doings += [] if together else [Doing(UNKNOWN, share=left)]
        return doings

    def _before(self, time: int) -> int:
        """Return the row of the joint collective that the rank left last before a time, -1 without one."""
        rows = self.asked.row[ends_of(self.trace, self.asked.row) <= time]
        return int(rows[int(ends_of(self.trace, rows).argmax())]) if len(rows) else -1

    def _near(self, row: int, start: int, end: int) -> Ints:
        """Return the rows of the rank's other events in a stretch of time."""
        rows = self._rows
        near = rows[(self._start < end) & (self._end > start)]
        return np.asarray(near[near != row])

    def _computing(self, row: int, near: Ints, start: int, end: int) -> Spans:
        """Return when the device of a collective computed."""
        return self._spans(self._computes(row, near), start, end)

    def _computes(self, row: int, near: Ints) -> Ints:
        trace = self.trace
        if trace.device[row] < 0:
            return near[:0]
        computes = _IS_COMPUTATION[trace.kind[near]] & (trace.device[near] == trace.device[row])
        return np.asarray(near[computes])

    def _computed(self, row: int, near: Ints, start: int, end: int, share: float) -> Doing:
        rows = self._computes(row, near)
        if not len(rows):
            return Doing(COMPUTING, share=share)
        name, row = self._longest(rows, start, end)
        launched_by = int(self.trace.launch[row])
        line = self._line_of(launched_by) if name and launched_by >= 0 else ""
        return Doing(COMPUTING, name, line, share, -1, self._scope_of(row))

    def _host(self, row: int, near: Ints, idle: Spans, length: int) -> list[Doing]:
        """Return the host's work while the rank's device had nothing to do."""
        trace = self.trace
        host = near[(trace.device[near] < 0) & ~_IS_NO_HOST_WORK[trace.kind[near]]]
        launched_by = int(trace.launch[row])
        if launched_by >= 0:
            host = host[trace.lane[host] == trace.lane[launched_by]]
        elif len(host):
            host = host[trace.lane[host] == self._training_lane(near, host, idle)]
        own = self._own_times(host, idle)
        working = own > 0
        rows, own = host[working], own[working]
        known = int(own.sum())
        # Events of one thread may overlap without being nested: together they had no more than the time.
        scale = min(1.0, idle.measure_ns / known) / length if known else 0.0
        doings: list[Doing] = []
        cause, name, line = (
            self._causes_of(rows),
            np.asarray(trace.name[rows], np.int64),
            user_lines(trace)[rows].astype(np.int64) + 1,
        )
        which, first = _groups(cause, name, line)
        took = np.bincount(which, weights=own)
        for number in dict.fromkeys(cause[first].tolist()):
            same = np.flatnonzero(cause[first] == number)
            most = int(same[took[same].argmax()])
            members = which == most
            spent = idle.intersect(rows_spans(trace, rows[members]))
            longest = int(rows[members][own[members].argmax()])
            doings.append(
                Doing(
                    _CAUSES[number],
                    trace.name_of(longest),
                    self._line_of(longest) or self._sampled(spent),
                    float(own[cause == number].sum()) * scale,
                    -1,
                    self._scope_of(longest),
                )
            )
        rest = idle.measure_ns - known
        if rest > 0:
            others = idle.minus(rows_spans(trace, host))
            doings.append(Doing(UNKNOWN, "", self._sampled(others), rest / length))
        return doings

    def _sampled(self, spans: Spans) -> str:
        """Return the line of the user's own code in which most samples beside the profile were taken."""
        if not self._samples:  # of most ranks nothing is asked
            samples = samples_of(self.trace, self.rank)
            self._samples.append(None if samples is None else Sampled(samples))
        sampled = self._samples[0]
        lines = sampled.lines(spans) if sampled is not None and spans.measure_ns else []
        return str(lines[0].line) if lines else ""

    def _training_lane(self, near: Ints, host: Ints, idle: Spans) -> int:
        """Return the lane of the thread that trains: that of the steps, or else the busiest one."""
        trace = self.trace
        steps = near[(trace.kind[near] == Kind.STEP) & np.isin(trace.lane[near], trace.lane[host])]
        rows = steps if len(steps) else host[trace.kind[host] != Kind.PYTHON_FRAME]
        rows = rows if len(rows) else host
        inside = idle.within(trace.start_ns[rows], ends_of(trace, rows))
        return int(np.bincount(trace.lane[rows], weights=inside).argmax())

    def _own_times(self, host: Ints, idle: Spans) -> Ints:
        """Return how much of some time is each event's own: without the events in it."""
        covered = idle.within(self.trace.start_ns[host], ends_of(self.trace, host))
        own, above, parent = covered.copy(), self.trace.parent, self.trace.parent[host]
        while True:
            place = np.minimum(np.searchsorted(host, parent), max(0, len(host) - 1))
            between = (parent >= 0) & (host[place] != parent)  # steps and collectives
            if not between.any():
                break
            parent[between] = above[parent[between]]
        inner = parent >= 0
        np.subtract.at(own, place[inner], covered[inner])
        return np.asarray(own)

    def _causes_of(self, rows: Ints) -> Ints:
        """Return which of the causes each event of the host is."""
        trace = self.trace
        by_purpose = _CAUSE_OF_PURPOSE[attribution(trace).purpose[rows]]
        cause = np.where(by_purpose >= 0, by_purpose, _CAUSE_OF_KIND[trace.kind[rows]])
        if self._has_device:
            cause[named(trace, READING)[trace.name[rows]]] = _CAUSES.index(_WAITS_FOR_DEVICE)
        return np.asarray(cause)

    def _line_of(self, row: int) -> str:
        """Return the innermost line of the user's own code around an event."""
        return line_text(self.trace, int(user_lines(self.trace)[row]))

    def _scope_of(self, row: int) -> str:
        """Return the module scope of an event, or of the nearest above it that has one."""
        trace = self.trace
        while row >= 0 and trace.scope[row] < 0:
            row = int(trace.parent[row])
        if row < 0:
            return ""
        number = int(trace.scope[row])
        if number not in self._scopes:
            self._scopes[number] = trace.scopes.text(number)
        return self._scopes[number]

    def _longest(self, rows: Ints, start: int, end: int) -> tuple[str, int]:
        trace = self.trace
        inside = np.minimum(ends_of(trace, rows), end) - np.maximum(trace.start_ns[rows], start)
        row = int(rows[int(inside.argmax())])
        return trace.name_of(row), row

    def _spans(self, rows: Ints, start: int, end: int) -> Spans:
        return rows_spans(self.trace, rows).clip(start, end)
