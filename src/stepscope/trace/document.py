"""A Chrome trace document as columns: the events' fields as numbers, all other keys as they are.

The document is read once, block by block, with ``kernels.objects``; no Python object is made per event.
Metadata may stand before and after the events. A document that is cut short gives its whole part, and says
so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.errors import TraceError
from stepscope.kernels import objects
from stepscope.kernels.objects import CHARACTER, IDENTITY, INTEGER, MICRO, MILLI, NESTED, TOKEN
from stepscope.trace.names import Strings

MISSING = -(1 << 63)
ROWS_PER_CHUNK = 1 << 16
SPARSE_PER_CHUNK = 1 << 18
LARGEST_METADATA = 16 << 20
"""Bytes of one top-level value beyond which it is not parsed."""

PHASE, NAME, CATEGORY, PROCESS, THREAD = range(5)
START, DURATION = range(2)

_OUTER: dict[str, int] = {
    "ph": CHARACTER, "name": TOKEN, "cat": TOKEN, "pid": TOKEN, "tid": TOKEN, "ts": MILLI, "dur": MILLI,
    "id": IDENTITY, "args": NESTED,
}  # fmt: skip
_ARGS: dict[str, int] = {
    "External id": INTEGER, "external id": INTEGER, "correlation": INTEGER, "Sequence number": INTEGER,
    "Fwd thread id": INTEGER, "Record function id": INTEGER, "Input Dims": TOKEN, "Input type": TOKEN,
    "Input dims": TOKEN, "Concrete Inputs": TOKEN, "Call stack": TOKEN, "Module Hierarchy": TOKEN,
    "Python id": INTEGER, "Python parent id": INTEGER, "flops": INTEGER,
    "Addr": INTEGER, "Bytes": INTEGER, "Total Allocated": INTEGER, "Total Reserved": INTEGER,
    "Device Type": INTEGER, "Device Id": INTEGER,
    "device": INTEGER, "stream": INTEGER, "registers per thread": INTEGER, "shared memory": INTEGER,
    "blocks per SM": MICRO, "warps per SM": MICRO, "grid": TOKEN, "block": TOKEN,
    "est. achieved occupancy %": MICRO, "bytes": INTEGER,
    "cuda_sync_kind": TOKEN, "wait_on_stream": INTEGER, "wait_on_cuda_event_record_corr_id": INTEGER,
    "wait_on_cuda_event_id": INTEGER, "event_id": INTEGER,
    "Collective name": TOKEN, "In msg nelems": INTEGER, "Out msg nelems": INTEGER, "Group size": INTEGER,
    "dtype": TOKEN, "Process Group Name": TOKEN, "Src Rank": INTEGER, "Dst Rank": INTEGER, "Seq": INTEGER,
    "op_name": TOKEN,
    "op": TOKEN, "name": TOKEN, "hlo_op": TOKEN, "hlo_module": TOKEN, "tf_op": TOKEN, "source": TOKEN,
    "hlo_category": TOKEN, "step_num": INTEGER, "correlation_id": INTEGER, "model_flops": INTEGER,
    "memcpy_details": TOKEN, "DispatchId": INTEGER,
}  # fmt: skip

RAW_PHASES = b"CMO"
"""Phases whose whole ``args`` are kept as text: counters, metadata, object snapshots."""

ARROWS = ("ac2g", "async_cpu_to_gpu")
"""Categories left out at once: launch arrows repeat ``correlation``, and wrongly (every
runtime call ends one)."""


@dataclass(slots=True)
class Document:
    """One Chrome trace, read.

    Text columns are numbers into :attr:`strings`, -1 if an event has no such key. Times are in ns; a
    missing time is :data:`MISSING`.
    """

    phase: npt.NDArray[np.uint8]
    name: npt.NDArray[np.int32]
    category: npt.NDArray[np.int32]
    process: npt.NDArray[np.int32]
    thread: npt.NDArray[np.int32]
    start_ns: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]
    sparse: dict[str, tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]
    """Values of all other keys: rows and values. Keys of ``args`` have their own name, ``id`` and ``args``
    (the whole text of it, for :data:`RAW_PHASES`) are the outer ones."""
    strings: Strings
    metadata: dict[str, Any]
    dropped: dict[str, int]
    notes: list[str]
    bytes: int = 0

    def __len__(self) -> int:
        return len(self.phase)

    def column(self, key: str, missing: int = -1) -> npt.NDArray[np.int64]:
        """Return the values of a sparse key for every event."""
        values = np.full(len(self), missing, np.int64)
        rows, given = self.sparse.get(key, _NOTHING)
        values[rows] = given
        return values


_NOTHING = (np.zeros(0, np.int32), np.zeros(0, np.int64))


def read_document(blocks: Iterable[bytes]) -> Document:
    """Read a Chrome trace.

    Raises:
        TraceError: Not a JSON object with an array ``traceEvents``, nor an array of events.
    """
    reader = _DocumentReader(iter(blocks))
    reader.read()
    return reader.document()


class _InternedTexts:
    """The interned texts of a scan: an arena and a hash table that grow."""

    def __init__(self, texts: int = 1 << 14, arena: int = 1 << 20) -> None:
        self.arena = np.zeros(arena, np.uint8)
        self.ends = np.zeros(texts, np.int64)
        self.hashes = np.zeros(texts, np.uint64)
        self.slots = np.full(texts * 2, -1, np.int32)

    def add(self, text: str, state: npt.NDArray[np.int64]) -> int:
        data = text.encode()
        return int(self.table().add(data + bytes(8), len(data), state))

    def table(self) -> objects.Texts:
        """Return the arrays of now as the kernel takes them."""
        return objects.Texts(self.arena, self.ends, self.hashes, self.slots)

    def grow_texts(self, count: int) -> None:
        self.ends, self.hashes = _grown(self.ends), _grown(self.hashes)
        self.slots = np.full(len(self.slots) * 2, -1, np.int32)
        objects.rehash(self.hashes, count, self.slots)

    def grow_arena(self, least: int) -> None:
        self.arena = _grown(self.arena, max(2 * len(self.arena), least))


def _grown(array: npt.NDArray[Any], size: int | None = None) -> npt.NDArray[Any]:
    larger = np.zeros(size or 2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


@dataclass(slots=True)
class _Chunk:
    """A stretch of events."""

    dense: npt.NDArray[np.int32]
    wide: npt.NDArray[np.int64]
    sparse_row: npt.NDArray[np.int32]
    sparse_column: npt.NDArray[np.uint8]
    sparse_value: npt.NDArray[np.int64]


class _Keys:
    """The wanted keys as the kernel takes them."""

    def __init__(self) -> None:
        state = np.zeros(8, np.int64)
        self.table = _InternedTexts(256, 4096)
        self.types = np.array([*_OUTER.values(), *_ARGS.values()], np.uint8)
        self.columns = np.full((2, 256), -1, np.int32)
        for column, key in enumerate([*_OUTER, *_ARGS]):
            self.columns[int(column >= len(_OUTER)), self.table.add(key, state)] = column
        # Both spellings of a key are one column.
        for alias, key in (("external id", "External id"), ("Input dims", "Input Dims")):
            self.columns[1, self.table.add(alias, state)] = self.columns[1, self.table.add(key, state)]
        self.raw = np.zeros(256, np.uint8)
        self.raw[list(RAW_PHASES)] = 1
        self.dense, self.wide = 5, 2


@dataclass(slots=True)
class _DocumentReader:
    blocks: Iterator[bytes]
    keys: _Keys = field(default_factory=_Keys)
    texts: _InternedTexts = field(default_factory=_InternedTexts)
    chunks: list[_Chunk] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    data: bytes = b""
    """The text to be read, padded by eight zero bytes."""
    size: int = 0
    at: int = 0
    final: bool = False
    total: int = 0
    has_events: bool = False
    state: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(8, np.int64))
    skipped: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(ARROWS), np.int64))

    # --- bytes ---

    def more(self) -> bool:
        """Append the next block to the unused bytes; False at the end."""
        block = next(self.blocks, b"")
        self.final = not block
        self.total += len(block)
        self.data = b"".join((memoryview(self.data)[self.at : self.size], block, bytes(8)))
        self.size, self.at = len(self.data) - 8, 0
        return bool(block)

    def space(self, extra: bytes = b"") -> int:
        """Skip white space and return the next byte, -1 at the end."""
        skip = b" \t\r\n" + extra
        while True:
            while self.at < self.size and self.data[self.at] in skip:
                self.at += 1
            if self.at < self.size:
                return self.data[self.at]
            if not self.more():
                return -1

    def value(self) -> bytes | None:
        """Return the JSON value at this place, None if the document ends first."""
        while True:
            end = objects.skip_value(self.data, self.at, self.size)
            if 0 <= end < self.size:
                value = self.data[self.at : end]
                self.at = end
                return value
            if not self.more():
                return None

    # --- structure ---

    def read(self) -> None:
        for text in ARROWS:
            self.texts.add(text, self.state)
        if self.space() == 0xEF:  # a byte order mark
            self.at += 3
        first = self.space()
        if first == ord("["):
            self.at += 1
            self.has_events = True
            self.events(closing=False)
        elif first == ord("{"):
            self.at += 1
            self.top_level()
        else:
            got = (
                "nothing"
                if first < 0
                else repr(bytes(self.data[self.at : min(self.at + 20, self.size)]).decode("latin-1"))
            )
            raise TraceError(
                f"not a trace: expected a JSON object or array, got {got}",
                hint="pass the file from export_chrome_trace() or another profiler's trace",
            )
        if not self.has_events:
            keys = ", ".join(list(self.metadata)[:8]) or "nothing"
            raise TraceError(
                f"not a Chrome trace: expected an array at $.traceEvents, got {keys}",
                hint="pass the file from export_chrome_trace() or a Chrome/Perfetto JSON trace",
            )

    def top_level(self) -> None:
        while True:
            next_byte = self.space(b",")
            if next_byte == ord("}"):
                return
            key = self.value() if next_byte == ord('"') else None
            if key is None or self.space() != ord(":"):
                self.cut()
                return
            self.at += 1
            name = _decode(key)
            if name == "traceEvents" and self.space() == ord("["):
                self.at += 1
                self.has_events = True
                if not self.events():
                    return
                continue
            self.space()
            value = self.value()
            if value is None:
                self.cut()
                return
            self.keep(str(name), value)

    def keep(self, name: str, value: bytes) -> None:
        if len(value) > LARGEST_METADATA:
            self.dropped["metadata_bytes"] = self.dropped.get("metadata_bytes", 0) + len(value)
            self.notes.append(f"the top-level value {name} is {len(value):,} bytes long and was not read")
            return
        try:
            self.metadata[name] = _decode(value)
        except ValueError:
            self.dropped["unreadable_metadata"] = self.dropped.get("unreadable_metadata", 0) + 1

    def cut(self) -> None:
        if not self.has_events:
            return
        self.dropped["cut_short"] = 1
        self.notes.append("the document ends too early; all events before the cut were read")

    def events(self, *, closing: bool = True) -> bool:
        """Read the array of events; False if the document ended in it."""
        self.chunk()
        while True:
            self.state[objects.AT] = self.at
            why = self.scan()
            self.at = int(self.state[objects.AT])
            if why == objects.END:
                self.seal()
                return True
            if why == objects.GROW:
                self.grow()
            elif why == objects.BAD:
                self.resync()
            elif not self.more():
                self.seal()
                if closing or self.at < self.size:
                    self.cut()
                return False

    def scan(self) -> int:
        keys, chunk = self.keys, self.chunks[-1]
        plan = objects.Plan(keys.table.table(), keys.columns, keys.types, keys.raw, self.skipped, CATEGORY)
        room = objects.Room(
            chunk.dense, chunk.wide, chunk.sparse_row, chunk.sparse_column, chunk.sparse_value
        )
        texts = self.texts.table()
        return int(objects.Scan(self.data, self.size, self.final, plan, room, texts, self.state).run())

    def resync(self) -> None:
        """Go on at the next thing that looks like an event."""
        self.dropped["malformed_events"] = self.dropped.get("malformed_events", 0) + 1
        self.at += 1
        while True:
            match = _EVENT.search(self.data, self.at, self.size)
            if match:
                self.at = match.start()
                return
            self.at = max(self.at, self.size - 64)
            if not self.more():
                self.at = self.size
                return

    # --- columns ---

    def chunk(self) -> None:
        self.chunks.append(
            _Chunk(
                np.empty((self.keys.dense, ROWS_PER_CHUNK), np.int32),
                np.empty((self.keys.wide, ROWS_PER_CHUNK), np.int64),
                np.empty(SPARSE_PER_CHUNK, np.int32),
                np.empty(SPARSE_PER_CHUNK, np.uint8),
                np.empty(SPARSE_PER_CHUNK, np.int64),
            )
        )
        self.state[objects.ROWS] = self.state[objects.SPARSE] = 0

    def seal(self) -> None:
        """Cut the current chunk to its written part."""
        rows, sparse, chunk = int(self.state[objects.ROWS]), int(self.state[objects.SPARSE]), self.chunks[-1]
        before = sum(chunk.dense.shape[1] for chunk in self.chunks[:-1])
        full = rows == ROWS_PER_CHUNK
        chunk.dense = chunk.dense if full else chunk.dense[:, :rows].copy()
        chunk.wide = chunk.wide if full else chunk.wide[:, :rows].copy()
        chunk.sparse_row = chunk.sparse_row[:sparse] + np.int32(before)
        chunk.sparse_column = chunk.sparse_column[:sparse].copy()
        chunk.sparse_value = chunk.sparse_value[:sparse].copy()
        self.state[objects.ROWS] = self.state[objects.SPARSE] = 0

    def grow(self) -> None:
        left = self.size - self.at
        if self.state[objects.TEXTS] >= len(self.texts.ends):
            self.texts.grow_texts(int(self.state[objects.TEXTS]))
        elif (
            self.state[objects.ROWS] < ROWS_PER_CHUNK
            and len(self.texts.arena) - self.state[objects.ARENA] < left
        ):
            self.texts.grow_arena(int(self.state[objects.ARENA]) + left)
        else:
            self.seal()
            self.chunk()

    def document(self) -> Document:
        state, texts = self.state, self.texts
        for name, field_ in (("mistyped_values", objects.MISTYPED), ("saturated_numbers", objects.SATURATED)):
            if state[field_]:
                self.dropped[name] = int(state[field_])
        if self.skipped.sum():
            self.dropped["launch_arrows"] = int(self.skipped.sum())
        chunks = self.chunks
        dense = [_joined([chunk.dense[i] for chunk in chunks], np.int32) for i in range(self.keys.dense)]
        wide = [_joined([chunk.wide[i] for chunk in chunks], np.int64) for i in range(self.keys.wide)]
        for chunk in chunks:
            chunk.dense, chunk.wide = chunk.dense[:, :0], chunk.wide[:, :0]
        count = int(state[objects.TEXTS])
        strings = Strings(texts.arena[: int(state[objects.ARENA])].copy(), texts.ends[:count].copy())
        return Document(
            phase=dense[PHASE].astype(np.uint8),
            name=dense[NAME],
            category=dense[CATEGORY],
            process=dense[PROCESS],
            thread=dense[THREAD],
            start_ns=wide[START],
            duration_ns=wide[DURATION],
            sparse=self.split(),
            strings=strings,
            metadata=self.metadata,
            dropped=self.dropped,
            notes=self.notes,
            bytes=self.total,
        )

    def split(self) -> dict[str, tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]]:
        """Sort the sparse values by key; within a key they stay in row order."""
        columns = _joined([chunk.sparse_column for chunk in self.chunks], np.uint8)
        order = np.argsort(columns, kind="stable")
        rows = _joined([chunk.sparse_row for chunk in self.chunks], np.int32)[order]
        values = _joined([chunk.sparse_value for chunk in self.chunks], np.int64)[order]
        ends = np.cumsum(np.bincount(columns, minlength=len(self.keys.types)))
        names = [*_OUTER, *(f"{key}" if key not in _OUTER else f"args.{key}" for key in _ARGS)]
        result, start = {}, 0
        for name, end in zip(names, ends.tolist(), strict=True):
            if end > start:
                result[name] = (rows[start:end], values[start:end])
            start = end
        return result


_EVENT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|args|id|dur|s|bp)"\s*:')


def _joined(parts: list[npt.NDArray[Any]], dtype: Any) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _decode(value: bytes) -> Any:
    return json.loads(value.decode("utf-8", "replace"), strict=False)
