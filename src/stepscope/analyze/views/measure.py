"""Measures of each event of a trace: its step, its time on host or device, and its operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.attribute.named import named
from stepscope.attribute.step_tree import StepTree, names_no_thread, step_tree
from stepscope.attribute.table import WAITS
from stepscope.attribute.windows import Windows
from stepscope.errors import UsageError
from stepscope.trace.distinct import distinct, numbered
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]

UNCOUNTED = (Kind.STEP, Kind.OVERHEAD)
"""Host events whose own time is nobody's work."""


@dataclass(frozen=True)
class Stretches:
    """The step tree of the counted steps.

    Attributes:
        row: i8[m], the event that each stretch went to.
        window: i8[m], in which of the counted steps it lies.
        length_ns: i8[m].
        part: i8[m], the place of its part of the step in :data:`~stepscope.attribute.step_tree.PARTS`.
        nothing_ns: i8[windows], the part of each step that no stretch covers: nothing was recorded then.
        nothing_part: i8[windows], the part of the step that this time is of.
    """

    row: Ints
    window: Ints
    length_ns: Ints
    part: Ints
    nothing_ns: Ints
    nothing_part: Ints


@dataclass(frozen=True)
class Measures:
    """Columns beside a trace's own.

    Attributes:
        window: i4[n], which of the counted steps an event is in; -1 for none.
        windows: How many there are: steps times ranks, or 1 if no step was marked.
        label: Name of a window, for people.
        marked: Whether windows are steps.
        host_ns: i8[n], self time of host events.
        device_ns: i8[n], duration of device work.
        above: i4[n], the enclosing event; for device work, its launch; -1 for none.
        level: i4[n], number of events above.
        waited_ns: Self time in counted steps in which helper threads waited; it is in no ``host_ns``.
        stretches: The event of each instant of the counted steps; None if nothing took time.
        overlaps: Whether nothing says which thread runs the steps, so that a time of the step is how long at
            least one of some slices was open: such times overlap.
        part: i8[n], the place of the part of the step that each event is of in
            :data:`~stepscope.attribute.step_tree.PARTS`, by which nodes are then split; None if they are not.
        flops: i8[n], operations of each event, if they are not the recorded ones; -1 for none.
        flops_unknown: Calls whose operations are not known although they are counted, by name.
    """

    window: Ints
    windows: int
    label: str
    marked: bool
    host_ns: Ints
    device_ns: Ints
    above: Ints
    level: Ints
    waited_ns: int
    stretches: Stretches | None = None
    overlaps: bool = False
    part: Ints | None = None
    flops: Ints | None = None
    flops_unknown: Mapping[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> Bools:
        """True if an event is in a counted step."""
        return self.window >= 0


def measure(trace: Trace, *, step: int = -1, tree: StepTree | None = None) -> Measures:
    """Measure all events.

    Args:
        trace: Any trace.
        step: Count this step alone; -1 counts every marked step, or everything if none is marked.
        tree: The trace's step tree, if it is known already.

    Raises:
        UsageError: No such step.
    """
    every = tree or step_tree(trace)
    counted = _counted(trace, every.windows, step)
    window = counted.window if counted.marked else _within(trace, every.windows, counted.window)
    on_device = (trace.device >= 0) & among(*DEVICE_WORK)[trace.kind]
    waits = _waiting(trace)
    working = (trace.device < 0) & ~among(*UNCOUNTED)[trace.kind] & ~waits
    above = np.where(on_device & (trace.launch >= 0), trace.launch, trace.parent).astype(np.int32)
    launched = np.flatnonzero(on_device & (trace.launch >= 0))
    level = trace.depth.astype(np.int32)
    level[launched] = level[trace.launch[launched]] + 1
    return Measures(
        window=window,
        windows=counted.windows,
        label=counted.label,
        marked=counted.marked,
        host_ns=np.where(working, trace.self_ns, 0),
        device_ns=np.where(on_device, trace.duration_ns, 0),
        above=above,
        level=level,
        waited_ns=int(trace.self_ns[waits & (window >= 0)].sum()),
        stretches=_stretches(every, counted),
        overlaps=not counted.marked and all(names_no_thread(trace, rank) for rank in trace.ranks),
    )


def _waiting(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return bool[n]: events that wait, on threads that run no step, which is no work of the steps.

    These are frames of functions that wait, on threads that ran no step, operator or other work; and the
    waits of XLA's runtime for work that it handed on. Of a trace that holds nothing but frames, no frame:
    nobody knows which thread it is about.
    """
    host = trace.device < 0
    lanes = len(trace.lanes) + 1
    frames, steps = (trace.kind == Kind.PYTHON_FRAME) & host, np.zeros(lanes, bool)
    steps[trace.lane[(trace.kind == Kind.STEP) & host]] = True
    busy = np.zeros(lanes, bool)
    busy[trace.lane[~frames]] = True
    mask = frames & ~busy[trace.lane] if not frames.all() else np.zeros(len(trace), bool)
    if len(trace.instructions):
        mask |= (trace.kind == Kind.OTHER) & host & ~steps[trace.lane]
    return np.asarray(mask & named(trace, WAITS)[trace.name])


def _within(trace: Trace, every: Windows, window: Ints) -> Ints:
    """Leave out everything outside all work of its rank."""
    inside = np.zeros(len(trace), bool)
    ends = trace.end_ns
    for rank, start, end in zip(every.rank, every.start_ns, every.end_ns, strict=True):
        inside |= (trace.rank == rank) & (trace.start_ns < end) & (ends > start)
        inside |= (trace.rank == rank) & (trace.start_ns >= start) & (ends <= end)
    return np.where(inside, window, -1)


def _stretches(every: StepTree, counted: _Counted) -> Stretches | None:
    """Return the stretches of the counted steps, with the numbers that these have."""
    if not every.wall_ns.sum() or not (len(every.row) or counted.marked):
        return None
    place = counted.place
    inside = np.flatnonzero(place[every.window] >= 0)
    known = place >= 0
    nothing = np.bincount(place[known], weights=every.nothing_ns[known], minlength=counted.windows)
    of_part = np.zeros(counted.windows, np.int64)
    of_part[place[known]] = every.nothing_part[known]
    return Stretches(
        row=every.row[inside],
        window=place[every.window[inside]],
        length_ns=every.length_ns[inside],
        part=every.part[inside],
        nothing_ns=nothing.astype(np.int64),
        nothing_part=of_part,
    )


@dataclass(frozen=True)
class _Counted:
    """The steps that count: that of each event and of each window, how many there are, and their name."""

    window: Ints
    place: Ints
    windows: int
    label: str
    marked: bool = True


def _counted(trace: Trace, every: Windows, step: int) -> _Counted:
    marked = np.flatnonzero(trace.step >= 0)
    if not len(marked):
        if step >= 0:
            raise UsageError(f"step {step} was not profiled", hint="no steps are marked; leave out -step")
        window, place = (np.zeros(size, np.int64) for size in (len(trace), len(every)))
        return _Counted(window, place, 1, "whole trace, no steps marked", marked=False)
    of_event = _windows_of(trace, every, marked)
    used = distinct(of_event)
    used = used[used >= 0]
    numbers = distinct(every.number[used])
    if step >= 0 and step not in numbers:
        raise UsageError(f"step {step} was not profiled", hint=f"steps: {_listed(numbers)}")
    chosen = used if step < 0 else used[every.number[used] == step]
    place = np.full(len(every) + 1, -1)  # the last is that of -1
    place[chosen] = np.arange(len(chosen))
    window = np.full(len(trace), -1, np.int32)
    window[marked] = place[of_event]
    ranks, steps = len(distinct(every.rank[used])), sum(every.where(chosen).steps.values())
    count = f"{steps} profiled step{'s' * (steps != 1)}"
    label = f"mean per step over {count}" if step < 0 else f"step {step}"
    label += f" on {ranks} ranks" if ranks > 1 else ""
    return _Counted(window, place[:-1], len(chosen), label)


def _windows_of(trace: Trace, every: Windows, marked: Ints) -> Ints:
    """Return the window of the step that each of these events is in, -1 for none.

    Several recordings of a rank may number their steps alike: then it is the last that had begun.
    """
    _, number = numbered(np.concatenate([every.number, trace.step[marked]]))
    ranks, rank = numbered(np.concatenate([every.rank, trace.rank[marked]]))
    key = number.astype(np.int64) * len(ranks) + rank
    known, (pairs, pair) = key[: len(every)], numbered(key[len(every) :])
    order = np.lexsort((every.start_ns, known))
    first = np.searchsorted(known[order], pairs)
    last = np.searchsorted(known[order], pairs, side="right") - 1
    at, until = first[pair], last[pair]
    for _ in range(int((last - first).max(initial=0))):
        later = np.minimum(at + 1, np.maximum(until, at))
        at = np.where(every.start_ns[order[later]] <= trace.start_ns[marked], later, at)
    return np.where(at <= until, np.append(order, -1)[at], -1)


def _listed(numbers: Ints) -> str:
    listed = [str(number) for number in numbers[:20]]
    return ", ".join(listed) + (", …" if len(numbers) > len(listed) else "")


def owners(trace: Trace, measures: Measures) -> Ints:
    """Return for each event the innermost operator at or above it, device work by its launch.

    Host events that are not operators and in none own themselves, as does device work of unknown origin and
    events of an XLA program's instructions; device work launched outside all operators belongs to the call
    that launched it.
    """
    operator = among(Kind.HOST_OP, Kind.DATA_LOADING)[trace.kind] & (trace.device < 0)
    owner = trace.nearest(operator)
    launched = np.flatnonzero(measures.above != trace.parent)
    owner[launched] = owner[measures.above[launched]]
    alone = np.flatnonzero(owner < 0)
    owner[alone] = np.where(measures.above[alone] == trace.parent[alone], alone, measures.above[alone])
    owner[trace.instructions.row] = trace.instructions.row
    return owner


def names_of(trace: Trace, owner: Ints, *, label: bool = True) -> Ints:
    """Return the name of each event's owner: an event that ran an XLA instruction has that instruction's.

    Args:
        trace: Any trace.
        owner: As :func:`owners` returns it.
        label: Whether the instruction's program stands before its name.
    """
    table = trace.instructions
    own: Ints = trace.name.copy()
    own[table.row] = table.label if label else table.instruction
    rows, names = _collectives(trace)
    own[rows] = names
    own_names: Ints = own[owner]
    return own_names


_WRAPPER = "record_param_comms"
"""PyTorch's operator around every collective; it is not a collective itself."""

_COLLECTIVE = re.compile(r"c10d::|(?:nccl|gloo|rccl|xccl|ucc|mpi):")


def _collectives(trace: Trace) -> tuple[Ints, Ints]:
    """Return the wrappers of collectives, and the name of the collective that each of them is.

    That is the operator around it, ``c10d::allreduce_``, else the annotation in it, ``nccl:all_reduce``, else
    whatever is around it, which waits for one.
    """
    rows: Ints = trace.named(_WRAPPER)
    if not len(rows):
        return rows, rows
    texts = trace.strings
    used = [n for n in distinct(trace.name).tolist() if _COLLECTIVE.match(texts[n])]
    around = trace.parent[rows]
    outer = np.where(around >= 0, trace.name[around], trace.name[rows])
    at = np.full(len(trace), -1, np.int32)
    at[rows] = np.arange(len(rows))
    inner = np.flatnonzero(np.isin(trace.name, used) & (trace.parent >= 0) & (at[trace.parent] >= 0))
    inside = outer.copy()
    inside[at[trace.parent[inner]]] = trace.name[inner]
    return rows, np.where(np.isin(outer, used), outer, inside)


def begins_call(trace: Trace, owner: Ints) -> Bools:
    """Return whether a call of its owner begins with each event."""
    begins: Bools = owner == np.arange(len(trace))
    begins[trace.instructions.row] = trace.instructions.calls > 0
    return begins


def paths(trace: Trace, measures: Measures, *, named: Bools) -> tuple[Ints, Ints, Ints]:
    """Number the chains of names from the outermost event down to each one.

    Args:
        trace: Any trace.
        measures: Its measures.
        named: Which events add their name to the chain; the others belong to all that is above them.

    Returns:
        The path of each event; and per path its parent path and last name. Path 0 is the empty one.
    """
    start = np.zeros(len(trace), np.int32)
    return chains(trace, measures.above, measures.level, start, count=1, named=named)


def chains(
    trace: Trace, above: Ints, level: Ints, start: Ints, *, count: int, named: Bools
) -> tuple[Ints, Ints, Ints]:
    """Number chains of names, level by level.

    Args:
        trace: Any trace.
        above: Of each event that around it, -1 for none.
        level: How many are around it.
        start: The chain in which an event with none around it stands.
        count: How many such chains there are; they have the first numbers.
        named: Which events add their name to the chain.

    Returns:
        The chain of each event; and per chain the one above it and its last name, -1 for the first ones.
    """
    path = np.zeros(len(trace), np.int32)
    parents, names = [np.full(count, -1, np.int32)], [np.full(count, -1, np.int32)]
    strings = max(len(trace.strings), 1)
    order = np.argsort(level.astype(np.uint16), kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(level))[:-1]) if len(order) else []:
        up = above[rows]
        inherited = np.where(up >= 0, path[up], start[rows])
        path[rows] = inherited
        new = named[rows]
        keys, inverse = numbered(inherited[new].astype(np.int64) * strings + trace.name[rows[new]])
        path[rows[new]] = count + inverse
        parents.append((keys // strings).astype(np.int32))
        names.append((keys % strings).astype(np.int32))
        count += len(keys)
    return path, np.concatenate(parents), np.concatenate(names)
