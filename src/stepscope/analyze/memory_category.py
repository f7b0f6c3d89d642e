"""Categories of memory: activations, gradients, optimizer state, parameters, input, temporary.

Where the recorder says it, as PyTorch's memory timeline does, that is taken. Else it is derived for each
allocation from the part of the step in which it was made
(:mod:`stepscope.analyze.phases`, or the Python stack of a memory snapshot) and from how long it was held:

- made while data was loaded: input
- made in the forward pass: an activation where it was held until that step's backward pass or beyond, else
  workspace
- made in the backward pass: a gradient where it was held until the optimizer ran or beyond, else temporary
- made in the optimizer: its state where it was held until the next step or beyond, else temporary
- made by a module's constructor or by moving it to a device (known from stacks alone): a parameter
- anything else: other

What was allocated before the recording began is not among them: it is ``Peak.before_bytes``, and holds the
parameters of most profiles. PyTorch's own memory profiler needs the data flow for more; what it cannot place
it calls unknown too.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyze.allocations import NEVER, freed_at
from stepscope.analyze.phases import Phase, phases
from stepscope.analyze.spans import Ints
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction, MemoryCategory

Category = MemoryCategory


_STACKS: tuple[tuple[int, re.Pattern[str]], ...] = (
    (Phase.OPTIMIZER, re.compile(r"torch/optim/|/optimizers?/|optax/")),
    (Phase.BACKWARD, re.compile(r"_engine_run_backward|torch/autograd/(__init__|function)\.py")),
    (Phase.DATA_LOADING, re.compile(r"utils/data/|pin_memory")),
    (-2, re.compile(r"torch/nn/(modules/\S+|init)\.py[^\n]*(__init__|reset_parameters|_apply|convert)")),
    (Phase.FORWARD, re.compile(r"torch/nn/modules/|_call_impl|\bforward\b")),
)  # fmt: skip
"""Categories derived from stacks where events have none; -2 is the making of a module."""

_MAKING = -2


def categories(trace: Trace, rows: Ints) -> npt.NDArray[np.int8] | None:
    """Return the category of every allocation of one device, None if nothing tells.

    Args:
        trace: The trace.
        rows: Rows of its memory table of one device, in time order.

    Returns:
        i1[memory table], a :class:`Category`; -1 for rows that are not allocations of this device.
    """
    table = trace.memory
    made = rows[table.action[rows] == MemoryAction.ALLOCATE]
    if (table.category[made] >= 0).any():
        told = np.full(len(table), -1, np.int8)
        told[made] = np.where(table.category[made] >= 0, table.category[made], Category.OTHER)
        return told
    phase = made_in(trace, rows)
    if not np.isin(phase[rows], (Phase.BACKWARD, Phase.OPTIMIZER, _MAKING)).any():
        return None
    freed = freed_at(trace, rows)
    found = np.full(len(table), -1, np.int8)
    found[made] = Category.OTHER
    for begin, end, times in _stretches(trace, made):
        mine = made[(table.time_ns[made] >= begin) & (table.time_ns[made] < end)]
        _judge(found, phase, freed, mine, times, end)
    return found


def made_in(trace: Trace, rows: Ints) -> npt.NDArray[np.int32]:
    """Return the phase in which each row of the memory table happened; -1 = not known, -2 = made a module."""
    table = trace.memory
    found = np.full(len(table), -1, np.int32)
    inside = rows[table.row[rows] >= 0]
    if len(trace):
        found[inside] = phases(trace).phase[table.row[inside]]
    stack = table.stack.copy()
    stack[inside] = np.where(stack[inside] < 0, trace.stack[table.row[inside]], stack[inside])
    left = rows[(found[rows] < 0) & (stack[rows] >= 0)]
    for number in distinct(stack[left]).tolist():
        text = trace.stacks.text(number, "\n")
        told = next((phase for phase, rule in _STACKS if rule.search(text)), -1)
        found[left[stack[left] == number]] = told
    return found


Times = tuple[int, int]
"""When the backward pass and the optimizer of a stretch began, :data:`NEVER` where they did not."""


def _stretches(trace: Trace, made: Ints) -> list[tuple[int, int, Times]]:
    """Return what to judge together: each step with what follows it, or all where no steps were marked."""
    if not len(made):
        return []
    rank = int(trace.memory.rank[made[0]])
    mine = trace.steps.rank == rank
    starts = np.sort(trace.steps.start_ns[mine])
    phase = phases(trace).phase if len(trace) else np.zeros(0, np.int32)
    at = {
        part: np.sort(trace.start_ns[(phase == part) & (trace.rank == rank) & (trace.device < 0)])
        for part in (Phase.BACKWARD, Phase.OPTIMIZER)
    }
    bounds = [-NEVER, *starts.tolist()[1:], NEVER]
    found = []
    for begin, end in pairwise(bounds):
        backward = _first(at[Phase.BACKWARD], begin, end)
        # Clearing gradients counts as the optimizer's, and may come first in a step.
        optimizer = _first(at[Phase.OPTIMIZER], begin if backward == NEVER else backward, end)
        found.append((begin, end, (backward, optimizer)))
    return found


def _first(starts: Ints, begin: int, end: int) -> int:
    place = int(np.searchsorted(starts, begin))
    first = int(starts[place]) if place < len(starts) else NEVER
    return first if first < end else NEVER


def _judge(
    found: npt.NDArray[np.int8],
    phase: npt.NDArray[np.int32],
    freed: npt.NDArray[np.int64],
    mine: Ints,
    times: Times,
    end: int,
) -> None:
    backward, optimizer = times
    of, until = phase[mine], freed[mine]

    def put(part: int, category: Category, held: npt.NDArray[np.bool_]) -> None:
        here = of == part
        found[mine[here & held]] = category
        found[mine[here & ~held]] = Category.TEMPORARY

    always = np.ones(len(mine), bool)
    # Without a backward pass after it, held means held to the end of the step.
    put(Phase.FORWARD, Category.ACTIVATION, until >= min(backward, end))
    put(Phase.BACKWARD, Category.GRADIENT, until >= min(optimizer, end))
    put(Phase.OPTIMIZER, Category.OPTIMIZER_STATE, until >= end)
    put(Phase.DATA_LOADING, Category.INPUT, always)
    put(_MAKING, Category.PARAMETER, always)
