"""PyTorch's memory timelines: ``profiler.export_memory_timeline`` to ``.raw.json.gz`` or ``.json``.

The raw form is one ``[time in ns, action, bytes, category]`` per change; earlier allocations have no time,
and a tensor that is written to becomes one of another category. The other form has the sizes of all
categories at each change. Neither names its device.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Array, Draft, InstantEvents, empty_events
from stepscope.trace.model import FEATURES
from stepscope.trace.names import Strings
from stepscope.trace.tables import MemoryAction, MemoryCategory

_CATEGORIES = np.array(
    [
        MemoryCategory.PARAMETER, MemoryCategory.OPTIMIZER_STATE, MemoryCategory.INPUT,
        MemoryCategory.TEMPORARY, MemoryCategory.ACTIVATION, MemoryCategory.GRADIENT,
        MemoryCategory.UNKNOWN, MemoryCategory.UNKNOWN,
    ]
)  # fmt: skip
"""Categories by torch's number; the last two are autograd's own, and unknown."""

_ACTIONS = (1, 2, 3, 4)
"""Was there before, was made, was written to (one category less, another more), was freed."""

_NO_DEVICE = "the file does not say which device it describes; it is shown as device 0"
_REASON = "a memory timeline holds sizes over time alone; open what export_chrome_trace() writes"


def read(path: Path) -> list[Draft]:
    """Read a memory timeline.

    Raises:
        TraceError: Not such a document.
        EmptyTraceError: No change in it.
    """
    with Blocks(path) as blocks:
        data = b"".join(blocks)
    try:
        content = msgspec.json.decode(data)
        sized = len(content) == 2 and bool(content[1]) and isinstance(content[1][0], list)
        memory = _sizes(*content) if sized else _events(np.array(content, np.int64))
    except (msgspec.DecodeError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise TraceError(
            f"not a memory timeline as PyTorch writes it: {error}",
            hint="pass the whole file of profiler.export_memory_timeline(), as .raw.json.gz or .json",
            path=path,
        ) from error
    if not len(memory):
        raise EmptyTraceError(
            "the memory timeline holds no allocation",
            hint="record with profile_memory, record_shapes and with_stack; export the device in use",
            path=path,
        )
    origin = int(memory.time_ns.min())
    memory.time_ns = memory.time_ns - origin
    draft = Draft(
        format="memory_timeline",
        path=str(path),
        strings=Strings.of([]),
        lanes=[],
        **empty_events(),
        origin_ns=origin,
        clock="unix" if origin > 10**17 else "relative",
        file_bytes=len(data),
        not_recorded=dict.fromkeys((name for name in FEATURES if name != "memory"), _REASON),
        notes=[_NO_DEVICE],
    )
    draft.memory = memory
    return [draft]


def _events(rows: Array) -> InstantEvents:
    """Return changes; freed memory is known by category and size, the file's only facts."""
    if rows.ndim != 2 or rows.shape[1] != 4 or not np.isin(rows[:, 1], _ACTIONS).all():
        raise ValueError("expected events of time, action, bytes and category")
    if rows[:, 3].min() < 0 or rows[:, 3].max() >= len(_CATEGORIES):
        raise ValueError(f"expected categories below {len(_CATEGORIES)}, found {rows[:, 3].max()}")
    rows = rows[rows[:, 2] != 0]
    before, known = rows[:, 1] == _ACTIONS[0], rows[:, 0] >= 0
    time = np.where(known, rows[:, 0], int(rows[known, 0].min()) if known.any() else 0)
    order = np.lexsort((time, ~before))
    rows, time, before = rows[order], time[order], before[order]
    size = rows[:, 2]
    action = np.where(size > 0, MemoryAction.ALLOCATE, MemoryAction.FREE)
    level = np.cumsum(size)
    return _points(
        time,
        action=np.where(before, MemoryAction.SNAPSHOT, action),
        address=_addresses(rows[:, 3], size),
        bytes=size,
        allocated_bytes=np.where(before, size[before].sum(), level),
        category=_CATEGORIES[rows[:, 3]],
    )


def _addresses(category: Array, size: Array) -> Array:
    """Number allocations, and give each free the last one of its category and size that is still there."""
    held: dict[tuple[int, int], list[int]] = {}
    numbers = []
    for number, (kind, change) in enumerate(zip(category.tolist(), size.tolist(), strict=True), 1):
        same = held.setdefault((kind, abs(change)), [])
        if change > 0:
            same.append(number)
        numbers.append(same.pop() if change < 0 and same else number)
    return np.array(numbers, np.int64)


def _sizes(times: list[int], sizes: list[list[int]]) -> InstantEvents:
    if len(times) != len(sizes):
        raise ValueError(f"expected as many sizes as times, found {len(sizes)} and {len(times)}")
    total = np.array(sizes, np.int64).sum(axis=1)
    nothing = np.zeros(len(total), np.int64)
    return _points(
        np.array(times, np.int64) * 1000,
        action=np.full(len(total), MemoryAction.LEVEL),
        address=nothing,
        bytes=nothing,
        allocated_bytes=total,
        category=nothing - 1,
    )


def _points(time: Array, **columns: Array) -> InstantEvents:
    device = np.zeros(len(time), np.int64)
    return InstantEvents(np.full(len(time), -1), time, {"device": device, **columns})
