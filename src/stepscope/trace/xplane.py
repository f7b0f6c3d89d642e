"""XPlane (``*.xplane.pb``): profiles by JAX, TensorFlow, Keras and torch_xla, on CPU, GPU and TPU.

A line's clock is Unix time or counts from the start of the session, whatever the proto's comment says; the
session's start is in the plane ``Task Environment``. GPU planes have streams and may lack the lines that TPU
planes have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.events.wire import read_varint as varint
from stepscope.kernels import xline
from stepscope.text import counted
from stepscope.trace import communication
from stepscope.trace.blocks import Blocks
from stepscope.trace.chrome import UNIX_NS, order_lanes
from stepscope.trace.collectives import add_collectives
from stepscope.trace.draft import Array, Draft, InstantEvents
from stepscope.trace.hlo import Program, read_program
from stepscope.trace.instructions import Ran, add_instructions
from stepscope.trace.model import Device, Kind, Lane
from stepscope.trace.names import Paths, Strings
from stepscope.trace.schema import message
from stepscope.trace.tables import MemoryAction

_WANTED = (
    "correlation_id",
    "tf_op",
    "hlo_op",
    "hlo_module",
    "program_id",
    "hlo_category",
    "source",
    "name",
    "kernel_details",
    "memcpy_details",
    "step_num",
    "group_id",
    "flops",
    "model_flops",
    "bytes_accessed",
    "bytes_allocated",
    "bytes_reserved",
    "allocation_bytes",
    "addr",
    "allocator_name",
    "theoretical_occupancy_pct",
    "occupancy_pct",
    "_r",
    "bytes",
    "bytes_transferred",
)
_DEVICE = re.compile(r"/device:([A-Z]+):(\d+)|#Chip(\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_CALL = re.compile(r"^(cu[A-Z]|cuda[A-Z]|hip[A-Z]|roctracer)")
_COPY = re.compile(
    r"memcpy|copybuffer|copy-start|copy-done|^(dynamic-)?copy|MemcpyP2P|infeed|outfeed", re.IGNORECASE
)
_LOADING = re.compile(
    r"^(Iterator::|IteratorGetNext|DataLoader|.*::GetNext(Internal)?$|InputPipeline|data_?loading)"
)
_SIZE = re.compile(r"\b(?:size|num_bytes|bytes):(\d+)")
_GRID = re.compile(r"grid:(\d+),(\d+),(\d+)|grid:(\d+)\b")
_BLOCK = re.compile(r"block:(\d+),(\d+),(\d+)")
_DERIVED = {
    "XLA Modules",
    "Framework Name Scope",
    "TensorFlow Name Scope",
    "Source code",
    "Source",
    "TensorFlow Ops",
    "Framework Ops",
    "XLA TraceMe",
    "Launch Stats",
    "HLO Modules",
    "Name Scope",
}
_OPS = {"XLA Ops", "Async XLA Ops", "XLA Async Ops"}

_INSTRUCTION = re.compile(r"%?([\w.-]+)(?: = |$)")
"""Name of an instruction, of its whole text too."""
_PROGRAM = re.compile(r"(.*)\((\d+)\)$")
_PROTO = "Hlo Proto"

_REASONS = {
    "steps": "wrap each step in jax.profiler.StepTraceAnnotation('train', step_num=i)",
    "device": "only the host was recorded: the program ran on the CPU, or the device tracer was off",
    "backward": "XLA compiles both together; scopes such as transpose(jvp(…)) tell them apart",
    "modules": "name scopes with jax.named_scope, or record HLO metadata",
    "stacks": "record with python_tracer_level=1",
    "shapes": "the file holds no compiled program",
    "memory": "the allocator was not traced",
    "syncs": "XPlane does not record what waits for what",
    "collectives": "the program communicated nothing while it was recorded",
}


@dataclass(slots=True)
class _Plane:
    name: str
    id: int = 0
    lines: list[tuple[int, int]] = field(default_factory=list)
    events: dict[int, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Name and stats of each event metadata."""
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    programs: dict[int, Program] = field(default_factory=dict)
    """Compiled programs by their number."""


@dataclass(slots=True)
class _EventColumns:
    """Parts of the columns, one per line."""

    lanes: list[Lane] = field(default_factory=list)
    parts: dict[str, list[Array]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=dict)
    memory: list[tuple[int, ...]] = field(default_factory=list)
    ran: dict[Ran, int] = field(default_factory=dict)
    """Instructions that events ran."""
    absolute: bool = False
    cut: int = 0
    collapsed: int = 0

    def number(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def add(self, **columns: Array) -> None:
        for key, values in columns.items():
            self.parts.setdefault(key, []).append(values)


def read(path: Path) -> list[Draft]:
    """Read an XSpace.

    Raises:
        TraceError: Not such a message, or one that is cut short.
        EmptyTraceError: No event in it.
    """
    with Blocks(path) as blocks:
        data = b"".join([*blocks, bytes(8)])
    planes, hosts, problems = _planes(data, path)
    columns = _EventColumns()
    devices: list[Device] = []
    for plane in planes:
        index = _device_index(plane, planes)
        if index >= 0:
            devices.append(_device(plane, index))
        for begin, end in plane.lines:
            _read_line(columns, plane, data, begin, end, index)
    if not sum(map(len, columns.parts.get("name", []))):
        raise EmptyTraceError(
            "the XPlane holds no events",
            hint="check that the program ran between start_trace and stop_trace",
            path=path,
        )
    draft = _draft(columns, planes, path, len(data) - 8)
    draft.devices, draft.host = devices, hosts[0] if hosts else ""
    draft.notes += problems
    return [draft]


# --- planes ------------------------------------------------------------------------------------------


def _planes(data: bytes, path: Path) -> tuple[list[_Plane], list[str], list[str]]:
    planes, hosts, problems = [], [], []
    try:
        for tag, _, begin, end in _fields(data, 0, len(data) - 8):
            if tag == 1 << 3 | 2:
                planes.append(_plane(data, begin, end))
            elif tag == 4 << 3 | 2:
                hosts.append(_text(data[begin:end]))
            elif tag in (2 << 3 | 2, 3 << 3 | 2):
                problems.append(f"the profiler reported: {_text(data[begin:end])}")
    except (ValueError, DecodeError) as error:
        if not planes:
            raise TraceError(
                f"not an XSpace message: {error}", hint="copy the file again", path=path
            ) from error
        problems.append(f"the file is damaged or cut short ({error}); the planes before that were read")
    return planes, hosts, problems


def _fields(data: bytes, begin: int, end: int, skipped: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over a message's fields: tag, start of the field, and start and end of its content.

    Runs of a ``skipped`` field, of which there may be millions, are passed over.

    Raises:
        ValueError: Bytes that are not a message, or one that is cut short.
    """
    view, at = memoryview(data), begin
    while (at := xline.skip(data, at, end, skipped) if skipped else at) < end:
        if at < 0:
            raise ValueError("a field is cut short")
        tag, content = varint(view, at)
        after = content
        if tag & 7 == 0:
            after = varint(view, content)[1]
        elif tag & 7 == 2:
            length, content = varint(view, content)
            after = content + length
        elif tag & 7 in (1, 5):
            after += 8 if tag & 7 == 1 else 4
        else:
            raise ValueError(f"no field has the wire type {tag & 7}")
        if after > end or not tag >> 3:
            raise ValueError(f"a field of {after - at} bytes is cut short, or none")
        yield tag, at, content, after
        at = after


def _plane(data: bytes, begin: int, end: int) -> _Plane:
    lines, rest = [], []
    for tag, at, content, after in _fields(data, begin, end):
        if tag == 3 << 3 | 2:
            lines.append((content, after))
        else:
            rest.append(data[at:after])
    proto = message("XPlane").FromString(b"".join(rest))
    plane = _Plane(_text(proto.name), proto.id, lines)
    for entry in proto.stat_metadata:
        plane.stat_names[entry.value.id] = _text(entry.value.name)
    names = plane.stat_names
    plane.stats = {names.get(stat.metadata_id, ""): _value(stat, names) for stat in proto.stats}
    wanted = {number for number, name in names.items() if name in _WANTED or name == _PROTO}
    for entry in proto.event_metadata:
        metadata = entry.value
        stats = {
            names[stat.metadata_id]: _value(stat, names)
            for stat in metadata.stats
            if stat.metadata_id in wanted
        }
        # An HLO's name may be its whole text; its display name is the short one.
        name = _text(metadata.name)
        if len(name) > 200:
            name = _text(metadata.display_name) or name
        if (program := stats.pop(_PROTO, None)) is None:
            plane.events[entry.key] = name, stats
        elif read := read_program(program):
            match = _PROGRAM.match(name)
            plane.programs[int(match[2]) if match else entry.key] = read
    return plane


def _value(stat: Any, names: dict[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(stat, kind)
    if kind == "ref_value":
        return names.get(value, "")
    return _text(value) if kind == "str_value" else value


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _device_index(plane: _Plane, planes: list[_Plane]) -> int:
    """Return the device's number among those of this host, -1 for a host plane."""
    match = _DEVICE.search(plane.name)
    if not match or (match[1] == "CUSTOM") or (match[1] == "CPU"):
        return -1
    same = [plane.name for plane in planes if _DEVICE.search(plane.name) and "CUSTOM" not in plane.name]
    number = int(match[2] or match[3])
    distinct = len({int(m[2] or m[3]) for m in map(_DEVICE.search, same) if m}) == len(same)
    return number if distinct else same.index(plane.name)


def _device(plane: _Plane, index: int) -> Device:
    stats = plane.stats
    vendor = str(stats.get("device_vendor", ""))
    kind = str(stats.get("device_type_string", ""))
    major, minor = stats.get("compute_cap_major"), stats.get("compute_cap_minor")
    return Device(
        rank=0, index=index, name=kind or vendor, memory_bytes=int(stats.get("memory_size") or 0),
        multiprocessors=int(stats.get("core_count") or 0),
        capability=f"{major}.{minor or 0}" if major is not None else "", properties=dict(stats),
    )  # fmt: skip


# --- lines -------------------------------------------------------------------------------------------


def _read_line(columns: _EventColumns, plane: _Plane, data: bytes, begin: int, end: int, device: int) -> None:
    try:
        name, clock_ns = _line_head(data, begin, end)
    except DecodeError:
        columns.cut += 1
        return
    wanted = np.zeros(
        max([*plane.stat_names, 0], default=0) + 1 if len(plane.stat_names) < 1 << 20 else 1, np.uint8
    )
    for number, stat_name in plane.stat_names.items():
        wanted[number] = stat_name in _WANTED
    rows, stats, whole = xline.events(data, begin, end, 4, wanted, *_room(0, 0))
    columns.cut += not whole
    if not rows:
        return
    room = _room(rows, stats)
    xline.events(data, begin, end, 4, wanted, *room)
    metadata, offset, duration, occurrences, *stat = room
    stat = [column[stat[0] < rows] for column in stat]  # a cut line's last event is not there, its stats are
    columns.collapsed += int(np.count_nonzero(occurrences))
    values = _Stats(plane, data, *stat)
    lane = len(columns.lanes)
    start, length = _times(clock_ns, offset, duration)
    columns.absolute |= clock_ns > UNIX_NS
    texts = {
        number: plane.events.get(number, (f"event {number}", {})) for number in np.unique(metadata).tolist()
    }
    numbers = {number: columns.number(title) for number, (title, _) in texts.items()}
    if device < 0 and _memory_rows(columns, values, metadata, texts, start):
        keep = ~np.isin(metadata, [n for n, (title, _) in texts.items() if _is_allocation(title)])
        if not keep.any():
            return
    else:
        keep = np.ones(rows, bool)
    columns.lanes.append(_lane(plane, name, device))
    kinds, step = _kinds(plane, name, device, metadata, texts, values)
    scope = _scopes(columns, values, metadata, texts, rows)
    columns.add(
        ran=_ran(columns, values, metadata, texts, rows, ops=device >= 0 and name in _OPS)[keep],
        name=_mapped(metadata, numbers)[keep].astype(np.int32),
        start=start[keep],
        duration=length[keep],
        kind=kinds[keep],
        lane=np.full(int(keep.sum()), lane, np.int32),
        correlation=values.integers("correlation_id", rows)[keep],
        step_number=step[keep],
        scope=scope[keep],
        bytes=_bytes(values, metadata, texts, kinds, rows)[keep],
        flops=_metadata_numbers(values, metadata, texts, ("model_flops", "flops"), rows)[keep],
        grid=_details(values, rows, _GRID)[keep],
        block=_details(values, rows, _BLOCK)[keep],
        occupancy=_occupancy(values, rows)[keep],
    )


def _ran(
    columns: _EventColumns,
    values: _Stats,
    metadata: Array,
    texts: dict[int, tuple[str, Any]],
    rows: int,
    *,
    ops: bool,
) -> Array:
    """Return the instruction that each event ran, a number into ``columns.ran``, -1 for none.

    Args:
        columns: Numbers of instructions.
        values: The events' stats.
        metadata: The events' metadata.
        texts: Name and stats of each metadata.
        rows: How many events there are.
        ops: Whether this is a line of instructions, whose names are the events'.
    """
    shared = {
        number: tuple(
            str(stats.get(key, "")) for key in ("hlo_op", "hlo_module", "hlo_category", "tf_op", "source")
        )
        for number, (_, stats) in texts.items()
    }
    if ops:
        for number, (title, _) in texts.items():
            match = _INSTRUCTION.match(title)
            shared[number] = (shared[number][0] or (match[1] if match else ""), *shared[number][1:])
    result = np.full(rows, -1, np.int64)
    pairs = (values.texts(key) for key in ("hlo_op", "hlo_module"))
    own, modules = (dict(zip(numbers.tolist(), names, strict=True)) for numbers, names in pairs)
    if not own and not any(stats[0] for stats in shared.values()):
        return result
    program = _metadata_numbers(values, metadata, texts, ("program_id",), rows)
    for row, (number, which) in enumerate(zip(metadata.tolist(), program.tolist(), strict=True)):
        instruction, module, *rest = shared[number]
        if instruction := own.get(row, instruction):
            ran = Ran(which, modules.get(row, module), instruction, *rest)
            result[row] = columns.ran.setdefault(ran, len(columns.ran))
    return result


def _room(rows: int, stats: int) -> list[Array]:
    kinds = [np.int64] * 4 + [np.int32, np.int32, np.uint8, np.int64, np.int64]
    return [np.empty(rows if number < 4 else stats, kind) for number, kind in enumerate(kinds)]


def _line_head(data: bytes, begin: int, end: int) -> tuple[str, int]:
    """Return a line's name and clock; of a cut line, as far as they stand before its events.

    Raises:
        DecodeError: A damaged line.
    """
    parts = []
    with suppress(ValueError):
        for _, at, _, after in _fields(data, begin, end, skipped=4):
            parts.append(data[at:after])
    line = message("XLine").FromString(b"".join(parts))
    return _text(line.display_name) or _text(line.name), line.timestamp_ns


def _times(clock_ns: int, offset: Array, duration: Array) -> tuple[Array, Array]:
    """Round both ends down to ns, so that events nested in ps stay nested."""
    start = offset // 1000
    return start + clock_ns, (offset + duration) // 1000 - start


def _mapped(values: Array, table: dict[int, Any], dtype: Any = np.int64) -> Array:
    distinct, position = np.unique(values, return_inverse=True)
    return np.array([table[number] for number in distinct.tolist()], dtype)[position.ravel()]


class _Stats:
    """Values of a line's stats by name."""

    def __init__(
        self, plane: _Plane, data: bytes, row: Array, name: Array, kind: Array, value: Array, size: Array
    ) -> None:
        self.plane, self.data, self.columns = plane, data, (row, kind, value, size)
        self.name = name
        self.ids = {text: number for number, text in plane.stat_names.items()}

    def of(self, name: str) -> tuple[Array, Array, Array, Array]:
        chosen = np.flatnonzero(self.name == self.ids.get(name, -1))
        row, kind, value, size = (column[chosen] for column in self.columns)
        return row, kind, value, size

    def integers(self, name: str, rows: int, missing: int = -1) -> Array:
        result = np.full(rows, missing, np.int64)
        row, kind, value, _ = self.of(name)
        result[row] = np.where(kind == 2, value.view(np.float64), value) if (kind == 2).any() else value
        return result

    def texts(self, name: str) -> tuple[Array, list[str]]:
        """Return rows that have a text, and the texts; equal ones are decoded once."""
        row, kind, value, size = self.of(name)
        known: dict[tuple[int, int, int], str] = {}
        result = []
        for key in zip(kind.tolist(), value.tolist(), size.tolist(), strict=True):
            if key not in known:
                known[key] = self._text(*key)
            result.append(known[key])
        return row, result

    def _text(self, kind: int, value: int, size: int) -> str:
        if kind == 7:
            return self.plane.stat_names.get(value, "")
        if kind in (5, 6):
            return self.data[value : value + size].decode("utf-8", "replace")
        return str(value)


def _lane(plane: _Plane, name: str, device: int) -> Lane:
    if device < 0:
        return Lane(rank=0, process=plane.name.removeprefix("/") or "host", thread=name)
    match = _STREAM.search(name)
    process = plane.name.removeprefix("/device:").replace(":", " ")
    return Lane(rank=0, process=process, thread=name, device=device, stream=int(match[1]) if match else -1)


def _kinds(
    plane: _Plane, line: str, device: int, metadata: Array, texts: dict[int, tuple[str, Any]], values: _Stats
) -> tuple[Array, Array]:
    rows = len(metadata)
    step = values.integers("step_num", rows)
    if device >= 0:
        kinds = _mapped(
            metadata, {n: device_kind(plane.name, line, title) for n, (title, _) in texts.items()}, np.uint8
        )
        numbers = {n: int(title) if title.isdecimal() else -1 for n, (title, _) in texts.items()}
        return kinds, np.where(kinds == Kind.STEP, np.where(step >= 0, step, _mapped(metadata, numbers)), -1)
    kinds = _mapped(metadata, {n: host_kind(title) for n, (title, _) in texts.items()}, np.uint8)
    called = np.zeros(rows, bool)
    called[values.of("correlation_id")[0]] = True
    kinds[called & (kinds == Kind.HOST_OP)] = Kind.RUNTIME_CALL
    kinds[step >= 0] = Kind.STEP
    return kinds, step


def device_kind(plane: str, line: str, title: str) -> Kind:
    """Return the kind of an event of a device by its name and those of its plane and line."""
    if line == "Steps":
        return Kind.STEP
    streams = "GPU" in plane
    if line in _DERIVED or (line in _OPS and streams):
        return Kind.ANNOTATION
    if communication.communicates(title):
        return Kind.SEND_RECV if communication.operation(title) in communication.PAIRWISE else Kind.COLLECTIVE
    if _COPY.search(title):
        return Kind.MEMCPY
    return Kind.MEMSET if "memset" in title.lower() else Kind.KERNEL


def host_kind(title: str) -> Kind:
    """Return the kind of a host's event by its name."""
    if title.startswith("$"):
        return Kind.PYTHON_FRAME
    if _CALL.match(title):
        return Kind.RUNTIME_CALL
    return Kind.DATA_LOADING if _LOADING.match(title) else Kind.HOST_OP


def _scopes(
    columns: _EventColumns, values: _Stats, metadata: Array, texts: dict[int, tuple[str, Any]], rows: int
) -> Array:
    """Return each event's scope: its framework operator's full name (``jit(f)/layer/dot_general``)."""
    own = {n: str(stats.get("tf_op", "")) for n, (_, stats) in texts.items()}
    scope = _mapped(metadata, {n: _scope(columns, instruction) for n, instruction in own.items()}).astype(
        np.int32
    )
    for key in ("hlo_module", "name", "tf_op"):  # the last one that says something wins
        row, names = values.texts(key)
        known = {name: _scope(columns, name) if key != "name" or "/" in name else -1 for name in set(names)}
        numbers = np.array([known[name] for name in names], np.int32)
        scope[row[numbers >= 0]] = numbers[numbers >= 0]
    return scope


def _scope(columns: _EventColumns, name: str) -> int:
    plain = name.split(":", 1)[0].strip("/")
    return columns.scopes.setdefault(plain, len(columns.scopes)) if plain and plain != "XlaModule" else -1


def _bytes(
    values: _Stats, metadata: Array, texts: dict[int, tuple[str, Any]], kinds: Array, rows: int
) -> Array:
    result = _metadata_numbers(
        values, metadata, texts, ("bytes_accessed", "bytes_transferred", "bytes"), rows
    )
    row, details = values.texts("memcpy_details")
    sizes = [int(match[1]) if (match := _SIZE.search(detail)) else -1 for detail in details]
    result[row] = np.where(np.array(sizes, np.int64) > 0, sizes, -1) if sizes else result[row]
    return np.where(kinds == Kind.RUNTIME_CALL, -1, result)


def _metadata_numbers(
    values: _Stats, metadata: Array, texts: dict[int, tuple[str, Any]], names: tuple[str, ...], rows: int
) -> Array:
    """Return a number that either the event or its metadata carries, -1 for none."""
    result = np.full(rows, -1, np.int64)
    for name in reversed(names):
        shared = _mapped(metadata, {n: _whole(stats.get(name)) for n, (_, stats) in texts.items()})
        result = np.where(shared >= 0, shared, result)
        own = values.integers(name, rows)
        result = np.where(own >= 0, own, result)
    return result


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value >= 0 else -1


def _details(values: _Stats, rows: int, pattern: re.Pattern[str]) -> Array:
    result = np.full(rows, -1, np.int64)
    row, details = values.texts("kernel_details")
    products = {}
    for detail in set(details):
        match = pattern.search(detail)
        products[detail] = int(np.prod([int(part) for part in match.groups() if part])) if match else -1
    result[row] = [products[detail] for detail in details]
    return result


def _occupancy(values: _Stats, rows: int) -> Array:
    result = np.full(rows, np.nan, np.float32)
    for name in ("theoretical_occupancy_pct", "occupancy_pct"):
        row, kind, value, _ = values.of(name)
        result[row] = np.where(kind == 2, value.view(np.float64), value) / 100
    return result


def _is_allocation(title: str) -> bool:
    return title in ("MemoryAllocation", "MemoryDeallocation")


def _memory_rows(
    columns: _EventColumns, values: _Stats, metadata: Array, texts: dict[int, tuple[str, Any]], start: Array
) -> bool:
    """Take the allocator's events out of a line; True if there are any."""
    signs = {
        n: 1 if title == "MemoryAllocation" else -1
        for n, (title, _) in texts.items()
        if _is_allocation(title)
    }
    if not signs:
        return False
    rows = len(metadata)
    size, address = values.integers("allocation_bytes", rows, 0), values.integers("addr", rows, 0)
    total, reserved = values.integers("bytes_allocated", rows), values.integers("bytes_reserved", rows)
    row, names = values.texts("allocator_name")
    allocators = dict(zip(row.tolist(), names, strict=True))
    for place in np.flatnonzero(np.isin(metadata, list(signs))).tolist():
        match = re.search(r"GPU_(\d+)|TPU_(\d+)", allocators.get(place, ""))
        device = int(match[1] or match[2]) if match else -1
        sign = signs[int(metadata[place])]
        columns.memory.append(
            (
                int(start[place]),
                device,
                MemoryAction.ALLOCATE if sign > 0 else MemoryAction.FREE,
                int(address[place]),
                sign * int(size[place]),
                int(total[place]),
                int(reserved[place]),
            )
        )
    return True


# --- the draft ---------------------------------------------------------------------------------------


def _draft(columns: _EventColumns, planes: list[_Plane], path: Path, size: int) -> Draft:
    parts = {key: np.concatenate(values) for key, values in columns.parts.items()}
    start = parts["start"]
    session = next(
        (plane.stats.get("profile_start_time") for plane in planes if "profile_start_time" in plane.stats), 0
    )
    base = 0 if columns.absolute else int(session or 0)
    times = [int(start.min())] + ([min(entry[0] for entry in columns.memory)] if columns.memory else [])
    first = min(times)
    scopes, numbers = Paths.of(scope_.split("/") for scope_ in columns.scopes)
    scope = (
        np.where(parts["scope"] >= 0, numbers[parts["scope"]], -1) if len(columns.scopes) else parts["scope"]
    )
    draft = Draft(
        format="xplane",
        path=str(path),
        strings=Strings.of(columns.names),
        lanes=columns.lanes,
        name=parts["name"],
        kind=parts["kind"],
        lane=parts["lane"],
        start_ns=start - first,
        duration_ns=parts["duration"],
        origin_ns=base + first,
        clock="unix" if base + first > UNIX_NS else "relative",
        file_bytes=size,
        correlation=parts["correlation"],
        bytes=parts["bytes"],
        flops=parts["flops"],
        step_number=parts["step_number"],
        not_recorded=dict(_REASONS),
        facts=_facts(planes),
    )
    if len(columns.scopes):
        draft.scope, draft.scopes = scope, scopes
    detailed = np.flatnonzero((parts["grid"] >= 0) | np.isfinite(parts["occupancy"]))
    if len(detailed):
        streams = np.array([lane.stream for lane in columns.lanes])
        blank = np.full(len(detailed), -1)
        nothing = np.full(len(detailed), np.nan)
        draft.kernels = {
            "row": detailed,
            "stream": streams[parts["lane"][detailed]],
            "grid": parts["grid"][detailed],
            "block": parts["block"][detailed],
            "registers": blank,
            "shared_bytes": blank,
            "occupancy": parts["occupancy"][detailed],
            "blocks_per_sm": nothing,
            "warps_per_sm": nothing,
        }
    add_collectives(draft)
    if columns.memory:
        time, device, action, address, delta, total, reserved = (
            np.array(column) for column in zip(*columns.memory, strict=True)
        )
        draft.memory = InstantEvents(
            np.full(len(time), -1),
            time - first,
            {
                "device": device,
                "action": action,
                "address": address.astype(np.int64).view(np.uint64),
                "bytes": delta,
                "allocated_bytes": total,
                "reserved_bytes": reserved,
            },
        )
    programs = {number: program for plane in planes for number, program in plane.programs.items()}
    add_instructions(draft, list(columns.ran), parts["ran"], programs)
    if draft.scopes is not None:
        draft.recorded.add("modules")
    draft.drop("cut_lines", columns.cut)
    if columns.collapsed:
        draft.drop("aggregated_events", columns.collapsed)
        draft.notes.append(
            "without times of their own, for they stand for several occurrences: "
            f"{counted(columns.collapsed, 'event')}"
        )
    order_lanes(draft)
    return draft


def _facts(planes: list[_Plane]) -> dict[str, Any]:
    return {
        f"{plane.name}: {key}": value
        for plane in planes
        for key, value in plane.stats.items()
        if isinstance(value, (int, float, str)) and len(str(value)) < 200 and not _DEVICE.search(plane.name)
    }
