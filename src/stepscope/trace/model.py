"""The Trace: every profile, from whatever framework, as the same columns.

One row per event that has a duration, sorted by (rank, lane, start, longest first), so that a parent's row
always precedes its children's rows and each lane is one contiguous stretch. All columns are numpy arrays of
one length and must not be written to: they may be views of a cache file.

Read a column with ``trace.start_ns``; names are numbers into ``trace.strings``::

    kernels = np.flatnonzero(trace.kind == Kind.KERNEL)
    names = trace.strings[trace.name[kernels[0]]]

Missing knowledge is stated, never guessed: :attr:`Trace.recorded` is the set of features that
the file holds, :attr:`Trace.not_recorded` gives the reason for each one that it lacks, :attr:`Trace.dropped`
counts the parts of the file that are not in the columns, :attr:`Trace.notes` are sentences for the user. In
columns, "not recorded" is -1 (``bytes``, ``flops``, ``step``, ``parent``, links, paths), never 0.

Facts that not every row has live in small tables: :attr:`Trace.steps`, ``operators`` (shapes),
``kernels`` (grid, occupancy), ``instructions`` (of XLA programs), ``collectives``, ``memory``, ``syncs``,
``flows``, ``counters``, ``marks``.
Their ``row`` column is a row of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.cell import card_html
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.text import counted
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import (
    TABLES,
    Collectives,
    Counters,
    Flows,
    Instructions,
    Ints,
    Kernels,
    Marks,
    Memory,
    Operators,
    StepWindows,
    Syncs,
)

if TYPE_CHECKING:
    import polars as pl


class Kind(IntEnum):
    """The kind of an event. The set is closed: an importer fits its events into these."""

    OTHER = 0
    HOST_OP = 1  # an operator on a CPU thread; in TF traces also one that the CPU device itself executed
    PYTHON_FRAME = 2
    MODULE_SCOPE = 3
    RUNTIME_CALL = 4  # cudaLaunchKernel, cudaMemcpyAsync, hipModuleLaunchKernel, …
    KERNEL = 5  # computation on a device
    MEMCPY = 6
    MEMSET = 7
    COLLECTIVE = 8  # where it runs: on a device (device >= 0), or on the host (gloo, flight recorder)
    SEND_RECV = 9
    DATA_LOADING = 10
    ANNOTATION = 11
    STEP = 12
    SYNC = 13  # a wait recorded on a device's stream
    OVERHEAD = 14  # the profiler's own work


@lru_cache(64)
def among(*kinds: Kind) -> npt.NDArray[np.bool_]:
    """Return bool[kinds], whether each kind is one of some: ``among(...)[kind]`` looks a column up.

    The table is shared and must not be written to. Small columns take a tenth of the time of ``np.isin``.
    """
    table = np.zeros(max(Kind) + 1, bool)
    table[list(kinds)] = True
    table.flags.writeable = False
    return table


DEVICE_WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.COLLECTIVE, Kind.SEND_RECV)
"""Kinds that keep a device busy, if ``device >= 0``."""

FEATURES = {
    "timeline": "events with a start and a duration",
    "steps": "marked steps",
    "device": "work on an accelerator",
    "launches": "links from host calls to the device work that they launched",
    "backward": "links from backward operators to the forward ones",
    "modules": "module scopes (nn.Module, name scopes)",
    "stacks": "Python stacks",
    "shapes": "shapes of operators' inputs",
    "flops": "floating point operations of operators",
    "bytes": "bytes moved by copies and collectives",
    "memory": "allocations",
    "collectives": "kind, group and sizes of collectives",
    "syncs": "records of which event or stream was waited for",
    "occupancy": "occupancy of kernels",
    "counters": "counters over time",
}
"""Names used in :attr:`Trace.recorded` and the keys of :attr:`Trace.not_recorded`."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: a host thread or a device stream of one rank."""

    rank: int
    process: str
    """Display name of the process or device, such as ``python 4711`` or ``GPU 0``."""
    thread: str
    """Display name of the thread or stream, such as ``thread 4711`` or ``stream 7``."""
    device: int = -1
    """Index of the device among its rank's; -1 is the host."""
    stream: int = -1
    sort: int = 0
    """Position asked for by the recorder; lanes of a rank are stored in display order."""


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator of one rank. Zero or empty is not recorded."""

    rank: int
    index: int
    name: str
    memory_bytes: int = 0
    multiprocessors: int = 0
    capability: str = ""
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A communicator as one rank saw it."""

    rank: int
    name: str
    description: str
    ranks: tuple[int, ...]
    backend: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """One file that went into a trace."""

    path: str
    format: str
    rank: int
    events: int
    file_bytes: int = 0
    rank_known: bool = False
    """Whether the file itself says its rank; else it comes from names, or is 0."""
    world_size: int = 0
    host: str = ""
    origin_ns: int = 0
    """Unix time of this file's own zero; 0 if its clock is not Unix time."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Top-level metadata of the file, as recorded (versions, flags, distributedInfo)."""


COLUMNS: dict[str, Any] = {
    "name": np.int32, "kind": np.uint8, "rank": np.int32, "step": np.int32, "device": np.int16,
    "lane": np.int32, "start_ns": np.int64, "duration_ns": np.int64, "parent": np.int32, "depth": np.int16,
    "self_ns": np.int64, "correlation": np.int64, "launch": np.int32, "forward": np.int32,
    "scope": np.int32, "stack": np.int32, "bytes": np.int64, "flops": np.int64,
}  # fmt: skip
"""The columns of :class:`Trace` and their types: 91 bytes per event."""


_Found = TypeVar("_Found")


class _Derived:
    """Results about a trace that several analyses need: kept as long as the trace, but not part of it."""

    __slots__ = ("_found",)
    _found: dict[str, Any]

    def derived(self, name: str, find: Callable[[], _Found]) -> _Found:
        """Return the value kept under a name; it is computed when it is first needed."""
        try:
            memo = self._found
        except AttributeError:
            memo = {}
            object.__setattr__(self, "_found", memo)
        if name not in memo:
            memo[name] = find()
        value: _Found = memo[name]
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(_Derived):
    """One or more ranks' profiles as columns; see the module for how to read it."""

    # --- one value per event ---
    name: Ints
    """Number into ``strings``."""
    kind: Ints
    """A :class:`Kind`."""
    rank: Ints
    step: Ints
    """Number of the step it belongs to, device work by the step that launched it; -1 outside every step."""
    device: Ints
    """Index of the device within its rank, -1 is the host."""
    lane: Ints
    """Number into ``lanes``."""
    start_ns: Ints
    """Since ``origin_ns``."""
    duration_ns: Ints
    """Never negative: a negative one is stored as 0 and counted in ``dropped``."""
    parent: Ints
    """Row of the innermost event of the same lane that contains it, -1 = none."""
    depth: Ints
    """Number of ancestors."""
    self_ns: Ints
    """Duration minus the time of its children; children that overlap are counted once."""
    correlation: Ints
    """Joins a runtime call and the device work that it launched; unique within a rank. -1 = none."""
    launch: Ints
    """For device work: row of the runtime call (else the operator) that launched it, -1 = not recorded."""
    forward: Ints
    """For backward operators and all below them, kernels included: row of the forward operator, -1 = none."""
    scope: Ints
    """Module scope, a path of ``scopes``, -1 = none. Device work has its launch's, backward its forward's."""
    stack: Ints
    """Python stack, outermost first, as a path of ``stacks``; -1 = not recorded."""
    bytes: Ints
    """Bytes copied, set or communicated; -1 = not recorded."""
    flops: Ints
    """Floating point operations, -1 = not recorded."""

    # --- names ---
    strings: Strings
    scopes: Paths
    stacks: Paths

    # --- run-level facts ---
    format: str
    """``kineto xplane timeline step_stats flight_recorder memory_snapshot memory_timeline execution_trace
    chrome nsys rocprof onnxruntime``, or ``mixed``."""
    sources: tuple[Source, ...]
    lanes: tuple[Lane, ...]
    devices: tuple[Device, ...] = ()
    process_groups: tuple[ProcessGroup, ...] = ()
    origin_ns: int = 0
    """Unix time of ``start_ns == 0`` if ``clock`` is ``"unix"``."""
    clock: str = "relative"
    """``"unix"``, ``"relative"`` or ``"order"``.

    Relative: only differences within a rank mean something. Order: starts are positions and nothing has a
    duration (ExecutionTrace).
    """
    resolution_ns: int = 1
    """Unit in which times were recorded: 1000 if the file gives whole microseconds."""
    recorded: frozenset[str] = frozenset()
    not_recorded: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Counts of events that the columns leave out or hold repaired, by kind of trouble."""
    notes: tuple[str, ...] = ()

    # --- tables ---
    steps: StepWindows = field(default_factory=StepWindows.empty)
    operators: Operators = field(default_factory=Operators.empty)
    kernels: Kernels = field(default_factory=Kernels.empty)
    collectives: Collectives = field(default_factory=Collectives.empty)
    memory: Memory = field(default_factory=Memory.empty)
    syncs: Syncs = field(default_factory=Syncs.empty)
    flows: Flows = field(default_factory=Flows.empty)
    counters: Counters = field(default_factory=Counters.empty)
    marks: Marks = field(default_factory=Marks.empty)
    instructions: Instructions = field(default_factory=Instructions.empty)

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        ranks = len(self.ranks)
        events, steps = counted(len(self), "event"), counted(len(self.steps), "step")
        return f"<Trace {self.format}: {events}, {ranks} rank{'s' * (ranks != 1)}, {steps}>"

    def _repr_html_(self) -> str:
        devices = ", ".join(sorted({device.name for device in self.devices if device.name}))
        facts: list[tuple[str, str | int | float | None]] = [
            ("events", f"{len(self):,}"), ("ranks", len(self.ranks)), ("steps", len(self.steps)),
            ("devices", devices or None), ("not recorded", ", ".join(sorted(self.not_recorded)) or None),
        ]  # fmt: skip
        return card_html(f"{self.format} profile", facts, text=" ".join(self.notes))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks present, ascending."""
        return tuple(sorted({source.rank for source in self.sources}))

    @property
    def end_ns(self) -> Ints:
        """End of each event."""
        return self.start_ns + self.duration_ns

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, tables and names."""
        tables = sum(array.nbytes for name in TABLES for array in getattr(self, name).columns().values())
        rows = sum(getattr(self, name).nbytes for name in COLUMNS)
        return int(rows + tables + self.strings.nbytes + self.scopes.nbytes + self.stacks.nbytes)

    def name_of(self, row: int) -> str:
        """Return the name of one event."""
        return str(self.strings[int(self.name[row])])

    def named(self, name: str) -> Ints:
        """Return the rows of exactly this name."""
        number = self.strings.find(name)
        return np.flatnonzero(self.name == number) if number >= 0 else np.zeros(0, np.int64)

    def of_kind(self, *kinds: Kind) -> Ints:
        """Return the rows of these kinds."""
        return np.flatnonzero(among(*kinds)[self.kind])

    def nearest(self, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Return for each row the nearest wanted one, of itself and the events around it; -1 without one."""
        nearest = np.empty(len(self), np.int32)
        tree.nearest(np.ascontiguousarray(self.parent, np.int32), wanted.astype(np.uint8), nearest)
        return nearest

    def outermost(self, label: Ints) -> npt.NDArray[np.bool_]:
        """Return which rows have a label, from 0 on, that no event around them has."""
        outer = np.empty(len(self), np.uint8)
        tree.outermost(np.ascontiguousarray(self.parent, np.int32), label.astype(np.int32), outer)
        return outer.astype(bool)

    @property
    def operator(self) -> npt.NDArray[np.int32]:
        """The innermost operator of the host at or around each row, -1 without one; not to be written to."""
        return self.derived("innermost operators", lambda: self.nearest(self.kind == Kind.HOST_OP))

    def device_work(self) -> Ints:
        """Return the rows that kept a device busy."""
        return np.flatnonzero((self.device >= 0) & among(*DEVICE_WORK)[self.kind])

    def require(self, feature: str, question: str) -> None:
        """Raise unless a feature was recorded.

        Args:
            feature: A key of :data:`FEATURES`.
            question: The question, as it completes "cannot tell …".

        Raises:
            EmptyTraceError: The file does not hold it; the message gives the reason and the remedy.
        """
        if feature in self.recorded:
            return
        reason = self.not_recorded.get(feature, f"{self.format} does not hold it")
        raise EmptyTraceError(
            f"cannot tell {question}: expected {FEATURES[feature]}, found none in this {self.format} profile",
            hint=reason,
            path=self.sources[0].path if self.sources else None,
        )

    def frame(self) -> pl.DataFrame:
        """Return all events as a polars frame, names, kinds and paths as text."""
        from stepscope.trace.frames import events_frame

        names = {
            "name": self.strings.texts(),
            "kind": [kind.name.lower() for kind in Kind],
            "lane": [f"{lane.process}/{lane.thread}" for lane in self.lanes],
            "scope": self.scopes.texts(),
            "stack": self.stacks.texts("\n"),
        }
        return events_frame({name: getattr(self, name) for name in COLUMNS}, names)

    def tables(self) -> dict[str, pl.DataFrame]:
        """Return every table as a polars frame by name, the events among them as ``events``."""
        from stepscope.trace.frames import table_frame

        texts = self.strings.texts()
        return {"events": self.frame()} | {name: table_frame(getattr(self, name), texts) for name in TABLES}
