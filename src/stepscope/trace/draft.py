"""The draft that an importer delivers: one file's events as columns, in any order and without structure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.model import Device, Kind, Lane, ProcessGroup
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


class Rows:
    """Events of one process in the making, row by row.

    Attributes:
        lanes: The lanes, in the order of their first events.
        rows: Name, kind, lane, start, duration, correlation and bytes of each event, -1 for none.
        kernels: Row, stream, grid, block, registers and shared memory of each launch.
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self.lanes: dict[Lane, int] = {}
        self.rows: list[tuple[int, ...]] = []
        self.kernels: list[tuple[int, ...]] = []

    def add(
        self, name: str, kind: Kind, lane: Lane, *times: int, correlation: int = -1, size: int = -1
    ) -> int:
        """Add an event and return its row.

        Args:
            name: Its name.
            kind: Its kind.
            lane: The thread or stream that it ran on.
            times: Start and duration.
            correlation: What joins it to the call that launched it.
            size: Bytes that it moved.
        """
        number = self._names.setdefault(name, len(self._names))
        place = self.lanes.setdefault(lane, len(self.lanes))
        self.rows.append((number, kind, place, *times, correlation, size))
        return len(self.rows) - 1

    @property
    def first_ns(self) -> int | None:
        """The earliest start; None without events."""
        return min((row[3] for row in self.rows), default=None)

    def draft(self, origin: int, **facts: Any) -> Draft:
        """Return the draft.

        Args:
            origin: What times are counted from.
            facts: Its other fields.
        """
        columns = np.array(self.rows, np.int64).reshape(-1, 7).T
        draft = Draft(
            strings=Strings.of(self._names), lanes=list(self.lanes), name=columns[0].astype(np.int32),
            kind=columns[1].astype(np.uint8), lane=columns[2].astype(np.int32), start_ns=columns[3] - origin,
            duration_ns=columns[4], correlation=columns[5], bytes=columns[6], **facts,
        )  # fmt: skip
        if self.kernels:
            keys = ("row", "stream", "grid", "block", "registers", "shared_bytes")
            nothing = np.full(len(self.kernels), np.nan)
            draft.kernels = dict(zip(keys, np.array(self.kernels, np.int64).T, strict=True))
            draft.kernels |= dict.fromkeys(("occupancy", "blocks_per_sm", "warps_per_sm"), nothing)
        return draft


def empty_events() -> dict[str, Any]:
    """Return the required event columns without rows, for files that hold no timeline."""
    return {
        "name": np.zeros(0, np.int32),
        "kind": np.zeros(0, np.uint8),
        "lane": np.zeros(0, np.int32),
        "start_ns": np.zeros(0, np.int64),
        "duration_ns": np.zeros(0, np.int64),
    }
