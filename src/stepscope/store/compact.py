"""Turns event files into Parquet on any store, and verifies written files before relying on them.

Each event file is one task, which a pool of processes or a cluster takes. A task reads its file, writes the
Parquet files and the records beside it, reads each of them back and compares it bit by bit, puts it into the
store, compares its checksum there, and writes the index last. An incomplete folder has no index and is not a
log.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib

from stepscope import lazy
from stepscope.errors import LogDirectoryError
from stepscope.events import FileStatus
from stepscope.events.framing import HEADER_BYTES, OVERHEAD_BYTES, payload_length
from stepscope.events.writer import INDEX, POINTS, RECORDS, stem_of
from stepscope.remote import Remote
from stepscope.scratch import scratch
from stepscope.store.compacted import (
    PLACES,
    READ_BYTES,
    CompactedIndex,
    CompactedRecords,
    CompactedSeries,
    Extent,
    PackedFile,
    checksum,
    encode_index,
    read_rows,
)
from stepscope.store.index import Attempt
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.records import Records
from stepscope.store.source import FollowedFile
from stepscope.urls import OBJECT_STORES, is_url, scheme

FILE_ROWS = 1 << 18
"""Points of one Parquet file: some 2 to 4 MB, which is fetched from a store as a whole."""


@dataclass(frozen=True)
class Task:
    """One event file to be compacted.

    Attributes:
        path: The event file, on this machine.
        folder: Folder of the run that it is written to: a path, or a URL.
        size: Its size when it was listed; bytes added since are included.
    """

    path: str
    folder: str
    size: int = 0


@dataclass(frozen=True)
class Done:
    """The outcome of a task.

    Attributes:
        points: Number of points written and read back.
        read_bytes: Size of the event file.
        written_bytes: Size of everything that replaces it.
        stamp: Size and time of the event file, when it was read.
        error: Why it was not compacted; empty if it was.
    """

    task: Task
    points: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    stamp: tuple[int, int] = (0, 0)
    error: str = ""


def compact_file(task: Task) -> Done:
    """Compact one event file; the result names a failure."""
    try:
        before = os.stat(task.path)  # noqa: PTH116  a path of text, as all of the store's
        source = FollowedFile(task.path)
        source.follow(before)
        if source.error:
            return Done(task, error=source.error)
        with scratch("compact") as folder:
            written = CompactFolder(task.folder)
            index, size = _write(source, folder, written)
        stamp = before.st_size, before.st_mtime_ns
        return Done(task, index.count, before.st_size, size, stamp)
    except Exception as error:  # noqa: BLE001  each driver has errors of its own, and one file fails alone
        return Done(task, error=f"{type(error).__name__}: {error}")


def _write(source: FollowedFile, folder: Path, place: CompactFolder) -> tuple[CompactedIndex, int]:
    """Write the replacement of an event file, the index last; return the index and the number of bytes."""
    stem = stem_of(source.name)
    rows: dict[tuple[int, str], list[Extent]] = {}
    points: list[PackedFile] = []
    for number, batch in enumerate(batches(source)):
        name = f"{stem}.{number:05d}{POINTS}"
        start = 0
        for part, tag, columns in batch:
            rows.setdefault((part, tag), []).append(Extent(number, start, len(columns.step)))
            start += len(columns.step)
        write_points(folder / name, batch)
        check_points(folder / name, batch)
        points.append(place.put(folder / name))
    ended = source.ending
    moved, others = copy_records(source, folder / f"{stem}{RECORDS}")
    index = CompactedIndex(
        name=source.name,
        size=source.size,
        written=source.written,
        ending=None if ended is None else math.nan if ended.ended is None else ended.ended,
        status=FileStatus(**(source.reader_state() or {}).get("status", {})),
        info=source.info,
        config=source.config,
        experiment=source.experiment,
        first_wall=source.first_wall,
        last_wall=source.last_wall,
        parts=_parts(source, rows, moved),
        points=points,
        others=place.put(others) if others else None,
    )
    path = folder / f"{stem}{INDEX}"
    path.write_bytes(encode_index(index))
    last = place.put(path)
    return index, last.size + sum(piece.size for piece in index.pieces)


def _parts(
    source: FollowedFile, rows: dict[tuple[int, str], list[Extent]], moved: dict[int, int]
) -> list[Attempt[CompactedSeries, CompactedRecords]]:
    def compacted(number: int, tag: str, points: SeriesPoints) -> CompactedSeries:
        types = points.columns.step.dtype.str, points.columns.value.dtype.str
        return CompactedSeries(points.last, points.facts, types, rows[number, tag])

    return [
        part.mapped(partial(compacted, number), lambda _, records: _places(records, moved))
        for number, part in enumerate(source.parts)
    ]


def _places(records: Records, moved: dict[int, int]) -> CompactedRecords:
    places, about = records.places, records.about
    position = np.array([moved[at] for at in places.position.tolist()], np.int64)
    columns = places.step, places.wall, position, places.which
    step, wall, at, which = (
        np.ascontiguousarray(column, kind).tobytes() for column, kind in zip(columns, PLACES, strict=True)
    )
    return CompactedRecords(
        (about.plugin, about.content, about.display_name, about.description), (step, wall, at, which)
    )


# --- points ---------------------------------------------------------------------------------------------

Rows = list[tuple[int, str, SeriesColumns]]


def batches(source: FollowedFile) -> Iterator[Rows]:
    """Yield the points of a file in portions, each with the number of its attempt and its tag."""
    batch: Rows = []
    room = FILE_ROWS
    for number, part in enumerate(source.parts):
        for tag in sorted(part.tags):
            columns, at = part.tags[tag].columns, 0
            while at < len(columns.step):
                end = min(at + room, len(columns.step))
                batch.append((number, tag, SeriesColumns._make(column[at:end] for column in columns)))
                room, at = room - (end - at), end
                if not room:
                    yield batch
                    batch, room = [], FILE_ROWS
    if batch:
        yield batch


def write_points(path: Path, batch: Rows) -> None:
    """Write points as Parquet."""
    with lazy.needs("stepscope[frames]"):
        import polars as pl

    sizes = [len(columns.step) for _, _, columns in batch]
    step, wall, value = (np.concatenate([columns[at] for _, _, columns in batch]) for at in range(3))
    names = zip((name for _, name, _ in batch), sizes, strict=True)
    tag = pl.concat([pl.repeat(name, size, dtype=pl.String, eager=True) for name, size in names])
    frame = pl.DataFrame(
        {
            "attempt": np.repeat(np.array([number for number, _, _ in batch], np.int32) + 1, sizes),
            "tag": tag,
            "step": step,
            "wall": wall,
            "value": value,
        }
    )
    frame.write_parquet(path)


def check_points(path: Path, batch: Rows) -> None:
    """Read points back, and compare them bit by bit.

    Raises:
        LogDirectoryError: They differ from the written points.
    """
    start = 0
    for _, tag, columns in batch:
        rows = read_rows(path, start, len(columns.step))
        start += len(columns.step)
        for want, have in zip(columns, rows, strict=True):
            same = have.astype(want.dtype, copy=False)
            if len(same) != len(want) or not np.array_equal(bits(same), bits(want)):
                raise LogDirectoryError(
                    f"{tag!r} is not read back as it was written",
                    hint="nothing was deleted; check the disk, and compact again",
                    path=path,
                )


def bits(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a column as integers, by which any NaN equals itself and 0 is not -0."""
    return np.ascontiguousarray(column).view(f"u{column.dtype.itemsize}")


# --- everything else ------------------------------------------------------------------------------------


def copy_records(source: FollowedFile, path: Path) -> tuple[dict[int, int], Path | None]:
    """Copy the records that hold values other than points, unchanged.

    Returns:
        The old and the new place of each of them; the file, None if there is no such record.

    Raises:
        LogDirectoryError: The event file has changed meanwhile.
    """
    wanted = sorted(
        {
            at
            for part in source.parts
            for records in part.records.values()
            for at in records.places.position.tolist()
        }
    )
    if not wanted:
        return {}, None
    moved: dict[int, int] = {}
    with Path(source.path).open("rb") as file, path.open("wb") as out:
        for at in wanted:
            file.seek(at)
            head = file.read(HEADER_BYTES)
            length = payload_length(head)
            rest = file.read(length + OVERHEAD_BYTES - HEADER_BYTES) if length is not None else b""
            if length is None or len(rest) != length + OVERHEAD_BYTES - HEADER_BYTES:
                raise LogDirectoryError(
                    f"no record at byte {at:,}: the event file changed while it was being compacted",
                    hint="compact it again",
                    path=source.path,
                )
            moved[at] = out.tell()
            out.write(head + rest)
    return moved, path


# --- the store ------------------------------------------------------------------------------------------


class CompactFolder:
    """A folder on a disk or in a store, to put files into.

    Args:
        folder: A path, or a URL; it is created.
    """

    def __init__(self, folder: str) -> None:
        self._system = Remote(folder if is_url(folder) else Path(folder).absolute().as_uri())
        self._root = self._system.root
        self._whole_puts = is_url(folder) and scheme(folder) in OBJECT_STORES
        if not self._whole_puts:
            self._system.makedirs(self._root)

    def put(self, local: Path) -> PackedFile:
        """Put a file there under its name, and read it back; the name appears only with the whole file.

        Raises:
            LogDirectoryError: The content differs.
        """
        path = f"{self._root}/{local.name}"
        size, crc = local.stat().st_size, checksum(local)
        part = path if self._whole_puts else f"{self._root}/.{local.name}.part"
        self._system.put_file(str(local), part, size)
        if part != path:
            self._system.mv(part, path)
        self._system.invalidate_cache()
        if self._checksum(path, size) != crc:
            raise LogDirectoryError(
                f"{local.name} is not read back as it was written",
                hint="nothing was deleted; check the store, and compact again",
                path=path,
            )
        return PackedFile(local.name, size, crc)

    def _checksum(self, path: str, size: int) -> int:
        """Return the CRC-32 of the first bytes of a file there, as many as were written."""
        checksum = 0
        for start in range(0, size, READ_BYTES):
            checksum = isal_zlib.crc32(
                self._system.read(path, start, min(start + READ_BYTES, size)), checksum
            )
        return checksum
