"""The small file of the cache that is read as a whole: each event file's content and columns' places.

Nothing in it is trusted but for its checksum and version. A file is recognized by inode, size and times; if
those changed, by its first and last bytes. Whatever does not match is read from the event file again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from isal import isal_zlib

from stepscope.events import FileStatus
from stepscope.files import Place, replacing
from stepscope.store.info import RunInfo
from stepscope.store.points import Last, SeriesFacts

MAGIC = b"stepscope-cache-4\n"
"""Version of the layout; any other counts as no index."""
SAMPLE_BYTES = 4096
CRC_BYTES = 4

T = TypeVar("T")
Points = TypeVar("Points")
Others = TypeVar("Others")
NewPoints = TypeVar("NewPoints")
NewOthers = TypeVar("NewOthers")


class StoredPoints(msgspec.Struct, array_like=True):
    """One series: its facts and its columns."""

    count: int
    last: Last
    facts: SeriesFacts
    step: Place
    wall: Place
    value: Place
    pyramid: list[tuple[Place, Place, Place]]


class StoredRecords(msgspec.Struct, array_like=True):
    """The values of one tag that are not scalars: the tag's facts, and their places."""

    about: tuple[str, bytes, str, str]
    count: int
    places: tuple[Place, Place, Place, Place]


class Attempt(msgspec.Struct, Generic[Points, Others], array_like=True, eq=False):
    """The part of a file between two session starts: in memory, here, and in the index of a compacted log.

    Attributes:
        start_step: Step that the session start gave, None if there was none.
        first_wall: Earliest wall time of its points, NaN before the first.
        last_wall: Latest.
    """

    start_step: int | None = None
    first_wall: float = math.nan
    last_wall: float = math.nan
    tags: dict[str, Points] = {}
    records: dict[str, Others] = {}

    def mapped(
        self, points: Callable[[str, Points], NewPoints], records: Callable[[str, Others], NewOthers]
    ) -> Attempt[NewPoints, NewOthers]:
        """Return the attempt with its points and its other values in another form, made of tag and value."""
        return Attempt(
            self.start_step,
            self.first_wall,
            self.last_wall,
            {tag: points(tag, stored) for tag, stored in self.tags.items()},
            {tag: records(tag, stored) for tag, stored in self.records.items()},
        )


class StoredFile(msgspec.Struct, array_like=True):
    """One event file up to a position.

    Attributes:
        blob: Name of the file with its columns; empty if it holds no points.
        size: Bytes of the event file that are accounted for here.
        state: State of its reader, from which reading continues.
        samples: Checksums of the first and of the last bytes of that size.
    """

    blob: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    state: dict[str, Any]
    samples: tuple[int, int]
    status: FileStatus
    info: RunInfo | None
    config: dict[str, Any]
    experiment: dict[str, Any]
    first_wall: float
    last_wall: float
    parts: list[Attempt[StoredPoints, StoredRecords]]


class Index(msgspec.Struct, array_like=True):
    """Everything known of a log directory: its path, and its event files by their paths from there."""

    path: str
    files: dict[str, StoredFile]


_decoder = msgspec.msgpack.Decoder(Index)


def sealed(magic: bytes, value: msgspec.Struct) -> bytes:
    """Return a value as stored in a file: after the version of its layout and a checksum."""
    data = msgspec.msgpack.encode(value)
    return magic + isal_zlib.crc32(data).to_bytes(CRC_BYTES, "little") + data


def unsealed(magic: bytes, data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """Return the value in a file of some layout, None if it is damaged or of another layout."""
    head = len(magic) + CRC_BYTES
    if not data.startswith(magic) or int.from_bytes(data[len(magic) : head], "little") != isal_zlib.crc32(
        data[head:]
    ):
        return None
    try:
        return decoder.decode(data[head:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def load_index(path: Path) -> Index | None:
    """Return the index in a file, None if there is none that is whole and of this version."""
    try:
        return unsealed(MAGIC, path.read_bytes(), _decoder)
    except OSError:
        return None


def save_index(path: Path, index: Index) -> None:
    """Write an index, completely or not at all.

    Raises:
        OSError: It cannot be written.
    """
    with replacing(path, mode=0o600) as file:
        file.write(sealed(MAGIC, index))


def samples_of(path: str, size: int) -> tuple[int, int] | None:
    """Return checksums of the first and the last bytes up to a size, None if the file is not that long."""
    with Path(path).open("rb", buffering=0) as file:
        head = os.pread(file.fileno(), min(size, SAMPLE_BYTES), 0)
        start = max(0, size - SAMPLE_BYTES)
        tail = os.pread(file.fileno(), size - start, start)
    if len(head) != min(size, SAMPLE_BYTES) or len(tail) != size - start:
        return None
    return isal_zlib.crc32(head), isal_zlib.crc32(tail)


def is_same(entry: StoredFile, stat: os.stat_result) -> bool:
    """Return whether a file is certainly the one of the entry, unchanged."""
    return (entry.inode, entry.size, entry.mtime_ns, entry.ctime_ns) == (
        stat.st_ino,
        stat.st_size,
        stat.st_mtime_ns,
        stat.st_ctime_ns,
    )


def continues(entry: StoredFile, path: str, stat: os.stat_result) -> bool:
    """Return whether a file is the one of the entry, grown since or only copied.

    One of the same size with another modification time was written to, and is read again.
    """
    if stat.st_size < entry.size or (stat.st_size == entry.size and stat.st_mtime_ns != entry.mtime_ns):
        return False
    return samples_of(path, entry.size) == entry.samples
