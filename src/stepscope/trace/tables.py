"""The small tables of a trace: facts that not every event has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]


class Table:
    """A frozen dataclass of numpy columns of one length."""

    __slots__ = ()
    names: ClassVar[tuple[str, ...]] = ()
    """Columns that are numbers into the trace's strings."""
    optional: ClassVar[tuple[str, ...]] = ()
    """Those of them that a reader may leave out: all -1 then."""

    @classmethod
    def empty(cls) -> Any:
        """Return the table without rows."""
        return cls(**{column.name: np.zeros(0, DTYPES[column.name]) for column in fields(cls)})  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        return {column.name: getattr(self, column.name) for column in fields(self)}  # type: ignore[arg-type]


DTYPES: dict[str, Any] = {
    "row": np.int32, "rank": np.int32, "number": np.int64, "start_ns": np.int64, "end_ns": np.int64,
    "shapes": np.int32, "types": np.int32, "values": np.int32, "outputs": np.int32, "sequence": np.int64,
    "forward_thread": np.int64, "external_id": np.int64, "record_id": np.int64, "stream": np.int32,
    "grid": np.int64, "block": np.int32, "registers": np.int32, "shared_bytes": np.int32,
    "occupancy": np.float32, "blocks_per_sm": np.float32, "warps_per_sm": np.float32, "operation": np.int32,
    "group": np.int32, "group_size": np.int32, "in_elements": np.int64, "out_elements": np.int64,
    "dtype": np.int32, "peer": np.int32, "state": np.uint8, "created_ns": np.int64, "time_ns": np.int64,
    "device": np.int16, "action": np.uint8, "address": np.uint64, "bytes": np.int64,
    "allocated_bytes": np.int64, "reserved_bytes": np.int64, "stack": np.int32, "what": np.int32,
    "wait_stream": np.int32, "wait_correlation": np.int64, "event": np.int64, "source": np.int32,
    "target": np.int32, "name": np.int32, "lane": np.int32, "value": np.float64, "instruction": np.int32,
    "module": np.int32, "label": np.int32, "opcode": np.int32, "framework": np.int32, "line": np.int32,
    "number_format": np.int32, "calls": np.uint8, "category": np.int8,
}  # fmt: skip
"""Type of each column of the tables; a name means the same thing in all of them."""


@dataclass(frozen=True, slots=True)
class StepWindows(Table):
    """Step windows on the host, in (rank, start) order. A step's window ends at its recorded end."""

    row: Ints
    """Row of the step's event, -1 if the window is not an event (a TF timeline is one step)."""
    rank: Ints
    number: Ints
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, slots=True)
class Operators(Table):
    """Details of host operators; only rows that carry any."""

    names = ("shapes", "types", "values", "outputs")
    optional = ("outputs",)
    row: Ints
    shapes: Ints
    """JSON text of the input shapes, as recorded."""
    types: Ints
    values: Ints
    """JSON text of the inputs that are numbers ("Concrete Inputs")."""
    sequence: Ints
    """Autograd sequence number, -1 = none."""
    forward_thread: Ints
    external_id: Ints
    record_id: Ints
    """``Record function id`` (``rf_id`` of an ExecutionTrace)."""
    outputs: Ints
    """JSON text of the tensors that it made, type and shape of each: ``["float[8,16]"]``; -1 = unknown."""


@dataclass(frozen=True, slots=True)
class Kernels(Table):
    """Launch configuration of kernels."""

    row: Ints
    stream: Ints
    grid: Ints
    """Blocks in all: the product of the three grid sizes; -1 = not recorded."""
    block: Ints
    """Threads per block; -1 = not recorded."""
    registers: Ints
    shared_bytes: Ints
    occupancy: Floats
    """Estimated achieved occupancy, 0 to 1; NaN = not recorded."""
    blocks_per_sm: Floats
    warps_per_sm: Floats


@dataclass(frozen=True, slots=True)
class Instructions(Table):
    """The instruction and XLA program that an event ran; only rows for which this is known."""

    names = (
        "instruction", "module", "label", "opcode", "framework", "line", "shapes", "number_format",
    )  # fmt: skip
    row: Ints
    instruction: Ints
    """Its name within the program, such as ``fusion.3``."""
    module: Ints
    """The program's name, such as ``jit_train_step``; -1 = not recorded."""
    label: Ints
    """Program and instruction, ``jit_train_step/fusion.3``: names of instructions repeat between programs."""
    opcode: Ints
    """``dot``, ``fusion``, ``custom-call:__cudnn$convForward`` …; -1 = not recorded, as all below."""
    framework: Ints
    """The framework's operator with its scopes, such as ``jit(step)/encoder/dot_general``."""
    line: Ints
    """Source line that it comes from, ``model.py(12): encode``."""
    shapes: Ints
    """``f32[8,4] f32[4,2] -> f32[8,2]``: operands and result."""
    number_format: Ints
    """``f32``, ``bf16`` …"""
    bytes: Ints
    """Least traffic of one execution: operands and result, each once; -1 = not known."""
    calls: Ints
    """1 for the event with which an execution begins, 0 for further kernels of one, and for the host's part
    of a device's execution."""


class CollectiveState(IntEnum):
    """State of a collective when it was recorded."""

    UNKNOWN = 0
    SCHEDULED = 1
    STARTED = 2
    COMPLETED = 3


@dataclass(frozen=True, slots=True)
class Collectives(Table):
    """Communication: device kernels, or a flight recorder's entries."""

    names = ("operation", "group", "dtype")
    row: Ints
    operation: Ints
    """``all_reduce all_gather reduce_scatter all_to_all broadcast reduce gather scatter send recv barrier
    unknown``."""
    group: Ints
    """Name of the process group, -1 = not recorded."""
    group_size: Ints
    sequence: Ints
    """Sequence number within its group, -1 = not recorded."""
    in_elements: Ints
    out_elements: Ints
    dtype: Ints
    bytes: Ints
    """Size by the usual convention: the output's for all_gather, the input's for all others; -1 = not
    recorded.
    """
    peer: Ints
    """The other rank of a send or receive, -1 = none."""
    state: Ints
    created_ns: Ints
    """When it was enqueued (flight recorder), -1 = not recorded."""


class MemoryAction(IntEnum):
    """The action of a memory event."""

    ALLOCATE = 0
    FREE = 1
    FREE_REQUESTED = 2
    SEGMENT_ALLOCATE = 3
    SEGMENT_FREE = 4
    OUT_OF_MEMORY = 5
    SNAPSHOT = 6
    LEVEL = 7  # a sample of the totals; no allocation of its own


class MemoryCategory(IntEnum):
    """The purpose of an allocation."""

    UNKNOWN = 0
    PARAMETER = 1
    ACTIVATION = 2
    GRADIENT = 3
    OPTIMIZER_STATE = 4
    INPUT = 5
    TEMPORARY = 6


@dataclass(frozen=True, slots=True)
class Memory(Table):
    """Allocations in (rank, device, time) order."""

    rank: Ints
    time_ns: Ints
    device: Ints
    """-1 is host memory."""
    action: Ints
    address: Ints
    bytes: Ints
    """Change of this event: positive allocates, negative frees."""
    allocated_bytes: Ints
    """Total in use after it, -1 = not recorded."""
    reserved_bytes: Ints
    row: Ints
    """The innermost event that it happened in, -1 = none."""
    stack: Ints
    """Its own Python stack (memory snapshots), -1 = none; see also the row's."""
    category: Ints
    """A :class:`MemoryCategory` that the recorder tells, -1 = it does not."""


@dataclass(frozen=True, slots=True)
class Syncs(Table):
    """Waits between streams, events and the host (``cuda_sync``)."""

    names = ("what",)
    row: Ints
    what: Ints
    stream: Ints
    wait_stream: Ints
    wait_correlation: Ints
    """Correlation of the event record that is waited for, -1 = none."""
    event: Ints


@dataclass(frozen=True, slots=True)
class Flows(Table):
    """Arrows between rows that the file itself draws, other than launches and forward to backward."""

    names = ("name",)
    source: Ints
    target: Ints
    name: Ints


@dataclass(frozen=True, slots=True)
class Counters(Table):
    """Counter samples."""

    names = ("name",)
    lane: Ints
    time_ns: Ints
    name: Ints
    value: Floats


@dataclass(frozen=True, slots=True)
class Marks(Table):
    """Instants: events without a duration."""

    names = ("name",)
    lane: Ints
    time_ns: Ints
    name: Ints


TABLES: dict[str, type[Table]] = {
    "steps": StepWindows, "operators": Operators, "kernels": Kernels, "collectives": Collectives,
    "memory": Memory, "syncs": Syncs, "flows": Flows, "counters": Counters, "marks": Marks,
    "instructions": Instructions,
}  # fmt: skip
