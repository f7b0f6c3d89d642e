"""The time that a rank could save before each of its collectives: loading faster, or an operator for free.

A rank works on its own from the end of one collective to the beginning of the next. A change saves of that
time

- **loader twice as fast**: of each stretch of loading on the thread that trains, half of it, but no more than
  the part in which the device had nothing to do;
- **operator free**: the time in which that kernel alone kept the device, but no more than the time by which
  its host had launched the collective before the device came to it. On ranks without a device: the time of
  the host operator, with its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from stepscope.attribute.device import COMMUNICATION, COMPUTE, COPY, rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Spans
from stepscope.attribute.step_tree import loading_rows
from stepscope.attribute.table import READING, WAITS
from stepscope.trace.model import Kind, Trace, among

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
LOADER = "loader twice as fast"
MOST_OPERATORS = 5
"""Number of operators of a rank whose cost is reported: those that take longest."""
_COMPUTES = (*COMPUTE, *COPY)


@dataclass(frozen=True, slots=True)
class OwnWork:
    """Savings of one rank, ``n`` collectives, ``m`` steps, ``k`` changes.

    Attributes:
        changes: The changed times.
        row: Rows of the collectives, shape ``(n,)``.
        before_ns: The savings of each change before each collective, ``(n, k)``.
        step: Numbers of the steps, ``(m,)``.
        after_ns: The savings of each change after the last collective of each step, ``(m, k)``.
        own_ns: How long each stretch before a collective is, ``(n,)``; as the next two since the collective
            before it, also if that was in the step before.
        computing_ns: For how long of it the device computed.
        loading_ns: For how long of it the thread that trains loaded, and the device had nothing to do.
    """

    changes: tuple[str, ...]
    row: Ints
    before_ns: Floats
    step: Ints
    after_ns: Floats
    own_ns: Floats
    computing_ns: Floats
    loading_ns: Floats


def ends_of(trace: Trace, rows: Ints) -> Ints:
    """Return when some rows end; all ends of a trace would be made again."""
    return np.asarray(trace.start_ns[rows] + trace.duration_ns[rows])


class _RankRows:
    """The rows of a rank, and their kinds."""

    def __init__(self, trace: Trace, rows: Ints) -> None:
        self.rows, self._kind = rows, trace.kind[rows]
        self._on_device, self._in_step = trace.device[rows] >= 0, trace.step[rows] >= 0

    def of(self, kinds: Sequence[Kind], *, on_device: bool | None = None, in_step: bool = False) -> Ints:
        """Return the rows of some kinds."""
        chosen = among(*kinds)[self._kind]
        if on_device is not None:
            chosen &= self._on_device == on_device
        return np.asarray(self.rows[chosen & self._in_step if in_step else chosen])


def own_work(trace: Trace, rank: int) -> OwnWork:
    """Measure the savings of changes in each stretch of a rank's own work in its steps."""
    mine = _RankRows(trace, np.flatnonzero(trace.rank == rank))
    row, step, start, end, after, since = _stretches(trace, rank, mine)
    working = rows_spans(trace, mine.of(_COMPUTES, on_device=True))
    busy = working.union(rows_spans(trace, mine.of(COMMUNICATION, on_device=True)))
    loading = rows_spans(trace, loading_rows(trace, mine.rows))
    exposed = loading.minus(busy)
    savings = [(LOADER, _sooner(loading, exposed, start, end))]
    savings += _operators(trace, mine, row, start, end, after)
    saved = [saving for saving in savings if saving[1].any()]
    table = np.array([times for _, times in saved], np.float32).reshape(len(saved), len(start)).T
    spent = [end - since, working.within(since, end), exposed.within(since, end)]
    return OwnWork(
        tuple(name for name, _ in saved), row, table[~after], step[after], table[after],
        *(np.asarray(times[~after], np.float32) for times in spent),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Excess:
    """By how much the work of the rank that came last exceeds the others' median; NaN if it is not known.

    Attributes:
        own_ns: How long the last rank had been by itself, shape ``(C,)``.
        computing_ns: How much longer its device computed.
        loading_ns: How much longer it loaded while its device had nothing to do.
    """

    own_ns: npt.NDArray[np.float64]
    computing_ns: npt.NDArray[np.float64]
    loading_ns: npt.NDArray[np.float64]


def excess_of(row: Ints, last: Ints, own: Iterable[OwnWork], rows: int) -> Excess:
    """Compare the rank that came last in each collective with those that it met there.

    Args:
        row: Rows of the joint collectives, shape ``(C, R)``.
        last: Column of the rank that came last, ``(C,)``.
        own: The ranks' own work, in the same rows.
        rows: How many rows there are.
    """
    columns = np.full((3, rows + 1), np.nan)  # the last is that of -1
    for part in own:
        columns[:, part.row] = part.own_ns, part.computing_ns, part.loading_ns
    mine = columns[:, np.take_along_axis(row, last[:, None], axis=1)[:, 0]]
    excess = []
    rest = row.copy()
    np.put_along_axis(rest, last[:, None], -1, axis=1)
    for values, of_last in zip(columns[1:], mine[1:], strict=True):
        usual = np.full(len(row), np.nan)
        known = np.isfinite(values[rest]).any(axis=1)
        usual[known] = np.nanmedian(values[rest[known]], axis=1)
        excess.append(np.maximum(of_last - usual, 0.0))
    known = np.isfinite(excess[0]) & (mine[0] > 0)  # else it stood in another when it came to this one
    return Excess(np.where(known, mine[0], np.nan), *excess)


def _stretches(
    trace: Trace, rank: int, mine: _RankRows
) -> tuple[Ints, Ints, Ints, Ints, npt.NDArray[np.bool_], Ints]:
    """Return the collectives of a rank's steps; and of each stretch: step, start, end, whether it is last.

    Also since when the rank has been by itself: before the first collective of a step that is since the last
    one of the step before, if that was recorded.
    """
    rows = mine.of([Kind.COLLECTIVE], in_step=True)
    rows = rows[trace.duration_ns[rows] > 0]
    rows = rows[np.lexsort((trace.start_ns[rows], trace.step[rows]))]
    table = trace.steps
    used, stretches, before, free = [], [], None, None
    for at in np.flatnonzero(table.rank == rank).tolist():
        number, clock, last = int(table.number[at]), int(table.start_ns[at]), int(table.end_ns[at])
        low, high = np.searchsorted(trace.step[rows], [number, number + 1])
        since = clock if free is None or before != number - 1 else min(free, clock)
        for event in rows[low:high].tolist():
            begin = int(trace.start_ns[event])
            stretches.append((number, clock, max(clock, begin), 0, since))
            since = clock = max(clock, begin + int(trace.duration_ns[event]))
        used.append(rows[low:high])
        stretches.append((number, clock, max(clock, last), 1, clock))
        before, free = number, since
    columns = np.array(stretches, np.int64).reshape(-1, 5)
    row = np.concatenate(used) if used else np.zeros(0, np.int64)
    return row, columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3] == 1, columns[:, 4]


def _sooner(loading: Spans, exposed: Spans, start: Ints, end: Ints) -> Ints:
    """Return the savings of each stretch if the loader took half of its time."""
    saved = np.zeros(len(start), np.int64)
    order = np.argsort(start, kind="stable")
    for begin, finish in zip(loading.start.tolist(), loading.end.tolist(), strict=True):
        left = (finish - begin) // 2
        # What is loaded last is what the device waits for.
        first = max(0, int(np.searchsorted(start[order], begin, side="right")) - 1)
        last = int(np.searchsorted(start[order], finish, side="left"))
        for at in order[first:last][::-1].tolist():
            low, high = np.array([max(begin, start[at])]), np.array([min(finish, end[at])])
            taken = min(left, int(exposed.within(low, high)[0])) if high[0] > low[0] else 0
            saved[at] += taken
            left -= taken
    return saved


def _operators(
    trace: Trace, mine: _RankRows, row: Ints, start: Ints, end: Ints, after: npt.NDArray[np.bool_]
) -> list[tuple[str, Ints]]:
    kernels = mine.of([Kind.KERNEL], on_device=True, in_step=True)
    on_device = bool(len(kernels))
    rows = kernels if on_device else mine.of([Kind.HOST_OP], on_device=False, in_step=True)
    if not len(rows) or not len(start):
        return []
    weight = trace.duration_ns if on_device else trace.self_ns
    taken = np.bincount(trace.name[rows], weights=weight[rows])
    order = np.argsort(-taken, kind="stable").tolist()
    waits = named(trace, WAITS) | named(trace, READING)
    most = islice((n for n in order if taken[n] > 0 and not waits[n]), MOST_OPERATORS)
    bound = np.full(len(start), np.iinfo(np.int64).max)
    if on_device:
        bound[~after] = _slack(trace, row)
    savings = []
    work = mine.of(_COMPUTES, on_device=True, in_step=True)
    every = rows_spans(trace, work)
    end = np.maximum(start, end)
    for number in most:
        if on_device:  # what no other kernel covers
            others = rows_spans(trace, work[trace.name[work] != number])
            saved = every.within(start, end) - others.within(start, end)
        else:
            saved = rows_spans(trace, rows[trace.name[rows] == number]).within(start, end)
        savings.append((f"{trace.strings[number]} free", np.minimum(saved, bound)))
    return savings


def _slack(trace: Trace, row: Ints) -> Ints:
    """Return how long before its beginning each collective was launched; if unknown, there is no bound."""
    launch = trace.launch[row].astype(np.int64)
    launched = trace.start_ns[launch] + trace.duration_ns[launch]
    unbounded = np.iinfo(np.int64).max
    return np.where(launch >= 0, np.maximum(0, trace.start_ns[row] - launched), unbounded)


def combined(parts: Sequence[OwnWork]) -> tuple[str, ...]:
    """Return the changes that save most over all ranks, the loader's first."""
    total: dict[str, float] = {}
    for part in parts:
        sums = part.before_ns.sum(0, dtype=np.float64) + part.after_ns.sum(0, dtype=np.float64)
        for name, ns in zip(part.changes, sums.tolist(), strict=True):
            total[name] = total.get(name, 0.0) + ns
    operators = sorted((name for name in total if name != LOADER), key=lambda name: -total[name])
    return (*([LOADER] if LOADER in total else []), *operators[:MOST_OPERATORS])


def joined(parts: Sequence[OwnWork]) -> OwnWork:
    """Return the work of one rank that is in several files."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for part in parts for name in part.changes))
    tables: list[Floats] = []
    for field in ("before_ns", "after_ns"):
        rows = []
        for part in parts:
            table = np.zeros((len(getattr(part, field)), len(names)), np.float32)
            table[:, [names.index(name) for name in part.changes]] = getattr(part, field)
            rows.append(table)
        tables.append(np.concatenate(rows))
    row, step, *times = (
        np.concatenate([getattr(part, field) for part in parts])
        for field in ("row", "step", "own_ns", "computing_ns", "loading_ns")
    )
    return OwnWork(names, row, tables[0], step, tables[1], *times)
