"""rocprofv3's JSON (``rocprofv3 --output-format json``): kernels, copies, calls and ranges of AMD devices.

The document is ``rocprofiler-sdk-tool``, a list of one entry per process. Records say the numbers of their
kind and operation; their names are in ``strings``. A dispatch names its kernel's symbol, agent, queue and
stream. Clocks count from the machine's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace import communication
from stepscope.trace.blocks import Blocks
from stepscope.trace.chrome import order_lanes
from stepscope.trace.collectives import add_collectives
from stepscope.trace.draft import Draft, InstantEvents, Rows
from stepscope.trace.model import Device, Kind, Lane
from stepscope.trace.tables import MemoryAction

_GPU = 2
"""``type`` of an agent that is a GPU; 1 is a CPU."""

_REASONS = {
    "steps": "mark steps with roctx ranges: rocprofv3 --marker-trace",
    "device": "record with rocprofv3 --kernel-trace --memory-copy-trace",
    "launches": "record with rocprofv3 --hip-trace",
    **dict.fromkeys(
        ("backward", "modules", "stacks", "shapes", "flops", "syncs", "counters"),
        "rocprofv3 does not record it",
    ),
    "memory": "record with rocprofv3 --memory-allocation-trace",
    "collectives": "the program communicated nothing while it was recorded",
}


class _Handle(msgspec.Struct, gc=False, frozen=True):
    handle: int = 0


class _Correlation(msgspec.Struct, gc=False, frozen=True):
    internal: int = 0


class _Size(msgspec.Struct, gc=False, frozen=True):
    x: int = 1
    y: int = 1
    z: int = 1


class _Dispatch(msgspec.Struct, gc=False, frozen=True):
    agent_id: _Handle = _Handle()
    queue_id: _Handle = _Handle()
    kernel_id: int = 0
    group_segment_size: int = -1
    workgroup_size: _Size = _Size()
    grid_size: _Size = _Size()


class _Record(msgspec.Struct, gc=False, frozen=True):
    """A record of any kind; fields that a kind lacks stay at their defaults."""

    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: _Correlation = _Correlation()
    start_timestamp: int = 0
    end_timestamp: int = 0
    dispatch_info: _Dispatch = _Dispatch()
    stream_id: _Handle | None = None
    src_agent_id: _Handle = _Handle()
    dst_agent_id: _Handle = _Handle()
    agent_id: _Handle = _Handle()
    bytes: int = -1
    allocation_size: int = 0
    address: Any = None


class _Agent(msgspec.Struct, gc=False, frozen=True):
    id: _Handle = _Handle()
    type: int = 0
    node_id: int = 0
    name: str = ""
    product_name: str = ""
    model_name: str = ""
    cu_count: int = 0


class _Symbol(msgspec.Struct, gc=False, frozen=True):
    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class _KindNames(msgspec.Struct, gc=False, frozen=True):
    kind: str = ""
    operations: list[str] = []


class _Marker(msgspec.Struct, gc=False, frozen=True):
    key: int = 0
    value: str = ""


class _Strings(msgspec.Struct, gc=False, frozen=True):
    buffer_records: list[_KindNames] = []
    marker_api: list[_Marker] = []


class _Process(msgspec.Struct, gc=False, frozen=True):
    metadata: dict[str, Any] = {}
    agents: list[_Agent] = []
    strings: _Strings = _Strings()
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, Any] = {}


class _Document(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


_HOST = {"hip_api": Kind.RUNTIME_CALL, "hsa_api": Kind.RUNTIME_CALL, "rccl_api": Kind.RUNTIME_CALL,
         "marker_api": Kind.ANNOTATION}  # fmt: skip
_DEVICE = ("kernel_dispatch", "memory_copy")
_MEMORY = "memory_allocation"


def read(path: Path) -> list[Draft]:
    """Read a result of rocprofv3, one draft per process.

    Raises:
        TraceError: Not such a document.
        EmptyTraceError: No record in it.
    """
    with Blocks(path) as blocks:
        data = b"".join(blocks)
    try:
        document = msgspec.json.decode(data, type=_Document, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise TraceError(
            f"not a result of rocprofv3: {error}",
            hint="pass the file *_results.json of rocprofv3 --output-format json, and all of it",
            path=path,
        ) from error
    drafts = [_Reader(process, str(path)).draft(len(data)) for process in document.processes]
    drafts = [draft for draft in drafts if len(draft.name) or draft.memory is not None]
    if not drafts:
        raise EmptyTraceError(
            "the result of rocprofv3 holds no record of a kernel, copy or call",
            hint="record with rocprofv3 --hip-trace --kernel-trace --memory-copy-trace",
            path=path,
        )
    for rank, draft in enumerate(drafts):
        draft.rank = rank
    return drafts


class _Reader:
    """Reads the records of one process."""

    def __init__(self, process: _Process, path: str) -> None:
        self.process, self.path = process, path
        gpus = sorted(
            (agent for agent in process.agents if agent.type == _GPU), key=lambda agent: agent.node_id
        )
        self.gpus = {agent.id.handle: index for index, agent in enumerate(gpus)}
        self.agents = gpus
        self.symbols = {
            symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name
            for symbol in process.kernel_symbols
        }
        self.ranges = {entry.key: entry.value for entry in process.strings.marker_api}
        self.rows = Rows()
        self.unread: dict[str, int] = {}

    def draft(self, size: int) -> Draft:
        memory: list[_Record] = []
        for name, raw in self.process.buffer_records.items():
            if name not in (*_HOST, *_DEVICE, _MEMORY):
                if isinstance(raw, list) and raw:
                    self.unread[f"{name}_records"] = len(raw)
                continue
            records = msgspec.convert(raw or [], list[_Record], strict=False)
            if name == _MEMORY:
                memory = records
            elif name in _HOST:
                self.host(records, _HOST[name])
            else:
                self.device(records, copies=name == "memory_copy")
        return self.made(memory, size)

    def host(self, records: Iterable[_Record], kind: Kind) -> None:
        for record in records:
            name = self.operation(record)
            if kind == Kind.ANNOTATION:
                name = self.ranges.get(record.correlation_id.internal, name)
            lane = Lane(rank=0, process="host", thread=f"thread {record.thread_id}")
            self.add(name, kind, lane, record)

    def device(self, records: Iterable[_Record], *, copies: bool) -> None:
        for record in records:
            info = record.dispatch_info
            if copies:
                name, kind = self.operation(record).removeprefix("MEMORY_COPY_").lower(), Kind.MEMCPY
                name = f"copy {name.replace('_', ' ')}"
                agent = record.dst_agent_id.handle
                agent = agent if agent in self.gpus else record.src_agent_id.handle
            else:
                name = self.symbols.get(info.kernel_id, "") or f"kernel {info.kernel_id}"
                kind, agent = communication.kind_of(name), info.agent_id.handle
            index = self.gpus.setdefault(agent, len(self.gpus))
            stream = record.stream_id.handle if record.stream_id is not None else info.queue_id.handle
            lane = Lane(
                rank=0, process=f"GPU {index}", thread=f"stream {stream}" + " (copies)" * copies,
                device=index, stream=stream & 0x7FFFFFFF,
            )  # fmt: skip
            row = self.add(name, kind, lane, record)
            if not copies and row >= 0:
                block = _product(info.workgroup_size)
                # A grid of HSA counts threads, not blocks.
                grid = _product(info.grid_size) // max(block, 1)
                self.rows.kernels.append((row, lane.stream, grid, block, -1, info.group_segment_size))

    def add(self, name: str, kind: Kind, lane: Lane, record: _Record) -> int:
        if not record.start_timestamp:
            self.unread["records_without_time"] = self.unread.get("records_without_time", 0) + 1
            return -1
        start, correlation = record.start_timestamp, record.correlation_id.internal
        return self.rows.add(
            name, kind, lane, start, record.end_timestamp - start,
            correlation=correlation if correlation > 0 else -1, size=record.bytes,
        )  # fmt: skip

    def operation(self, record: _Record) -> str:
        kinds = self.process.strings.buffer_records
        if 0 <= record.kind < len(kinds) and 0 <= record.operation < len(kinds[record.kind].operations):
            return kinds[record.kind].operations[record.operation]
        return f"operation {record.kind}.{record.operation}"

    def made(self, memory: list[_Record], size: int) -> Draft:
        times = [self.rows.first_ns, *(item.start_timestamp or None for item in memory)]
        first = min((time for time in times if time is not None), default=0)
        draft = self.rows.draft(
            first,
            format="rocprof",
            path=self.path,
            origin_ns=first,
            file_bytes=size,
            not_recorded=dict(_REASONS),
            host=str(_within(self.process.metadata, "node", "hostname")),
            facts={
                key: value for key, value in self.process.metadata.items() if isinstance(value, (int, str))
            },
        )
        draft.devices = [
            Device(
                rank=0, index=index, name=agent.product_name or agent.model_name or agent.name,
                multiprocessors=agent.cu_count,
            )
            for index, agent in enumerate(self.agents)
            if any(lane.device == index for lane in self.rows.lanes)
        ]  # fmt: skip
        for what, count in self.unread.items():
            draft.drop(what, count)
        add_collectives(draft)
        self.add_memory(draft, memory, first)
        order_lanes(draft)
        return draft

    def add_memory(self, draft: Draft, records: list[_Record], first: int) -> None:
        """Allocations; a free has no size: it is that of the allocation at its address."""
        held: dict[int, int] = {}
        rows: list[tuple[int, int, int, int, int]] = []
        for record in sorted(records, key=lambda other: other.start_timestamp):
            address, device = _address(record.address), self.gpus.get(record.agent_id.handle, -1)
            frees = "FREE" in self.operation(record).upper()
            if frees and address not in held:
                draft.drop("frees_of_unknown_size", 1)
                continue
            size = -held.pop(address) if frees else record.allocation_size
            if not frees:
                held[address] = size
            action = MemoryAction.FREE if frees else MemoryAction.ALLOCATE
            rows.append((record.start_timestamp - first, device, action, address, size))
        if rows:
            time, device_column, actions, addresses, sizes = np.array(rows, np.int64).T
            unknown = np.full(len(rows), -1)
            draft.memory = InstantEvents(
                unknown, time,
                {
                    "device": device_column, "action": actions, "address": addresses.view(np.uint64),
                    "bytes": sizes, "allocated_bytes": unknown, "reserved_bytes": unknown,
                },
            )  # fmt: skip


def _product(size: _Size) -> int:
    return size.x * size.y * size.z


def _address(value: Any) -> int:
    """Return an address, which is a number, hexadecimal text, or wrapped in ``handle`` or ``value``."""
    if isinstance(value, Mapping):
        value = value.get("value", value.get("handle", 0))
    try:
        return int(str(value), 0) & (1 << 63) - 1
    except ValueError:
        return 0


def _within(values: Mapping[str, Any], *keys: str) -> Any:
    for key in keys:
        values = values.get(key, {}) if isinstance(values, Mapping) else {}
    return values or ""
