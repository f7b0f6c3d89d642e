"""PyTorch's profiler (Kineto) JSON, from torch 1.8 to today.

Ranks come from ``distributedInfo`` wherever it stands; launches are joined by ``correlation``, because launch
arrows end at every runtime call; ``args.device`` is the device, and a thread is the same whether its
id was written as a number or in quotes.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace import chrome, communication
from stepscope.trace.chrome import Slices
from stepscope.trace.distinct import distinct, numbered
from stepscope.trace.document import Document
from stepscope.trace.draft import Array, Draft, InstantEvents
from stepscope.trace.model import Device, Kind, Lane, ProcessGroup, among
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import MemoryAction

STEP = re.compile(r"^(?:ProfilerStep|profilerstep)\s?#(\d+)")
LOADING = re.compile(
    r"^enumerate\(DataLoader\)|DataLoader.*__next__|^\[?data_?load(er|ing)\]?", re.IGNORECASE
)
MODULE = "nn.Module: "

_CATEGORIES = {
    "cpu_op": Kind.HOST_OP,
    "operator": Kind.HOST_OP,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON_FRAME,
    "cuda_runtime": Kind.RUNTIME_CALL,
    "cuda_driver": Kind.RUNTIME_CALL,
    "runtime": Kind.RUNTIME_CALL,
    "mtia_runtime": Kind.RUNTIME_CALL,
    "glow_runtime": Kind.RUNTIME_CALL,
    "xpu_runtime": Kind.RUNTIME_CALL,
    "xpu_driver": Kind.RUNTIME_CALL,
    "privateuse1_runtime": Kind.RUNTIME_CALL,
    "privateuse1_driver": Kind.RUNTIME_CALL,
    "kernel": Kind.KERNEL,
    "hpu_op": Kind.KERNEL,
    "mtia_ccp_events": Kind.KERNEL,
    "concurrent_kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "gpu_user_annotation": Kind.ANNOTATION,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "overhead": Kind.OVERHEAD,
    "collective_comm": Kind.COLLECTIVE,
}
_ON_DEVICE = {
    "kernel",
    "hpu_op",
    "mtia_ccp_events",
    "concurrent_kernel",
    "gpu_memcpy",
    "memcpy",
    "gpu_memset",
    "memset",
    "gpu_user_annotation",
    "cuda_sync",
    "xpu_sync",
}
_COPY = re.compile(r"^(?:dma|(?:hip)?memcpy|__amd_rocclr_copyBuffer|copy(?:host|device)to)", re.IGNORECASE)
_SET = re.compile(r"^(?:(?:hip)?memset|__amd_rocclr_fillBuffer)", re.IGNORECASE)
"""Names among the kernels that are not kernels: MTIA's engine for copies, ROCm's own."""

_NOT_AN_EVENT = "trace"  # the span of the whole recording, pid "Spans" or "Traces"
_ANNOTATIONS, _SYNC = 1, 2
_NO_STREAM = (1 << 32) - 1

CATEGORIES = frozenset(_CATEGORIES)

_REASONS = {
    "steps": "call profiler.step() after each training step",
    "device": "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "modules": "record with with_stack=True, which also records nn.Module calls",
    "stacks": "record with with_stack=True",
    "shapes": "record with record_shapes=True",
    "flops": "PyTorch writes no FLOPs into its trace; they are computed from shapes where there are any",
    "memory": "record with profile_memory=True",
    "syncs": "record with experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)",
    "collectives": "the rank communicated nothing while it was recorded, or ran alone",
}


def draft_kineto(document: Document, path: str) -> Draft:
    """Make a draft of a Kineto trace.

    Raises:
        EmptyTraceError: No event at all.
    """
    kinds, on_device = _category_tables(document)
    slices, window = _slices(document)
    category = document.category[slices.row]
    kind, device_row = kinds[category], on_device[category]
    slices.variant = np.where(device_row & (kind == Kind.ANNOTATION), _ANNOTATIONS, slices.variant).astype(
        np.int8
    )
    slices.variant[kind == Kind.SYNC] = _SYNC
    draft = chrome.start_draft(document, slices, path, "kineto")
    draft.kind = kind
    draft.not_recorded = dict(_REASONS)
    sparse = _Sparse(document, slices.row)
    _refine(draft, device_row)
    _place_devices(draft, sparse, device_row)
    draft.correlation = sparse.dense("correlation")
    draft.external = sparse.dense("External id")
    draft.bytes = sparse.dense("bytes")
    if (flops := sparse.dense("flops")).max(initial=-1) >= 0:
        draft.flops = flops
    draft.operators = _operators(draft, sparse)
    draft.kernels = _kernels(draft, sparse, document.strings)
    draft.syncs = _syncs(draft, sparse)
    draft.collectives = _collectives(draft, sparse)
    _stacks(draft, sparse, document.strings)
    _points(draft, document)
    chrome.order_lanes(draft)
    _facts(draft, document.metadata, window)
    return draft


def is_kineto(document: Document) -> bool:
    """Return whether the document is PyTorch's: by its top-level keys, else by its categories."""
    if "schemaVersion" in document.metadata and "deviceProperties" in document.metadata:
        return True
    used = distinct(document.category)
    names = {document.strings[int(number)].lower() for number in used.tolist()}
    return len(names & CATEGORIES) >= 1 and bool(
        names & {"cpu_op", "operator", "kernel", "cuda_runtime", "runtime"}
    )


class _Sparse:
    """Sparse values of a document by draft row: a draft keeps some of its rows, in its own order."""

    def __init__(self, document: Document, rows: Array) -> None:
        self.document, self.size = document, len(rows)
        self.place = np.full(len(document), -1, np.int32)
        self.place[rows] = np.arange(len(rows), dtype=np.int32)

    def pairs(self, key: str) -> tuple[Array, Array]:
        """Return draft rows that have a key, and its values."""
        if key not in self.document.sparse:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        rows, values = self.document.sparse[key]
        rows = self.place[rows]
        has_row = rows >= 0
        return (rows, values) if has_row.all() else (rows[has_row], values[has_row])

    def dense(self, key: str, dtype: Any = np.int64) -> Array:
        """Return a key's value for each draft row, -1 for none."""
        column = np.full(self.size, -1, dtype)
        rows, values = self.pairs(key)
        column[rows] = values
        return column

    def at(self, key: str, rows: Array, dtype: Any = np.int64) -> Array:
        """Return a key's value for some draft rows, -1 for none."""
        return self.dense(key, dtype)[rows]


def _category_tables(document: Document) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Return kind and place by the category's number; the last entry is for events without one (-1)."""
    kinds = np.zeros(len(document.strings) + 1, np.uint8)
    on_device = np.zeros(len(document.strings) + 1, bool)
    for number in distinct(document.category).tolist():
        name = document.strings[number].lower()
        if number >= 0:
            kinds[number] = _CATEGORIES.get(name, Kind.OTHER)
            on_device[number] = name in _ON_DEVICE
    return kinds, on_device


def _slices(document: Document) -> tuple[Slices, tuple[int, int]]:
    """Find the slices, without the one that spans the recording: its start and duration are returned."""
    slices = chrome.find_slices(document)
    category = document.category[slices.row]
    spans = [n for n in distinct(category).tolist() if document.strings[n].lower() == _NOT_AN_EVENT]
    is_span = np.isin(category, spans)
    if not is_span.any():
        return slices, (-1, -1)
    first = int(np.flatnonzero(is_span)[0])
    window = int(slices.start_ns[first]), int(slices.duration_ns[first])
    keep = ~is_span
    return Slices(
        *(getattr(slices, key)[keep] for key in ("row", "start_ns", "duration_ns", "variant"))
    ), window


def _refine(draft: Draft, on_device: Array) -> None:
    """Find kinds by name that categories lack: steps, module scopes, data loading, communication."""
    kind, name = draft.kind, draft.name
    texts = draft.strings
    steps: dict[int, int] = {}
    host_table = np.zeros(len(texts), np.uint8)
    host = among(Kind.HOST_OP, Kind.ANNOTATION)[kind] & ~on_device
    for number in distinct(name[host]).tolist():
        text = texts[number]
        if match := STEP.match(text):
            host_table[number], steps[number] = Kind.STEP, int(match[1])
        elif LOADING.match(text):
            host_table[number] = Kind.DATA_LOADING
        elif text.startswith(MODULE):  # recorded as a range, as Stepscope's own captures do
            host_table[number] = Kind.MODULE_SCOPE
        elif text.startswith(("gloo:", "mpi:", "ucc:")):
            host_table[number] = Kind.COLLECTIVE
    for number in distinct(name[kind == Kind.PYTHON_FRAME]).tolist():
        if texts[number].startswith(MODULE):
            host_table[number] = Kind.MODULE_SCOPE
    refined = host_table[name]
    host |= kind == Kind.PYTHON_FRAME
    draft.kind = kind = np.where(host & (refined > 0), refined, kind).astype(np.uint8)
    device_table = np.zeros(len(texts), np.uint8)
    work = kind == Kind.KERNEL
    for number in distinct(name[work]).tolist():
        text = texts[number]
        if communication.communicates(text):
            device_table[number] = Kind.COLLECTIVE
        elif _COPY.match(text):
            device_table[number] = Kind.MEMCPY
        elif _SET.match(text):
            device_table[number] = Kind.MEMSET
    draft.kind = np.where(work & (device_table[name] > 0), device_table[name], kind).astype(np.uint8)
    numbers = np.full(len(texts), -1, np.int64)
    numbers[list(steps)] = list(steps.values())
    draft.step_number = numbers[name]


def _place_devices(draft: Draft, sparse: _Sparse, on_device: Array) -> None:
    """Find the device and stream of each lane, by the events on it."""
    rows = np.flatnonzero(on_device)
    lanes, first = np.unique(draft.lane[rows], return_index=True)
    devices, streams = sparse.at("device", rows[first]), sparse.at("stream", rows[first])
    process, thread = (getattr(sparse.document, key) for key in ("process", "thread"))
    texts = sparse.document.strings
    origin = np.flatnonzero(sparse.place >= 0)
    document_row = np.zeros(sparse.size, np.int64)
    document_row[sparse.place[origin]] = origin
    for number, row, device, stream in zip(
        lanes.tolist(), rows[first].tolist(), devices, streams, strict=True
    ):
        lane = draft.lanes[number]
        pid, tid = texts[int(process[document_row[row]])], texts[int(thread[document_row[row]])]
        device = int(device) if device >= 0 else _digits(pid)
        stream = int(stream) if stream >= 0 else _digits(tid)
        if stream >= _NO_STREAM:  # a wait for the whole context
            stream = -1
        suffix = next((text for text in (" (annotations)", " (sync)") if lane.thread.endswith(text)), "")
        draft.lanes[number] = Lane(
            rank=0,
            process=f"GPU {device}",
            thread=(f"stream {stream}" if stream >= 0 else "all streams") + suffix,
            device=max(device, 0),
            stream=stream,
        )


def _digits(text: str) -> int:
    match = re.search(r"\d+", text)
    return int(match[0]) % (1 << 31) if match else -1


# --- tables ------------------------------------------------------------------------------------------


def _operators(draft: Draft, sparse: _Sparse) -> dict[str, Array] | None:
    keys = {
        "shapes": "Input Dims",
        "types": "Input type",
        "values": "Concrete Inputs",
        "sequence": "Sequence number",
        "forward_thread": "Fwd thread id",
        "record_id": "Record function id",
    }
    there = np.zeros(sparse.size, bool)
    for key in keys.values():
        there[sparse.pairs(key)[0]] = True
    rows = np.flatnonzero(there)
    if not len(rows):
        return None
    columns = {name: sparse.at(key, rows) for name, key in keys.items()}
    return {"row": rows, "external_id": sparse.at("External id", rows), **columns}


def _kernels(draft: Draft, sparse: _Sparse, texts: Strings) -> dict[str, Array] | None:
    rows = np.flatnonzero(among(Kind.KERNEL, Kind.COLLECTIVE)[draft.kind] & (sparse.dense("stream") >= 0))
    if not len(rows):
        return None
    lane_streams = np.array([lane.stream for lane in draft.lanes])
    return {
        "row": rows,
        "stream": lane_streams[draft.lane[rows]],
        "grid": _products(sparse.at("grid", rows), texts),
        "block": _products(sparse.at("block", rows), texts),
        "registers": sparse.at("registers per thread", rows),
        "shared_bytes": np.minimum(sparse.at("shared memory", rows), (1 << 31) - 1),
        "occupancy": _fixed(sparse.at("est. achieved occupancy %", rows), 1e-8),
        "blocks_per_sm": _fixed(sparse.at("blocks per SM", rows), 1e-6),
        "warps_per_sm": _fixed(sparse.at("warps per SM", rows), 1e-6),
    }


def _products(tokens: Array, texts: Strings) -> Array:
    """Return the product of the three numbers of texts such as ``[24, 1, 1]``, -1 for none."""
    distinct_, position = numbered(tokens)
    every = [list(map(int, re.findall(r"\d+", texts[number]))) for number in distinct_.tolist()]
    values = [min(math.prod(factors), (1 << 63) - 1) if factors else -1 for factors in every]
    return np.array(values, np.int64)[position] if len(distinct_) else np.zeros(0, np.int64)


def _fixed(values: Array, unit: float) -> Array:
    return np.where(values >= 0, values * unit, np.nan).astype(np.float32)


def _syncs(draft: Draft, sparse: _Sparse) -> dict[str, Array] | None:
    rows = np.flatnonzero(draft.kind == Kind.SYNC)
    if not len(rows):
        return None
    what = sparse.at("cuda_sync_kind", rows)
    event = sparse.at("wait_on_cuda_event_id", rows)
    return {
        "row": rows,
        "what": np.where(what >= 0, what, draft.name[rows]),
        "stream": np.where(sparse.at("stream", rows) >= _NO_STREAM, -1, sparse.at("stream", rows)),
        "wait_stream": sparse.at("wait_on_stream", rows),
        "wait_correlation": sparse.at("wait_on_cuda_event_record_corr_id", rows),
        "event": np.where(event >= 0, event, sparse.at("event_id", rows)),
    }


def _collectives(draft: Draft, sparse: _Sparse) -> dict[str, Array] | None:
    rows = np.flatnonzero(draft.kind == Kind.COLLECTIVE)
    if not len(rows):
        return None
    texts = draft.strings
    named = sparse.at("Collective name", rows)
    names = np.where(named >= 0, named, draft.name[rows])
    operations = {number: communication.operation(texts[number]) for number in distinct(names).tolist()}
    dtype = sparse.at("dtype", rows)
    sizes = {number: communication.dtype_bytes(texts[number]) for number in distinct(dtype).tolist()}
    inside, outside = sparse.at("In msg nelems", rows), sparse.at("Out msg nelems", rows)
    sent = [
        communication.message_bytes(operations[name], a, b, sizes[kind])
        for name, a, b, kind in zip(
            names.tolist(), inside.tolist(), outside.tolist(), dtype.tolist(), strict=True
        )
    ]
    draft.strings, numbers = draft.strings.extended(operations[number] for number in names.tolist())
    peer = sparse.at("Dst Rank", rows)
    assert draft.bytes is not None
    draft.bytes[rows] = sent
    pairwise = np.isin([operations[number] for number in names.tolist()], communication.PAIRWISE)
    draft.kind[rows[pairwise]] = Kind.SEND_RECV
    return {
        "row": rows,
        "operation": numbers,
        "group": sparse.at("Process Group Name", rows),
        "group_size": sparse.at("Group size", rows),
        "sequence": sparse.at("Seq", rows),
        "in_elements": inside,
        "out_elements": outside,
        "dtype": dtype,
        "bytes": np.array(sent, np.int64),
        "peer": np.where(pairwise, np.where(peer >= 0, peer, sparse.at("Src Rank", rows)), -1),
        "state": np.zeros(len(rows), np.uint8),
        "created_ns": np.full(len(rows), -1),
    }


def _stacks(draft: Draft, sparse: _Sparse, texts: Strings) -> None:
    """Read the stacks that operators of old traces carry as text, innermost frame first."""
    rows, numbers = sparse.pairs("Call stack")
    if not len(rows):
        return
    distinct_, position = numbered(numbers)
    chains = [chrome.unescape(texts[number]).split(";")[::-1] for number in distinct_.tolist()]
    draft.stacks, paths = Paths.of(chains)
    draft.stack = np.full(sparse.size, -1, np.int32)
    draft.stack[rows] = paths[position]


# --- points and facts --------------------------------------------------------------------------------


def _points(draft: Draft, document: Document) -> None:
    """Separate allocations from marks, and forward-to-backward arrows from others."""
    marks, arrows = draft.marks, draft.arrows
    assert marks is not None
    number = draft.strings.find("[memory]")
    is_memory = marks.columns["name"] == number if number >= 0 else np.zeros(len(marks), bool)
    if is_memory.any():
        rows = chrome.rows_of(document, b"iIR")[is_memory]
        draft.memory = InstantEvents(
            marks.lane[is_memory], marks.time_ns[is_memory], _allocations(document, rows)
        )
    is_instant = ~is_memory
    draft.marks = InstantEvents(
        marks.lane[is_instant], marks.time_ns[is_instant], {"name": marks.columns["name"][is_instant]}
    )
    if arrows is None:
        return
    category = arrows.columns["category"]
    names = {n: (document.strings[n] or "").lower() for n in distinct(category).tolist()}
    forward = np.isin(category, [n for n, text in names.items() if text in ("fwdbwd", "forward_backward")])
    launches = np.isin(
        category,
        [n for n, text in names.items() if text in ("async", "ac2g", "async_cpu_to_gpu", "async_gpu")],
    )
    draft.drop("launch_arrows", int(launches.sum()))
    draft.forward_arrows = _chosen(arrows, forward)
    draft.arrows = _chosen(arrows, ~forward & ~launches)


def _chosen(points: InstantEvents, which: Array) -> InstantEvents | None:
    if not which.any():
        return None
    columns = {key: column[which] for key, column in points.columns.items()}
    return InstantEvents(points.lane[which], points.time_ns[which], columns)


def _allocations(document: Document, rows: Array) -> dict[str, Array]:
    place = np.full(len(document), -1, np.int64)
    place[rows] = np.arange(len(rows))

    def column(key: str, missing: int = -1) -> Array:
        values = np.full(len(rows), missing, np.int64)
        if key in document.sparse:
            where, values_ = document.sparse[key]
            inside = place[where] >= 0
            values[place[where[inside]]] = values_[inside]
        return values

    size, reserved = column("Bytes", 0), column("Total Reserved")
    on_device = column("Device Type", 0) != 0
    return {
        "device": np.where(on_device, np.maximum(column("Device Id"), 0), -1),
        "action": np.where(size >= 0, MemoryAction.ALLOCATE, MemoryAction.FREE),
        "address": column("Addr", 0).view(np.uint64),
        "bytes": size,
        "allocated_bytes": column("Total Allocated"),
        # The allocator of the host reserves nothing, and 0 is written.
        "reserved_bytes": np.where(on_device | (reserved > 0), reserved, -1),
    }


def _facts(draft: Draft, metadata: dict[str, Any], window: tuple[int, int]) -> None:
    spread = metadata.get("distributedInfo")
    spread = spread if isinstance(spread, dict) else {}
    rank = integer(spread.get("rank", metadata.get("rank")))
    draft.rank, draft.rank_known = max(rank, 0), rank >= 0
    draft.world_size = max(integer(spread.get("world_size")), 0)
    draft.host = str(metadata.get("host_name", ""))
    properties = metadata.get("deviceProperties")
    used = {lane.device for lane in draft.lanes if lane.device >= 0}
    draft.devices = [
        _device(properties_, draft.rank) for properties_ in properties or [] if isinstance(properties_, dict)
    ]
    draft.devices = [device for device in draft.devices if device.index in used or not used]
    missing = sorted(used - {device.index for device in draft.devices})
    draft.devices += [Device(rank=draft.rank, index=index, name="") for index in missing]
    draft.process_groups = [
        _group(group, draft.rank) for group in spread.get("pg_config") or [] if isinstance(group, dict)
    ]
    announced = integer(spread.get("pg_count"))
    if announced > len(draft.process_groups) > 0:
        draft.notes.append(
            f"{announced} process groups were announced, {len(draft.process_groups)} are described"
        )
    if window[0] >= 0:
        draft.facts["recorded_window_ns"] = list(window)
    if metadata.get("profile_memory"):
        draft.recorded.add("memory")


def _device(values: dict[str, Any], rank: int) -> Device:
    major, minor = values.get("computeMajor"), values.get("computeMinor")
    return Device(
        rank=rank, index=integer(values.get("id")), name=str(values.get("name", "")),
        memory_bytes=max(integer(values.get("totalGlobalMem")), 0),
        multiprocessors=max(integer(values.get("numSms")), 0),
        capability=f"{major}.{minor}" if major is not None else "", properties=values,
    )  # fmt: skip


def _group(values: dict[str, Any], rank: int) -> ProcessGroup:
    ranks = values.get("ranks", [])
    if isinstance(ranks, str):  # on-demand traces write the list as text
        ranks = [int(number) for number in re.findall(r"\d+", ranks)]
    return ProcessGroup(
        rank=rank, name=str(values.get("pg_name", "")), description=str(values.get("pg_desc", "")),
        ranks=tuple(int(number) for number in ranks), backend=str(values.get("backend_config", "")),
        size=max(integer(values.get("pg_size")), 0),
    )  # fmt: skip


def integer(value: Any) -> int:
    """Return a number that may have been written as text, -1 if it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return -1
