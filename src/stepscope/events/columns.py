"""The columns of each series of an event file, and the places of everything else in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stepscope.errors import EventFileError
from stepscope.events.framing import frame
from stepscope.events.messages import Event, Metadata, Summary, Value, decode_event, encode_event
from stepscope.events.source import aligned
from stepscope.events.status import FileStatus
from stepscope.events.wire import decode
from stepscope.kernels import group, payloads, records, scalars, warn_if_uncompiled

if TYPE_CHECKING:
    from stepscope.events.kinds.reading import Checks

warn_if_uncompiled(scalars)
OLD_STYLE = {4: "images", 5: "histograms", 6: "audio"}
"""Plugins that show the old-style values, by their field in Summary.Value."""
RUN_GRAPH, META_GRAPH, LOG_MESSAGE = "__run_graph__", "__meta_graph__", "__log_message__"
SCALARS, TENSOR = "scalars", 8
GRAPHS, RUN_METADATA = "graphs", "graph_tagged_run_metadata"
MOST_TAGS = 1 << 20
"""Of one file. A tag takes some kilobytes in the reader, and ten bytes in the file."""
MOST_ROWS, MOST_NOTES = 1 << 22, 1 << 20
"""Scalars, and other values, of one event."""
NOT_PACKED = -1
UNCHECKED_BYTES = 16 << 20
"""Values from this size on are not looked into before somebody asks for them."""


# --- a batch ----------------------------------------------------------------------------------------


Column = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ScalarColumns:
    """The new points of a series, in the order of the file.

    Attributes:
        tag: Its name.
        wall: Wall time in seconds, float64.
        step: int32, or int64 if one does not fit.
        value: float32, or float64 if one was written with 64 bits.
        position: Position of the record in the file, in bytes; uint32, or int64 if one does not fit.
    """

    tag: str
    wall: Column
    step: Column
    value: Column
    position: Column

    def __len__(self) -> int:
        return len(self.wall)


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """The new values that are not scalars, and graphs: their places, a row each, in the order of the file.

    Attributes:
        tag: Names; ``__run_graph__``, ``__meta_graph__`` for the graphs of the run.
        plugin: Names of the plugin that shows them: from the tag's metadata, or by the type of old-style
            values.
        wall: Wall time in seconds.
        step: Number of the step.
        position: Of the record in the file, in bytes, for ``EventFile.event_at``.
        index: Of the value in its event.
    """

    tag: list[str] = field(default_factory=list)
    plugin: list[str] = field(default_factory=list)
    wall: Column = field(default_factory=lambda: np.empty(0, np.float64))
    step: Column = field(default_factory=lambda: np.empty(0, np.int64))
    position: Column = field(default_factory=lambda: np.empty(0, np.int64))
    index: Column = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.tag)


@dataclass(frozen=True, eq=False)
class PackedColumns:
    """Texts of tags that hold packed numbers, a row each, in the order of the file.

    Attributes:
        tag: Its place among the tags that were asked for.
        wall: Wall time in seconds.
        step: Number of the step.
        start: Start of the text in ``data``.
        length: Of the text, in bytes.
        data: uint8, with the texts among other bytes.
    """

    tag: Column
    wall: Column
    step: Column
    start: Column
    length: Column
    data: Column


@dataclass(frozen=True)
class Session:
    """A SessionLog event: position in bytes, a SessionStatus, step and wall time in seconds."""

    position: int
    status: int
    step: int
    wall: float


@dataclass(frozen=True, eq=False)
class Batch:
    """Every complete record of a file since the last read.

    Attributes:
        scalars: One per tag that has new points.
        records: Places of the other values.
        metadata: Of tags, as first seen in the file.
        sessions: Starts, stops and checkpoints of the session.
        first_wall: Earliest wall time of the events, in seconds, None without events; NaN is left out.
        last_wall: Latest.
        replaced: The file was replaced or cut: everything known of it before is void.
        late: It holds records that come before others already returned: a hole in the file was filled.
        packed: The texts of the tags that the file was opened with.
    """

    scalars: list[ScalarColumns] = field(default_factory=list)
    records: RecordColumns = field(default_factory=RecordColumns)
    metadata: dict[str, Metadata] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    first_wall: float | None = None
    last_wall: float | None = None
    replaced: bool = False
    late: bool = False
    packed: list[PackedColumns] = field(default_factory=list)

    def __bool__(self) -> bool:
        parts = self.scalars, self.records, self.metadata, self.sessions, self.replaced, self.packed
        return any(parts)


# --- the buffers of a read, shared by all files: a set for each read at a time ----------------------
BLOCK_BYTES = 512 << 10
RECORDS = 1 << 15
ROWS = 1 << 17
NOTES = 1 << 10


class Workspace:
    """Buffers for reading one file.

    Attributes:
        buffer: For a block of BLOCK_BYTES.
        starts: Of the payloads in a block.
        lengths: Of the payloads in a block.
        rows: Decoded rows that are not grouped yet.
    """

    def __init__(self) -> None:
        self.buffer = aligned(BLOCK_BYTES)
        self.starts, self.lengths = np.empty(RECORDS, np.int64), np.empty(RECORDS, np.int64)
        self.rows = scalars.Rows(ROWS, NOTES)


_idle: list[Workspace] = []  # append and pop are atomic


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Lend a set of buffers."""
    try:
        lent = _idle.pop()
    except IndexError:
        lent = Workspace()
    try:
        yield lent
    finally:
        if len(lent.rows.tag) > ROWS or len(lent.rows.note_wall) > NOTES:  # of one large event
            lent.rows = scalars.Rows(ROWS, NOTES)
        lent.rows.clear()
        _idle.append(lent)


# --- from records to columns ------------------------------------------------------------------------
@dataclass
class DecodedBlock:
    """Rows grouped by tag; ``ends`` holds the end of each tag's rows in every column."""

    ends: Column
    columns: list[Any]
    wide: Column
    """Tags whose values need 64 bits."""


class TagColumns:
    """Facts of the tags of a file, and the rows that wait to become a batch.

    Args:
        packed: Tags whose values are texts that the batch is to hold.
    """

    def __init__(self, packed: Sequence[str] = ()) -> None:
        self._packed_tags = packed
        self._packed_numbers: list[int] = []
        self._tags = scalars.Tags()
        self._names: list[str] = []
        self._plugins: dict[int, str] = {}
        self._decoded: dict[int, tuple[bytes, Metadata]] = {}
        self._checks: Checks | None = None
        self._begin()

    def _begin(self) -> None:
        self._pieces: list[DecodedBlock] = []
        self._others: list[tuple[str, str, float, int, int, int]] = []
        self._metadata: dict[str, Metadata] = {}
        self._sessions: list[Session] = []
        self._walls: list[float] = []
        self._packed: list[PackedColumns] = []

    def plugins(self) -> dict[str, str]:
        """Return the plugin of each tag that came with metadata: writers send it once per file."""
        self._read_names()
        return {self._names[tag]: plugin for tag, plugin in self._plugins.items()}

    def learn(self, plugins: dict[str, str], work: Workspace) -> None:
        """Take the plugins of tags as if their metadata had been read."""
        pairs = list(plugins.items())
        for start in range(0, len(pairs), RECORDS):
            values = (
                Value(tag, metadata=Metadata.of(plugin)) for tag, plugin in pairs[start : start + RECORDS]
            )
            events = (Event(math.nan, 0, summary=Summary([value])) for value in values)
            block = memoryview(b"".join(frame(encode_event(event)) for event in events))
            count, _, _ = records.scan(block, work.starts, work.lengths)
            self.add(block, count, 0, work, FileStatus())
            self.batch(work, FileStatus(), replaced=False, late=False)

    def add(self, block: memoryview, count: int, base: int, work: Workspace, status: FileStatus) -> None:
        """Decode records.

        Args:
            block: The bytes that hold them.
            count: Their number; their places are in ``work``.
            base: Position of the block in its file.
            work: Buffers; rows gather in it until ``batch``.
            status: Of the file; counts findings.
        """
        done = 0
        rows = work.rows
        while done < count:
            before = done
            done = scalars.decode(block, work.starts, work.lengths, done, count, base, self._tags, rows)
            if rows.noted:
                self._read_notes(block, rows, status)
            if done < count and rows.needed and self._tags.count >= MOST_TAGS:
                status.beyond += 1
                done += 1
            elif done < count and rows.needed:
                self._tags.grow(rows.needed)
            elif done < count and rows.count:
                self._group(rows)
            elif done == before < count and len(rows.note_wall) >= MOST_NOTES:
                status.undecodable += 1
                done += 1
            elif done == before < count:
                notes = min(8 * len(rows.note_wall), MOST_NOTES)
                work.rows = rows = scalars.Rows(min(2 * len(rows.tag), MOST_ROWS), notes)
        status.records += count

    @property
    def is_full(self) -> bool:
        """Whether the waiting rows take much memory."""
        return len(self._others) >= MOST_NOTES

    def batch(self, work: Workspace, status: FileStatus, *, replaced: bool, late: bool) -> Batch:
        """Return the rows added since the last batch."""
        self._group(work.rows)
        walls = sorted(self._walls)
        batch = Batch(
            self._merge(),
            _record_columns(self._others),
            self._metadata,
            self._sessions,
            walls[0] if walls else None,
            walls[-1] if walls else None,
            replaced,
            late,
            self._packed,
        )
        status.scalars += sum(map(len, batch.scalars))
        self._begin()
        return batch

    # --- scalars ------------------------------------------------------------------------------------

    def _group(self, rows: Any) -> None:
        """Group the rows by tag and make room for others."""
        if rows.low_wall <= rows.high_wall:
            self._walls += rows.low_wall, rows.high_wall
        if n := rows.count:
            ends, slot = np.empty(self._tags.count, np.int64), np.empty(n, np.uint32)
            group.slots(rows.tag[:n], ends, slot)
            wide = np.asarray(self._tags.flags)[: self._tags.count] & scalars.IS_WIDE != 0
            narrow_step = rows.low_step >= -(1 << 31) and rows.high_step < 1 << 31
            narrow_position = rows.position[n - 1] < 1 << 32
            columns: list[Any] = [
                np.empty(n, np.float64),
                np.empty(n, np.int32 if narrow_step else np.int64),
                np.empty(n, np.float64 if wide.any() else np.float32),
                np.empty(n, np.uint32 if narrow_position else np.int64),
            ]
            group.scatter_reals(rows.wall[:n], slot, columns[0])
            group.scatter_integers(rows.step[:n], slot, columns[1])
            group.scatter_reals(rows.value[:n], slot, columns[2])
            group.scatter_integers(rows.position[:n], slot, columns[3])
            self._pieces.append(DecodedBlock(ends, columns, wide))
        rows.clear()

    def _merge(self) -> list[ScalarColumns]:
        """Join the pieces; a column at a time, so that no more than one is there twice."""
        if not self._pieces:
            return []
        self._read_names()
        bounds = [bounds_of(piece.ends.tolist()) for piece in self._pieces]
        numbers = sorted({number for some in bounds for number, _, _ in some})
        joined = []
        for column in range(4):
            joined.append(self._join(numbers, column, bounds))
            for piece in self._pieces:
                piece.columns[column] = None
        return [
            ScalarColumns(self._names[number], *columns)
            for number, *columns in zip(numbers, *joined, strict=True)
        ]

    def _join(self, numbers: list[int], column: int, bounds: list[list[Bounds]]) -> list[Column]:
        """Return a column of each of these tags; tags in turn that have the same numbers share one."""
        pieces = []
        for piece, some in zip(self._pieces, bounds, strict=True):
            values = piece.columns[column]
            if column < 2:  # what is logged at one step has one step and one time
                parts = shared_parts(values, some)
            elif column == 2 and values.dtype == np.float64:
                wide = piece.wide.tolist()
                parts = [
                    values[start:end] if wide[number] else values[start:end].astype(np.float32)
                    for number, start, end in some
                ]
            else:
                parts = [values[start:end] for _, start, end in some]
            pieces.append(parts)
        if len(pieces) == 1:
            return pieces[0]
        of_tag: dict[int, list[Column]] = {number: [] for number in numbers}
        for parts, some in zip(pieces, bounds, strict=True):
            for part, (number, _, _) in zip(parts, some, strict=True):
                of_tag[number].append(part)
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in of_tag.values()]

    def _read_names(self) -> None:
        names = bytes(self._tags.names)
        for number in range(len(self._names), self._tags.count):
            start = self._tags.ends[number - 1] if number else 0
            # A tag that is no UTF-8 is shown with its bytes spelled out.
            name = names[start : self._tags.ends[number]].decode("utf-8", "backslashreplace")
            self._names.append(name)
            if self._packed_tags:
                self._packed_numbers.append(
                    self._packed_tags.index(name) if name in self._packed_tags else NOT_PACKED
                )

    # --- everything else ----------------------------------------------------------------------------

    def _read_notes(self, block: memoryview, rows: Any, status: FileStatus) -> None:
        self._read_names()
        notes = np.asarray(rows.notes).reshape(-1, scalars.NOTE)[: rows.noted]
        walls = np.asarray(rows.note_wall)[: rows.noted]
        if self._packed_tags:
            rest = ~self._take_packed(block, notes, walls, status)
            notes, walls = notes[rest], walls[rest]
        for note, wall in zip(notes.tolist(), walls.tolist(), strict=True):
            kind, tag, step, position, index, start, length = note
            if kind == scalars.UNDECODABLE:
                status.undecodable += 1
            elif kind == scalars.UNEVEN:
                status.malformed += 1
            elif kind > scalars.EVENT:
                self._read_event(bytes(block[start : start + length]), position, status)
            elif kind == scalars.METADATA:
                self._read_metadata(tag, bytes(block[start : start + length]), status)
            elif self._plugins.get(tag) == SCALARS and kind == TENSOR:
                status.malformed += 1
            else:
                plugin = self._plugins.get(tag) or OLD_STYLE.get(kind, "")
                if plugin == OLD_STYLE.get(kind) or self._holds(tag, plugin, kind, block, start, length):
                    self._others.append((self._names[tag], plugin, wall, step, position, index))
                else:
                    status.malformed += 1
        rows.noted = 0

    def _take_packed(self, block: memoryview, notes: Column, walls: Column, status: FileStatus) -> Column:
        """Take the texts of packed tags; return which notes are theirs."""
        numbers = np.array([*self._packed_numbers, NOT_PACKED], np.int16)[notes[:, 1]]
        taken: Column = (numbers != NOT_PACKED) & (notes[:, 0] == TENSOR)
        starts, lengths = np.ascontiguousarray(notes[taken, 5:7].T)
        payloads.texts(block, starts, lengths)
        whole = lengths >= 0
        status.malformed += int(np.count_nonzero(~whole))
        if whole.any():
            notes, walls, numbers, starts, lengths = (
                column[whole] for column in (notes[taken], walls[taken], numbers[taken], starts, lengths)
            )
            first, end = int(starts.min()), int((starts + lengths).max())
            data = np.frombuffer(block[first:end], np.uint8).copy()
            self._packed.append(PackedColumns(numbers, walls, notes[:, 2], starts - first, lengths, data))
        return taken

    def _holds(self, tag: int, plugin: str, kind: int, block: memoryview, start: int, length: int) -> bool:
        """Return whether a value fits its plugin."""
        if length > UNCHECKED_BYTES:
            return True
        if self._checks is None:
            from stepscope.events.kinds.reading import Checks  # who records reads no values

            self._checks = Checks()
        known = self._decoded.get(tag)
        data = known[1].plugin_data if known else None
        content = data.content if data else b""
        return self._checks.holds(plugin, content, kind, bytes(block[start : start + length]))

    def _read_metadata(self, tag: int, data: bytes, status: FileStatus) -> None:
        known = self._decoded.get(tag)
        if known is None or known[0] != data:  # many writers send the same with every value
            try:
                known = self._decoded[tag] = (data, decode(Metadata, data))
            except EventFileError:
                status.undecodable += 1
                return
        self._metadata[self._names[tag]] = known[1]
        self._plugins[tag] = known[1].plugin_name

    def _read_event(self, payload: bytes, position: int, status: FileStatus) -> None:
        try:
            event = decode_event(payload)
        except EventFileError:
            status.undecodable += 1
            return
        if event.file_version is not None:
            status.version = event.file_version
        elif event.session_log:
            session = Session(position, event.session_log.status, event.step, event.wall_time)
            self._sessions.append(session)
        else:
            self._others.append((*_graph(event), event.wall_time, event.step, position, 0))


Bounds = tuple[int, int, int]
"""Number of a tag, and the first and last bound of its rows."""


def bounds_of(ends: list[int]) -> list[Bounds]:
    """Return the bounds of the tags that have rows, by the end of each."""
    return [(tag, begin, end) for tag, (begin, end) in enumerate(pairwise([0, *ends])) if begin < end]


def shared_parts(values: Column, bounds: list[Bounds]) -> list[Column]:
    """Return the rows of each tag; rows that equal those of the tag before are the same array."""
    parts: list[Column] = []
    for count, some in groupby(bounds, lambda one: one[2] - one[1]):
        (_, begin, end), *rest = some
        rows = values[begin : rest[-1][2] if rest else end].reshape(-1, count)
        again = (rows[1:] == rows[:-1]).all(axis=1).tolist() if rest else []
        for row, same in zip(rows, [False, *again], strict=True):
            parts.append(parts[-1] if same else row)
    return parts


def _graph(event: Event) -> tuple[str, str]:
    """Return tag and plugin of a value other than a summary, as TensorBoard names them."""
    if event.graph_def is not None:
        return RUN_GRAPH, GRAPHS
    if event.meta_graph_def is not None:
        return META_GRAPH, GRAPHS
    if event.tagged_run_metadata is not None:
        return event.tagged_run_metadata.tag, RUN_METADATA
    return LOG_MESSAGE, ""


def _record_columns(rows: list[tuple[str, str, float, int, int, int]]) -> RecordColumns:
    if not rows:
        return RecordColumns()
    tag, plugin, wall, step, position, index = zip(*rows, strict=True)
    return RecordColumns(
        list(tag),
        list(plugin),
        np.array(wall, np.float64),
        np.array(step, np.int64),
        np.array(position, np.int64),
        np.array(index, np.int32),
    )
