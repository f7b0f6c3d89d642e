"""Compacted event files: their points as Parquet, their other values as whole records, one index over both.

An event file ``events.out.tfevents.X`` becomes, in the same folder of the run,

- ``events.out.compacted.X.<n>.parquet``: points, series by series in the order of the file: ``attempt`` (its
  number in this file), ``tag``, ``step``, ``wall``, ``value``. Any reader of Parquet opens them.
- ``events.out.compacted.X.records``: the records that hold anything else, byte for byte as they were.
- ``events.out.compacted.X.index``: which rows are which series, the file's facts about its run, and the
checksum of each of the others. It is written last: if it exists, everything else does.

No name holds "tfevents", so no reader of event files takes one for an event file.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from isal import isal_zlib

from stepscope import lazy
from stepscope.errors import EventFileError, LogDirectoryError, StepscopeError
from stepscope.events import FileStatus
from stepscope.events.ending import Ending
from stepscope.files import regular_bytes
from stepscope.store.index import Attempt, sealed, unsealed
from stepscope.store.info import RunInfo
from stepscope.store.points import Last, SeriesColumns, SeriesFacts, SeriesPoints
from stepscope.store.records import About, RecordPlaces, Records
from stepscope.store.source import FollowedFile, identity
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.mirror import Mirror
    from stepscope.store.pyramid import Levels

MAGIC = b"stepscope-compacted-1\n"
"""Version of the layout; any other is not read, and reported."""
READ_BYTES = 8 << 20
ROW_COLUMNS = ("step", "wall", "value")
PLACES = ("<i8", "<f8", "<i8", "<i4")
"""Types of step, wall time, position and number in the event."""
COLUMN_TYPES = ("<i4", "<i8", "<f4", "<f8")
"""Types that the columns of an event file may have."""
MOST_INDEX_BYTES = 1 << 30
ROW_BYTES = 24
"""Memory of one row while it is read."""


class Extent(msgspec.Struct, array_like=True):
    """Rows of one of the Parquet files: which file, the first row, and how many."""

    file: int
    start: int
    count: int


class CompactedSeries(msgspec.Struct, array_like=True):
    """One series: its facts, the place of its rows, and the types that its columns had."""

    last: Last
    facts: SeriesFacts
    types: tuple[str, str]
    rows: list[Extent]


class CompactedRecords(msgspec.Struct, array_like=True):
    """The values of one tag that are not scalars, and their places, as columns of bytes."""

    about: tuple[str, bytes, str, str]
    places: tuple[bytes, bytes, bytes, bytes]


class PackedFile(msgspec.Struct, array_like=True):
    """A file beside the index: its name, size and checksum."""

    name: str
    size: int
    crc: int


class CompactedIndex(msgspec.Struct, array_like=True):
    """Everything known of an event file.

    Attributes:
        name: Of the event file.
        size: Its bytes.
        written: When it was last written, seconds since the epoch.
        ending: When its process ended cleanly, if that was noted; NaN if the time is unknown.
        points: The Parquet files.
        others: The file of records; None if there are none.
    """

    name: str
    size: int
    written: float
    ending: float | None
    status: FileStatus
    info: RunInfo | None
    config: dict[str, Any]
    experiment: dict[str, Any]
    first_wall: float
    last_wall: float
    parts: list[Attempt[CompactedSeries, CompactedRecords]]
    points: list[PackedFile]
    others: PackedFile | None

    @property
    def pieces(self) -> list[PackedFile]:
        """All files beside the index."""
        return [*self.points, *([self.others] if self.others else [])]

    @property
    def count(self) -> int:
        """Points in the file."""
        return sum(series.facts.size for part in self.parts for series in part.tags.values())


def encode_index(index: CompactedIndex) -> bytes:
    """Return an index as a file holds it."""
    return sealed(MAGIC, index)


_decoder = msgspec.msgpack.Decoder(CompactedIndex)


def load_index(path: Path) -> CompactedIndex:
    """Return the index in a file.

    Raises:
        EventFileError: It is not an index of this version, or is damaged.
        OSError: It cannot be read.
    """
    data = regular_bytes(path, MOST_INDEX_BYTES)
    again = "compact the original log again, or take its event files"
    if not data.startswith(MAGIC):
        raise EventFileError("not an index of a compacted log of this version", hint=again, path=path)
    index = unsealed(MAGIC, data, _decoder)
    if index is None:
        raise EventFileError("the index of a compacted log is damaged", hint=again, path=path)
    if wrong := contradiction(index):
        raise EventFileError(f"the index of a compacted log is damaged: {wrong}", hint=again, path=path)
    return index


def contradiction(index: CompactedIndex) -> str:
    """Return a contradiction in an index, nothing if it has none: its checksum may be forged."""
    for name in (index.name, *(piece.name for piece in index.pieces)):
        if name != os.path.basename(name) or name in ("", ".", "..") or "\0" in name:  # noqa: PTH119  text alone
            return f"{name!r:.100} is not the name of a file beside it"
    for part in index.parts:
        for tag, series in part.tags.items():
            rows = series.rows
            if any(not 0 <= row.file < len(index.points) or min(row.start, row.count) < 0 for row in rows):
                return f"the rows of {tag!r:.100} are in no file"
            if sum(row.count for row in rows) != series.facts.size or not rows:
                return f"{tag!r:.100} has another number of rows than of points"
            if any(kind not in COLUMN_TYPES for kind in series.types):
                return f"{tag!r:.100} has columns of a type that there is not"
        for tag, records in part.records.items():
            counts = {
                len(data) / np.dtype(kind).itemsize for data, kind in zip(records.places, PLACES, strict=True)
            }
            if len(counts) != 1 or not counts.pop().is_integer():
                return f"the values of {tag!r:.100} have places of unlike number"
    return ""


class CompactedFile(FollowedFile):
    """A compacted event file, in place of the original event file, whose name it has.

    Args:
        path: The index.
        store: The copy of a log directory in a store that it lies in; the files that it names are there.
    """

    def __init__(self, path: str, store: Mirror | None = None) -> None:
        super().__init__(path)
        self.index_path = Path(path)
        self._store, self._fetching = store, threading.Lock()
        self._index: CompactedIndex | None = None
        self._folder = self.index_path.parent
        self._checked: set[str] = set()

    @property
    def size(self) -> int:
        """Bytes that the event file had."""
        return self._index.size if self._index else 0

    @property
    def written(self) -> float:
        """When the event file was last written, seconds since the epoch."""
        return self._index.written if self._index else super().written

    @property
    def records_path(self) -> str:
        """The file that holds the records.

        Raises:
            LogDirectoryError: It is in a store, and cannot be read from there.
        """
        others = self._index.others if self._index else None
        if others is None:
            return self.path
        place = self._folder / others.name
        if self._store is not None and not place.exists():
            self._store.fetch([self._name_there(others)])
        return str(place)

    def is_due(self, stat: os.stat_result) -> bool:
        """Return whether the index is new or has been replaced."""
        return self.seen is None or identity(stat) != identity(self.seen)

    def follow(self, stat: os.stat_result) -> set[str] | None:
        """Read the index; return the tags that changed."""
        with self.lock:
            gone = self._forget() if self.seen is not None else set()
            try:
                self._take_index(load_index(self.index_path))
                self.error = self._missing()
            except EventFileError as error:
                self.error = error.message
            except OSError as error:
                self.error = error.strerror or str(error)
            self.seen = stat
            return gone | {tag for part in self.parts for tag in (*part.tags, *part.records)}

    def _missing(self) -> str | None:
        """Return which of the files that the index names is missing or not as it was written."""
        assert self._index is not None
        for piece in self._index.pieces:
            size = self._size_of(piece)
            if size is None:
                return f"{piece.name} is missing, which holds part of it"
            if size != piece.size:
                return f"{piece.name} has {size:,} bytes, and {piece.size:,} were written"
        return None

    def _size_of(self, piece: PackedFile) -> int | None:
        try:
            status = (self._folder / piece.name).stat()
            return status.st_size if S_ISREG(status.st_mode) else None
        except OSError:
            there = self._store.elsewhere.get(self._name_there(piece)) if self._store else None
            return there.size if there else None

    def _name_there(self, piece: PackedFile) -> str:
        assert self._store is not None
        return (self._folder / piece.name).relative_to(self._store.folder).as_posix()

    def _take_index(self, index: CompactedIndex) -> None:
        self._index = index
        self.name = index.name
        self.path = str(self._folder / index.name)
        self.status, self.info = index.status, index.info
        self.config, self.experiment = index.config, index.experiment
        self.ending = None if index.ending is None else Ending(finite(index.ending))
        self.first_wall, self.last_wall = index.first_wall, index.last_wall
        self.parts = tuple(
            part.mapped(self._points, lambda _, records: places_of(records)) for part in index.parts
        )
        self.shape += 1

    def _points(self, tag: str, series: CompactedSeries) -> SeriesPoints:
        def load() -> SeriesColumns:
            return self._columns(tag, series)

        def no_pyramid() -> Levels:
            return ()

        return SeriesPoints.stored(series.facts.size, series.last, series.facts, load, no_pyramid)

    def _columns(self, tag: str, series: CompactedSeries) -> SeriesColumns:
        """Return the columns of a series: only its rows are read.

        Raises:
            LogDirectoryError: They cannot be.
        """
        assert self._index is not None
        if series.facts.size * ROW_BYTES > memory_bytes():
            raise LogDirectoryError(
                f"{tag!r} has {series.facts.size:,} points, more than this machine has memory for",
                hint="read it on a larger machine",
                path=self.index_path,
            )
        try:
            columns = [
                read_rows(self._ready(self._index.points[rows.file]), rows.start, rows.count)
                for rows in series.rows
            ]
        except (StepscopeError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # Polars panics at some damage, which is no Exception
            raise LogDirectoryError(
                f"cannot read {tag!r}: {error}",
                hint="compact the original log again, or take its event files",
                path=self.index_path,
            ) from error
        step, wall, value = (np.concatenate([rows[at] for rows in columns]) for at in range(3))
        if len(step) != series.facts.size:
            raise LogDirectoryError(
                f"{tag!r} has {counted(len(step), 'point')}, and {series.facts.size:,} were written",
                hint="compact the original log again, or take its event files",
                path=self.index_path,
            )
        return SeriesColumns(step.astype(series.types[0], copy=False), wall, value.astype(series.types[1]))

    def _ready(self, piece: PackedFile) -> Path:
        """Return a Parquet file whose checksum is correct; that of a file beside the index is checked once.

        Raises:
            LogDirectoryError: It is wrong, as a flipped bit must not become a wrong number; or the file
                cannot be fetched.
        """
        path = self._folder / piece.name
        if self._store is None or path.exists():
            if piece.name in self._checked:
                return path
            is_sound = checksum(path) == piece.crc
            self._checked |= {piece.name} if is_sound else set()
        else:
            with self._fetching:
                path = self._store.cached(self._name_there(piece))
                if checksum(path) != piece.crc:  # a copy may be damaged
                    path.unlink(missing_ok=True)
                    path = self._store.cached(self._name_there(piece))
                is_sound = checksum(path) == piece.crc
        if not is_sound:
            raise LogDirectoryError(
                "the file is not what was written: its checksum is wrong",
                hint="copy it again, compact the original log again, or take its event files",
                path=path,
            )
        return path


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            checksum = isal_zlib.crc32(data, checksum)
    return checksum


def read_rows(
    path: Path, start: int, count: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return step, wall time and value of some rows of a Parquet file; no others are decoded."""
    with lazy.needs("stepscope[frames]"):
        import polars as pl

    rows = pl.scan_parquet(path, glob=False).slice(start, count).select(*ROW_COLUMNS).collect()
    return rows["step"].to_numpy(), rows["wall"].to_numpy(), rows["value"].to_numpy()


def places_of(stored: CompactedRecords) -> Records:
    """Return the values of a tag, whose places the index holds."""
    places = RecordPlaces._make(
        np.frombuffer(data, kind) for data, kind in zip(stored.places, PLACES, strict=True)
    )
    return Records(About(*stored.about), len(places.step), lambda: places)


def memory_bytes() -> int:
    """Return the memory of this machine; if unknown, the largest possible number."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def finite(seconds: float) -> float | None:
    """Return a time, None for NaN."""
    return seconds if seconds == seconds else None
