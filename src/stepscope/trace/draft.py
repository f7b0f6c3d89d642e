"""The draft that an importer delivers: one file's events as columns, in any order and without structure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.model import Device, Lane, ProcessGroup
from stepscope.trace.names import Paths, Strings

Array = npt.NDArray[Any]


@dataclass(slots=True)
class InstantEvents:
    """Things at one instant of a lane, in file order: allocations, ends of arrows, counter samples, marks."""

    lane: Array
    time_ns: Array
    columns: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(slots=True)
class Draft:
    """Events of one file in any order; see :class:`~stepscope.trace.model.Trace` for the columns.

    ``row`` columns of tables are rows of the draft. Times count from ``origin_ns``. An optional column that
    is None is not recorded.
    """

    format: str
    path: str
    strings: Strings
    lanes: list[Lane]
    """In display order; their rank is the draft's."""
    name: Array
    kind: Array
    lane: Array
    start_ns: Array
    duration_ns: Array
    """Negative ones are repaired and counted, those beyond a week are dropped and counted."""

    rank: int = 0
    rank_known: bool = False
    """Whether the file itself says which rank it is of."""
    world_size: int = 0
    host: str = ""
    file_bytes: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    origin_ns: int = 0
    clock: str = "relative"
    resolution_ns: int = 1
    untimed: bool = False
    """Starts are an order and durations span the calls; neither is a time."""

    correlation: Array | None = None
    external: Array | None = None
    """External id: joins device work and the operator that launched it, if no correlation does."""
    bytes: Array | None = None
    flops: Array | None = None
    scope: Array | None = None
    """Scopes that the format itself gives, as paths of ``scopes``; events without one take their parent's."""
    scopes: Paths | None = None
    stack: Array | None = None
    """Stacks that the format itself gives, as paths of ``stacks``."""
    stacks: Paths | None = None
    """Names of frames in ``strings``: events without a stack take that of the frames around them."""
    step: Array | None = None
    """Step numbers that the format itself gives, -1 for none."""
    step_number: Array | None = None
    """For rows of kind STEP: the number of the step."""
    steps: dict[str, Array] | None = None
    """Step windows that are not events: number, start_ns, end_ns."""

    operators: dict[str, Array] | None = None
    kernels: dict[str, Array] | None = None
    instructions: dict[str, Array] | None = None
    collectives: dict[str, Array] | None = None
    syncs: dict[str, Array] | None = None
    memory: InstantEvents | None = None
    """Columns: device, action, address, bytes, allocated_bytes, reserved_bytes, stack. Lane -1: unknown."""
    counters: InstantEvents | None = None
    """Columns: name, value."""
    marks: InstantEvents | None = None
    """Columns: name."""
    arrows: InstantEvents | None = None
    """Columns: id, begins (bool), name."""
    forward_arrows: InstantEvents | None = None
    """Columns: id, begins (bool): from forward to backward operators."""

    devices: list[Device] = field(default_factory=list)
    process_groups: list[ProcessGroup] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    """Features that were recorded though no row may show them; the others are found from the rows."""
    not_recorded: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def drop(self, what: str, count: int) -> None:
        """Count something that was lost or repaired."""
        if count:
            self.dropped[what] = self.dropped.get(what, 0) + int(count)


def empty_events() -> dict[str, Any]:
    """Return the required event columns without rows, for files that hold no timeline."""
    return {
        "name": np.zeros(0, np.int32),
        "kind": np.zeros(0, np.uint8),
        "lane": np.zeros(0, np.int32),
        "start_ns": np.zeros(0, np.int64),
        "duration_ns": np.zeros(0, np.int64),
    }
