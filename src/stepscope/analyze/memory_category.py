"""Categories of memory: activations, gradients, optimizer state, parameters, input, temporary.

The recorder's own category counts, as in PyTorch's memory timeline. Else it is derived for each
allocation from the part of the step in which it was made
(:mod:`stepscope.attribute.attribution`, or the stack of a memory snapshot) and from how long it was held:

- made while data was loaded: input
- made in the forward pass, or in no known part: an activation if the next backward pass began while it was
  held; if it was freed before, temporary if it was made in the forward pass
- made in the backward pass: a gradient if it was held until the optimizer ran, or beyond the pass if no
  optimizer was recorded; else temporary
- made in the optimizer: its state if it was held until the next forward pass; else temporary
- made by a module's constructor or by moving it to a device (known from stacks alone): a parameter

The end of a step also ends its parts. A recording ends outside of them, because the thread that runs the
steps ends it, unless memory ran out. If an input of an answer is missing, the category is not known, and
:data:`MISSING` names the missing data.

Memory allocated before the recording began is not among them: it is ``Peak.before_bytes``, and holds the
parameters of most profiles. PyTorch's own memory profiler needs the data flow for more; the rest it calls
unknown too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.allocations import NEVER, freed_by, times_of
from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints
from stepscope.attribute.table import ACTIVITY_NAMES, MAKES, STACK_NAMES
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction, MemoryCategory

Category = MemoryCategory


PART, BACKWARD, END, RECORDER = range(4)
"""An input that a category needs and the profile does not record."""
MISSING = (
    "this profile does not record in which part of a step they were made",
    "this profile records no backward pass after them, which shows what is kept for one",
    "memory ran out before the end of the part of the step in which they were made",
    "the recorder does not say",
)
"""Each in words, about the allocations that lack it."""


@dataclass(frozen=True, slots=True)
class Categories:
    """The purpose of every allocation of one device; rows that are not its allocations have -1."""

    category: npt.NDArray[np.int8]
    """i1[memory table], a :class:`Category`."""
    missing: npt.NDArray[np.int8]
    """i1[memory table], the place in :data:`MISSING` of an unknown category, -1 of a known one."""

    def why(self, rows: Ints) -> tuple[str, ...]:
        """Return the missing data for the unknown categories of some rows, the most frequent first."""
        reasons, count = np.unique(self.missing[rows][self.missing[rows] >= 0], return_counts=True)
        return tuple(MISSING[number] for number in reasons[np.argsort(-count, kind="stable")].tolist())


_MAKING = -2
_PART = np.full(len(Purpose), Purpose.UNKNOWN, np.int32)
"""The part of the step of an event by its purpose."""
_PART[[Purpose.FORWARD, Purpose.EVALUATING]] = Purpose.FORWARD
_PART[[Purpose.BACKWARD, Purpose.OPTIMIZER]] = Purpose.BACKWARD, Purpose.OPTIMIZER
_PART[[Purpose.LOADING, Purpose.PREPROCESSING]] = Purpose.LOADING

_OUTER = (Purpose.BACKWARD, Purpose.OPTIMIZER)
"""Parts that run code of the others: the innermost counts. A closure of the optimizer runs a backward pass,
which may repeat a forward pass (checkpointing), and hooks of a backward pass may run an optimizer."""


def categories(trace: Trace, rows: Ints) -> Categories | None:
    """Return the category of every allocation of one device, None if nothing tells.

    Args:
        trace: The trace.
        rows: Rows of its memory table of one device, in time order.
    """
    table = trace.memory
    made = rows[table.action[rows] == MemoryAction.ALLOCATE]
    judged = Categories(np.full(len(table), -1, np.int8), np.full(len(table), -1, np.int8))
    if (table.category[made] >= 0).any():
        judged.category[made] = np.where(table.category[made] >= 0, table.category[made], Category.UNKNOWN)
        judged.missing[made[judged.category[made] == Category.UNKNOWN]] = RECORDER
        return judged
    phase = made_in(trace, rows)
    if not np.isin(phase[rows], (Purpose.BACKWARD, Purpose.OPTIMIZER, _MAKING)).any():
        return None
    _Judge(trace, rows, phase).judge(made, judged)
    return judged


def made_in(trace: Trace, rows: Ints) -> npt.NDArray[np.int32]:
    """Return the part of the step of each row of the memory table; :data:`_MAKING` = made a module."""
    table = trace.memory
    part = np.full(len(table), Purpose.UNKNOWN, np.int32)
    inside = rows[table.row[rows] >= 0]
    if len(trace):
        part[inside] = _PART[attribution(trace).purpose[table.row[inside]]]
    stack = table.stack.copy()
    stack[inside] = np.where(stack[inside] < 0, trace.stack[table.row[inside]], stack[inside])
    left = rows[(part[rows] == Purpose.UNKNOWN) & (stack[rows] >= 0)]
    for number in distinct(stack[left]).tolist():
        part[left[stack[left] == number]] = _part_of(trace.stacks.parts(number))
    if len(left):
        _carry_backward(part, rows, (table.row[rows] < 0) & (stack[rows] < 0))
    return part


def _part_of(stack: list[str]) -> int:
    """Return the part of the step that a stack tells, of frames, outermost first."""
    purposes = [STACK_NAMES.purpose_of(frame) for frame in stack]
    inner = next((purpose for purpose in reversed(purposes) if purpose in _OUTER), None)
    if inner is not None:
        return inner
    if any(_PART[ACTIVITY_NAMES.purpose_of(frame)] == Purpose.LOADING for frame in stack):
        return Purpose.LOADING
    if any(MAKES.search(frame) for frame in stack):
        return _MAKING
    return Purpose.FORWARD if Purpose.FORWARD in purposes else Purpose.UNKNOWN


def _carry_backward(part: npt.NDArray[np.int32], rows: Ints, bare: npt.NDArray[np.bool_]) -> None:
    """Take events without any stack as the backward pass's, if the last stack was there.

    Snapshots of Python stacks alone have none for the threads of autograd's engine, which works while the
    thread that called ``backward`` waits in it.
    """
    place = np.maximum.accumulate(np.where(bare, -1, np.arange(len(rows))))
    last = np.where(place >= 0, part[rows[np.maximum(place, 0)]], Purpose.UNKNOWN)
    part[rows[bare & (last == Purpose.BACKWARD)]] = Purpose.BACKWARD


class _Judge:
    """Judges the allocations of one device by when the parts of the steps begin after them."""

    def __init__(self, trace: Trace, rows: Ints, phase: npt.NDArray[np.int32]) -> None:
        table = trace.memory
        rank = int(table.rank[rows[0]])
        self._time, self._phase, self._freed_by = table.time_ns, phase, freed_by(trace, rows)
        self._freed = times_of(trace, self._freed_by)
        events = _PART[attribution(trace).purpose]
        host = (trace.rank == rank) & (trace.device < 0)
        self._starts = {
            part: np.sort(
                np.concatenate(
                    (trace.start_ns[host & (events == part)], table.time_ns[rows[phase[rows] == part]])
                )
            )
            for part in (Purpose.FORWARD, Purpose.BACKWARD, Purpose.OPTIMIZER)
        }
        # What follows a step, such as its bookkeeping, is judged with it.
        self._steps = np.sort(trace.steps.start_ns[trace.steps.rank == rank])
        failed = rows[table.action[rows] == MemoryAction.OUT_OF_MEMORY]
        self._failed = int(table.time_ns[failed].max()) if len(failed) else -1

    def judge(self, made: Ints, judged: Categories) -> None:
        """Set the category of some allocations, or the missing data for it."""
        part, until, time = self._phase[made], self._freed[made], self._time[made]
        end = self._next(self._steps[1:], time + 1)
        optimizer = self._next(self._starts[Purpose.OPTIMIZER], time)
        backward = self._next(self._starts[Purpose.BACKWARD], time)
        forward = self._next(self._starts[Purpose.FORWARD], time)

        def put(here: npt.NDArray[np.bool_], category: Category) -> None:
            judged.category[made[here]] = category

        def lacks(here: npt.NDArray[np.bool_], what: int) -> None:
            judged.category[made[here]], judged.missing[made[here]] = Category.UNKNOWN, what

        lacks(np.ones(len(made), bool), PART)
        put(part == Purpose.LOADING, Category.INPUT)
        put(part == _MAKING, Category.PARAMETER)
        marked = len(self._steps) > 0
        passed = optimizer if marked else np.where(optimizer < NEVER, optimizer, forward)
        updated = end if marked else np.minimum(forward, backward)
        for mine, limit, category in (
            (Purpose.FORWARD, backward, Category.ACTIVATION),
            (Purpose.BACKWARD, passed, Category.GRADIENT),
            (Purpose.OPTIMIZER, updated, Category.OPTIMIZER_STATE),
        ):
            here, limit = part == mine, np.minimum(limit, end)
            put(here & (until < limit), Category.TEMPORARY)
            put(here & (until >= limit), category)
            open_end = here & (until == NEVER) & (limit == NEVER)
            if mine == Purpose.FORWARD and not marked:
                lacks(open_end, BACKWARD)
            lacks(open_end & (time <= self._failed), END)
        # The backward pass frees what was kept for it, whoever made that: a loss is made in no module.
        freed_in = np.where(self._freed_by[made] >= 0, self._phase[self._freed_by[made]], Purpose.UNKNOWN)
        put(
            (part == Purpose.UNKNOWN) & (until >= backward) & (freed_in == Purpose.BACKWARD),
            Category.ACTIVATION,
        )
        judged.missing[made[judged.category[made] != Category.UNKNOWN]] = -1

    def _next(self, starts: Ints, time: Ints) -> npt.NDArray[np.int64]:
        """Return the first of some times that is not before each time, :data:`NEVER` if there is none."""
        place = np.searchsorted(starts, time)
        return np.append(starts, NEVER)[place].astype(np.int64)
