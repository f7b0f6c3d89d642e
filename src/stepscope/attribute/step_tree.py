"""The event that each instant of a step belongs to, so that the parts of every view add up to it exactly.

An instant goes to the first of these that is there at that time:

1. a device that computes: the backward pass, the forward pass, the optimizer, else other work. If a rank has
no device, operators of the host, of any thread
2. communication
3. copies and memsets
4. loading on the thread that runs the steps; if that thread loads nothing, on any 5. the host's activity
   while nothing of all this went on, which is ``idle``: an operator or a runtime call of the thread that runs
   the steps; one of another thread; a frame or an annotation of the former
6. nothing that was recorded

Of several events on one lane the innermost counts; of several lanes, the stepping thread's, then the first.
Threads that wait, and all that lies outside of steps, have no part in it. If nothing says which thread
runs the steps (:func:`names_no_thread`), each thread's slices count like that thread's. A device's work
counts in the step in whose window it ran: a step whose device still works on the one before is waiting for
that.

The parts of the step (:mod:`~stepscope.analyze.breakdown`), the ``step`` column of the views, flame graphs
and the comparison of profiles are sums of these stretches by something that their events have. The order of 1
to 4 is that of XProf's step breakdown and of PyTorch's former TensorBoard plugin, with computation first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import COMMUNICATION, COPY
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose, Source
from stepscope.attribute.spans import Ints, Times
from stepscope.attribute.table import AWAITING
from stepscope.attribute.windows import Windows, ranks, windows
from stepscope.kernels import intervals, nesting, tree
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among

PARTS = ("data_loading", "forward", "backward", "optimizer", "other", "communication", "copy", "idle")
"""Names of the parts, in the order of a step."""

_LAYERS = ("backward", "forward", "optimizer", "other", "communication", "copy", "data_loading")
_BUSY, _BUSY_ELSEWHERE, _PRESENT, _NEVER = range(len(_LAYERS), len(_LAYERS) + 4)
_PART_OF = np.array([PARTS.index(name) for name in _LAYERS] + [PARTS.index("idle")] * 3, np.int32)
_COMMUNICATION, _COPY, _LOADING = (_LAYERS.index(name) for name in ("communication", "copy", "data_loading"))
_OF_PURPOSE = np.full(len(Purpose), _LAYERS.index("other"), np.int32)
"""Layer of computation by its :class:`~stepscope.attribute.purpose.Purpose`."""
_OF_PURPOSE[[Purpose.FORWARD, Purpose.BACKWARD, Purpose.OPTIMIZER]] = (
    _LAYERS.index("forward"), _LAYERS.index("backward"), _LAYERS.index("optimizer")
)  # fmt: skip

_FRAMES = (Kind.PYTHON_FRAME, Kind.MODULE_SCOPE, Kind.ANNOTATION, Kind.OTHER)
_BESIDE = (Kind.STEP, Kind.OVERHEAD)
_SLICES = {Kind.OTHER, Kind.ANNOTATION, Kind.MODULE_SCOPE}
"""Kinds of slices that anybody may draw on any thread."""

Int32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class StepTree:
    """Stretches of the steps, disjoint within a step; the rest was not recorded."""

    windows: Windows
    window: Ints
    """Place of each stretch's step in ``windows``, ascending."""
    start_ns: Times
    end_ns: Times
    row: Ints
    """The event that the stretch went to."""
    part: Ints
    """Place in :data:`PARTS`."""
    nothing_part: Ints
    """The part of each window's time that was not recorded: idle, or other if idleness is not known."""

    @property
    def length_ns(self) -> Times:
        """Length of each stretch."""
        return self.end_ns - self.start_ns

    @property
    def wall_ns(self) -> Times:
        """Length of each window."""
        return np.asarray(self.windows.end_ns - self.windows.start_ns, np.int64)

    @property
    def nothing_ns(self) -> Times:
        """The time of each window that no stretch covers: nothing was recorded."""
        return self.wall_ns - self.summed(np.zeros(len(self.window), np.int64), 1)[:, 0]

    def parts_ns(self) -> Times:
        """Return i8[windows, parts]; each row adds up to the window."""
        parts = self.summed(self.part, len(PARTS))
        parts[np.arange(len(parts)), self.nothing_part] += self.nothing_ns
        return parts

    def purposes_ns(self, trace: Trace) -> Times:
        """Return i8[windows, purposes] of its trace; each row adds up to the window.

        Time in which nothing was recorded on any lane has no known purpose.
        """
        spent = self.summed(attribution(trace).purpose[self.row], len(Purpose))
        spent[:, Purpose.UNKNOWN] += self.nothing_ns
        return spent

    def summed(self, key: Ints, size: int) -> Times:
        """Return i8[windows, size]: the time of each window by a number that each stretch has.

        Args:
            key: i8[stretches], 0 or more and below ``size``.
            size: How many numbers there are.
        """
        cell = self.window.astype(np.int64) * size + key
        # Whole nanoseconds of less than a hundred days are exact in a double.
        sums = np.bincount(cell, weights=self.length_ns, minlength=len(self.windows) * size)
        return sums.astype(np.int64).reshape(len(self.windows), size)


def step_tree(trace: Trace) -> StepTree:
    """Return the event of each instant of every rank's steps; if none were marked, of all its work."""
    every = windows(trace)
    parts = [_rank(trace, rank, every) for rank in ranks(trace)]
    columns = (
        [np.concatenate(column) for column in zip(*parts, strict=True)]
        if parts
        else [np.zeros(0, np.int64)] * 5
    )
    order = np.lexsort((columns[1], columns[0]))
    window, start, end, row, part = (column[order] for column in columns)
    idle, other = PARTS.index("idle"), PARTS.index("other")
    # Where neither a device's work nor operators were recorded, it is not known whether anything idled.
    works = (trace.device >= 0) & among(*DEVICE_WORK)[trace.kind] | (trace.kind == Kind.HOST_OP)
    unknown = np.setdiff1d(ranks(trace), distinct(trace.rank[works]))
    nothing = np.where(np.isin(every.rank, unknown), other, idle)
    part = np.where(part == idle, nothing[window], part) if len(unknown) else part
    return StepTree(every, window, start, end, row, part, nothing)


def parts_of(trace: Trace) -> Ints:
    """Return for each event the part of a step that its work is of, whatever the step spends time on then."""
    layer = _OF_PURPOSE[attribution(trace).purpose]
    layer[among(*COMMUNICATION)[trace.kind]] = _COMMUNICATION
    layer[among(*COPY)[trace.kind]] = _COPY
    layer[attribution(trace).purpose == Purpose.LOADING] = _LOADING
    return _PART_OF[layer]


def loading_rows(trace: Trace, rows: Ints) -> Ints:
    """Return the host's outermost events of loading among a rank's rows that a step waits in.

    They are those of the threads that run steps if these load, else all. The threads of a pipeline prepare
    data beside the steps. Of two ways in which loading is known, the stronger one counts.
    """
    known = attribution(trace)
    loads = (known.purpose[rows] == Purpose.LOADING) & (known.source[rows] > Source.THREAD)
    loads &= (trace.device[rows] < 0) & (trace.kind[rows] != Kind.STEP)
    loading, source = rows[loads], known.source[rows[loads]]
    loading = loading[source == source.max(initial=0)]
    held = np.zeros(len(trace) + 1, bool)
    held[loading] = True
    loading = loading[~held[trace.parent[loading]]]
    on_step = np.isin(trace.lane[loading], stepping_lanes(trace, rows))
    return np.asarray(loading[on_step] if on_step.any() else loading, np.int64)


def stepping_lanes(trace: Trace, rows: Ints) -> Ints:
    """Return the threads that run steps; if none were marked, the one with most operators' time."""
    stepping = distinct(trace.lane[rows[(trace.kind[rows] == Kind.STEP) & (trace.device[rows] < 0)]])
    if len(stepping):
        return stepping
    rows = rows[(trace.device[rows] < 0) & ~among(*_BESIDE)[trace.kind[rows]]]
    operators = rows[among(Kind.HOST_OP, Kind.RUNTIME_CALL)[trace.kind[rows]]]
    for mine in (operators, rows):
        if len(mine):
            return np.array([np.argmax(np.bincount(trace.lane[mine], weights=trace.self_ns[mine]))])
    return stepping


def names_no_thread(trace: Trace, rank: int) -> bool:
    """Return whether nothing in one rank's profile says which of its threads runs the steps.

    So it is in a plain Chrome trace, such as Horovod's: it has slices, and neither steps nor operators nor a
    device's work.
    """
    mine = trace.rank == rank
    kinds = set(distinct(trace.kind[mine & (trace.kind != Kind.OVERHEAD)]).tolist())
    return bool(kinds) and kinds <= _SLICES and not (trace.steps.rank == rank).any()


def _with_sampled_frames(trace: Trace, rows: Ints) -> Ints:
    """Return the threads that run steps; if steps are marked on a separate lane, with that of the frames.

    A sampler's clock is not that of the marks, so the two do not nest and lie on two lanes.
    """
    stepping = stepping_lanes(trace, rows)
    host = rows[trace.device[rows] < 0]
    marked = host[np.isin(trace.lane[host], stepping)]
    frames = host[trace.kind[host] == Kind.PYTHON_FRAME]
    if not len(frames) or not among(Kind.STEP, Kind.DATA_LOADING)[trace.kind[marked]].all():
        return stepping
    return np.union1d(stepping, np.argmax(np.bincount(trace.lane[frames], weights=trace.self_ns[frames])))


def _rank(trace: Trace, rank: int, every: Windows) -> tuple[Ints, Times, Times, Ints, Ints]:
    """Return window, start, end, row and part of one rank's stretches."""
    places = np.flatnonzero(every.rank == rank)
    if not len(places):
        return (np.zeros(0, np.int64),) * 5
    first, last = every.start_ns[places], every.end_ns[places]
    mine = (trace.rank == rank) & (trace.start_ns < last.max()) & (trace.end_ns > first.min())
    rows = np.flatnonzero(mine & ~among(*_BESIDE)[trace.kind])
    stepping = _with_sampled_frames(trace, np.flatnonzero(trace.rank == rank))
    layer = _row_layers(trace, rank, rows, stepping)
    rows = rows[layer[rows] < _NEVER]
    # Of one layer the stepping threads come first, then all others in the order of their lanes.
    lane = trace.lane[rows].astype(np.int64) + np.where(
        np.isin(trace.lane[rows], stepping), 0, len(trace.lanes)
    )
    _, key = np.unique(layer[rows].astype(np.int64) * 2 * len(trace.lanes) + lane, return_inverse=True)
    layer_of_key = np.zeros(int(key.max(initial=-1)) + 1, np.int32)
    layer_of_key[key] = layer[rows]
    start, end, place = innermost(trace, rows, key)
    seen = _painted(start, end, rows[place], key[place].astype(np.int32), len(layer_of_key))
    return _clipped(places, first, last, *seen[:3], _PART_OF[layer_of_key[seen[3]]])


def _row_layers(trace: Trace, rank: int, rows: Ints, stepping: Ints) -> Int32:
    """Return each row's layer, the first of its own and its containers'; _NEVER for other rows."""
    kind, purpose = trace.kind[rows], attribution(trace).purpose[rows]
    on_device = (trace.device[rows] >= 0) & among(*DEVICE_WORK)[kind]
    has_device = bool(((trace.rank == rank) & (trace.device >= 0) & among(*DEVICE_WORK)[trace.kind]).any())
    own = np.full(len(rows), _NEVER, np.int32)
    host, main = trace.device[rows] < 0, np.isin(trace.lane[rows], stepping)
    framed = among(*_FRAMES)[kind]
    own[host & ~framed] = _BUSY_ELSEWHERE
    own[host & main] = np.where(framed[host & main], _PRESENT, _BUSY)
    if names_no_thread(trace, rank):
        own[host] = _PRESENT
    loads = np.zeros(len(trace), bool)
    loads[loading_rows(trace, np.flatnonzero(trace.rank == rank))] = True
    loading = loads[rows]
    computes = on_device & (kind == Kind.KERNEL)
    if not has_device:
        computes = host & (kind == Kind.HOST_OP) & (purpose != Purpose.LOADING)
        # Time goes to the operators that another one waits for.
        computes &= ~named(trace, AWAITING)[trace.name[rows]]
        # The operator that takes an element from a pipeline only waits for it.
        computes &= ~around(trace, np.flatnonzero(loads & (trace.duration_ns > 0)))[rows]
    own[computes] = _OF_PURPOSE[purpose[computes]]
    own[among(*COMMUNICATION)[kind]] = _COMMUNICATION
    own[among(*COPY)[kind]] = _COPY
    own[loading] = _LOADING
    layer = np.full(len(trace), _NEVER, np.int32)
    layer[rows] = own
    tree.least(np.ascontiguousarray(trace.parent, np.int32), layer)
    beside = np.ones(len(trace), bool)
    beside[rows] = False
    layer[beside] = _NEVER
    return layer


def around(trace: Trace, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return whether each row of a trace encloses one of some rows."""
    holds = np.zeros(len(trace), bool)
    above = distinct(trace.parent[rows])
    while len(above := above[(above >= 0) & ~holds[above]]):
        holds[above] = True
        above = distinct(trace.parent[above])
    return holds


def innermost(trace: Trace, rows: Ints, key: Ints) -> tuple[Times, Times, Ints]:
    """Return start, end and place in ``rows`` of the stretches in which a row is the innermost of its key.

    Args:
        trace: The trace.
        rows: Rows in the order of the trace.
        key: A number of each row; rows of one number are all on one lane.
    """
    order = np.argsort(key, kind="stable")
    group = np.ascontiguousarray(key[order], np.int32)
    start = np.ascontiguousarray(trace.start_ns[rows[order]], np.int64)
    duration = np.ascontiguousarray(trace.duration_ns[rows[order]], np.int64)
    size = len(rows)
    parent, depth = np.empty(size, np.int32), np.empty(size, np.int16)
    room = [np.empty(size, np.int64) for _ in range(3)]
    nesting.nest(group, start, duration, 0, np.zeros(size, np.uint8), parent, depth, *room)
    out = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.empty(2 * size, np.int32)
    count = nesting.flatten(group, start, start + duration, parent, *out)
    return out[0][:count], out[1][:count], order[out[2][:count]]


def _painted(
    start: Times, end: Times, row: Ints, layer: Int32, layers: int
) -> tuple[Times, Times, Ints, Ints]:
    """Return start, end, row and layer of the visible parts of layers, the first of which is on top."""
    count = len(start)
    time = np.concatenate([start, end])
    order = np.argsort(time, kind="stable")
    begins = (order < count).astype(np.uint8)
    which = np.where(order < count, order, order - count)
    out = [np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)]
    painted = [np.empty(2 * count, np.int32), np.empty(2 * count, np.int32)]
    size = intervals.paint(
        time[order],
        layer[which],
        row[which].astype(np.int32),
        begins,
        np.full(layers, -1, np.int32),
        *out,
        *painted,
    )
    return out[0][:size], out[1][:size], painted[0][:size].astype(np.int64), painted[1][:size]


def _clipped(
    places: Ints, first: Ints, last: Ints, start: Times, end: Times, row: Ints, part: Ints
) -> tuple[Ints, Times, Times, Ints, Ints]:
    """Return the parts of the stretches in each window; windows may overlap."""
    begin = np.searchsorted(end, first, side="right")
    count = np.maximum(0, np.searchsorted(start, last, side="left") - begin)
    window = np.repeat(np.arange(len(places)), count)
    at = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    clipped_start, clipped_end = np.maximum(start[at], first[window]), np.minimum(end[at], last[window])
    return places[window], clipped_start, clipped_end, row[at], part[at]
