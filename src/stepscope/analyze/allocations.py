"""Pairs of allocations and frees, which show the memory held at any time.

By address if addresses were recorded. If they were not (PyTorch before 1.12, TensorFlow), a free is
that of the newest allocation of its size that is still held: the backward pass frees the forward pass's
memory in the opposite order, and temporary memory goes first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.attribute.spans import Ints
from stepscope.trace.model import Trace
from stepscope.trace.tables import MemoryAction

NEVER = np.iinfo(np.int64).max
CHANGES = (MemoryAction.ALLOCATE, MemoryAction.FREE)


def has_addresses(trace: Trace, rows: Ints) -> bool:
    """Return whether the allocations of these rows of the memory table have addresses."""
    return bool(trace.memory.address[rows].any())


def live_allocations(trace: Trace, rows: Ints, time_ns: int) -> Ints:
    """Return the rows of the allocations that were held at a time.

    An allocation is held until the next free of its address; a second allocation at an address whose free was
    not recorded replaces the first.

    Args:
        trace: The trace.
        rows: Rows of its memory table of one device, in time order.
        time_ns: The time; all that happened exactly then is included.
    """
    table = trace.memory
    rows = rows[np.isin(table.action[rows], CHANGES) & (table.time_ns[rows] <= time_ns)]
    place = _places(trace, rows)
    order = np.argsort(place, kind="stable")
    last = np.ones(len(rows), bool)
    last[:-1] = place[order][1:] != place[order][:-1]
    newest = rows[order[last]]
    return np.sort(newest[table.action[newest] == MemoryAction.ALLOCATE])


def freed_at(trace: Trace, rows: Ints) -> npt.NDArray[np.int64]:
    """Return when each allocation was freed.

    Args:
        trace: The trace.
        rows: Rows of its memory table of one device, in time order.

    Returns:
        i8[memory table], :data:`NEVER` for memory not freed while recording, and for rows that are none.
    """
    return times_of(trace, freed_by(trace, rows))


def times_of(trace: Trace, rows: Ints) -> npt.NDArray[np.int64]:
    """Return the times of rows of the memory table, :data:`NEVER` for -1."""
    return np.where(rows >= 0, trace.memory.time_ns[rows], NEVER).astype(np.int64)


def freed_by(trace: Trace, rows: Ints) -> npt.NDArray[np.int64]:
    """Return the row of the memory table that freed each allocation.

    Args:
        trace: The trace.
        rows: Rows of its memory table of one device, in time order.

    Returns:
        i8[memory table], -1 for memory not freed while recording, and for rows that are none.
    """
    table = trace.memory
    rows = rows[np.isin(table.action[rows], CHANGES)]
    place = _places(trace, rows)
    order = np.argsort(place, kind="stable")
    here, after = rows[order[:-1]], rows[order[1:]]
    same = place[order[:-1]] == place[order[1:]]
    follows = same & (table.action[here] == MemoryAction.ALLOCATE)
    freed = np.full(len(table), -1, np.int64)
    freed[here[follows]] = after[follows]
    return freed


def _places(trace: Trace, rows: Ints) -> npt.NDArray[np.uint64]:
    """Return the key that an allocation and its free share: the address, or else size and nesting."""
    table = trace.memory
    if not len(rows) or has_addresses(trace, rows):
        return table.address[rows].astype(np.uint64)
    size = np.abs(table.bytes[rows])
    order = np.argsort(size, kind="stable")
    up = np.where(table.action[rows[order]] == MemoryAction.ALLOCATE, 1, -1)
    sizes, first = np.unique(size[order], return_index=True)
    group = np.searchsorted(sizes, size[order])
    level = np.cumsum(up)
    level -= (level - up)[first][group]  # each size counts from 0
    # An allocation opens the level that it reaches, a free closes the one that it leaves; what was freed
    # without an allocation goes below 0 and meets none.
    opened = np.where(up > 0, level, level + 1)
    place = np.empty(len(rows), np.int64)
    place[order] = group << 32 | (opened + (1 << 31))
    return place.astype(np.uint64)
