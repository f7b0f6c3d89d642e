"""Parquet files of which only the byte ranges with the wanted rows and columns are fetched.

The ranges are kept in a sparse file of the same size, from which any Parquet reader can read the fetched
bytes. Each block of the file has a checksum in the index of the compacted log.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from isal import isal_zlib

from stepscope.errors import EventFileError, LogDirectoryError
from stepscope.files import prune_files

BLOCK_BYTES = 256 << 10
"""Size of a block, which has its own checksum and is the least that is fetched."""
MOST_AT_ONCE = 32
"""Most blocks of one request."""
THREADS = 8
MAGIC = b"PAR1"
FOOTER_BYTES = 8
_length = struct.Struct("<I")


def block_checksums(path: Path) -> bytes:
    """Return the CRC-32 of each block of a file, four bytes each."""
    checksums = []
    with path.open("rb") as file:
        while data := file.read(BLOCK_BYTES):
            checksums.append(_length.pack(isal_zlib.crc32(data)))
    return b"".join(checksums)


class RangedFile:
    """A file in a store, parts of which are kept locally. Safe for threads.

    Args:
        local: The sparse file; it is created.
        size: Bytes of the file.
        checksums: As :func:`block_checksums` gives them.
        read: Returns the bytes of the file between two places.
    """

    def __init__(self, local: Path, size: int, checksums: bytes, read: Callable[[int, int], bytes]) -> None:
        self.local, self.size, self._read = local, size, read
        self._checksums = [row[0] for row in _length.iter_unpack(checksums)]
        self._lock = threading.Lock()
        self._sound: set[int] = set()
        self._groups: list[RowGroup] | None = None
        local.parent.mkdir(parents=True, exist_ok=True)
        is_new = not local.exists()
        with local.open("ab") as file:
            if file.tell() != size:
                file.truncate(size)
        os.utime(local)  # in use
        if is_new:
            prune_files(local.parent, local)

    def ensure(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch some ranges of bytes, unless they are here already.

        Raises:
            LogDirectoryError: They cannot be read, or differ from the written bytes.
        """
        with self._lock:
            wanted = {
                block
                for start, end in ranges
                for block in range(start // BLOCK_BYTES, -(-min(end, self.size) // BLOCK_BYTES))
            }
            missing = sorted(block for block in wanted - self._sound if not self._is_here(block))
            runs = list(_runs(missing))
            with ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-range") as pool:
                for _ in pool.map(self._fetch, runs):
                    pass
            self._sound |= wanted

    def ensure_rows(self, start: int, count: int, columns: Iterable[str]) -> None:
        """Fetch the columns of some rows, and the footer that places them, unless they are here already.

        Raises:
            LogDirectoryError: They cannot be read, or differ from the written bytes.
        """
        if self._groups is None:
            tail = max(self.size - BLOCK_BYTES, 0)
            self.ensure([(tail, self.size)])
            with self.local.open("rb") as file:
                file.seek(self.size - FOOTER_BYTES)
                end = file.read(FOOTER_BYTES)
                length = _length.unpack_from(end)[0]
                if end[4:] != MAGIC or length > self.size - 2 * FOOTER_BYTES:
                    raise EventFileError("not a Parquet file", hint="compact the log again", path=self.local)
                first = self.size - FOOTER_BYTES - length
                self.ensure([(first, self.size)])
                file.seek(first)
                self._groups = row_groups(file.read(length))
        wanted, at = [(0, len(MAGIC))], 0
        for group in self._groups:
            if at < start + count and start < at + group.rows:
                wanted += [group.columns[name] for name in columns if name in group.columns]
            at += group.rows
        self.ensure(wanted)

    def _is_here(self, block: int) -> bool:
        with self.local.open("rb") as file:
            file.seek(block * BLOCK_BYTES)
            return bool(isal_zlib.crc32(file.read(BLOCK_BYTES)) == self._checksums[block])

    def _fetch(self, blocks: tuple[int, int]) -> None:
        first, last = blocks
        start, end = first * BLOCK_BYTES, min((last + 1) * BLOCK_BYTES, self.size)
        data = self._read(start, end)
        for block in range(first, last + 1):
            at = (block - first) * BLOCK_BYTES
            if isal_zlib.crc32(data[at : at + BLOCK_BYTES]) != self._checksums[block]:
                raise LogDirectoryError(
                    "the file is not what was written: the checksum of a part is wrong",
                    hint="copy it again, compact the original log again, or take its event files",
                    path=self.local.name,
                )
        with self.local.open("r+b") as file:
            file.seek(start)
            file.write(data)


def _runs(blocks: list[int]) -> Iterable[tuple[int, int]]:
    """Yield the first and the last block of each stretch of adjacent blocks, limited in length."""
    at = 0
    while at < len(blocks):
        end = at
        while end + 1 < len(blocks) and blocks[end + 1] == blocks[end] + 1 and end + 1 - at < MOST_AT_ONCE:
            end += 1
        yield blocks[at], blocks[end]
        at = end + 1


# --- the footer of a Parquet file, which Thrift's compact protocol encodes -----------------------------


class RowGroup(NamedTuple):
    """Rows that are stored together: their number, and the beginning and end of each column's bytes."""

    rows: int
    columns: dict[str, tuple[int, int]]


def row_groups(footer: bytes) -> list[RowGroup]:
    """Return the row groups that the footer of a Parquet file names.

    The fields are those of ``parquet.thrift``: FileMetaData 4 row_groups; RowGroup 1 columns, 3 num_rows;
    ColumnChunk 3 meta_data; ColumnMetaData 3 path_in_schema, 7 total_compressed_size, 9 data_page_offset,
    11 dictionary_page_offset.

    Raises:
        EventFileError: It is damaged.
    """
    try:
        fields = Compact(footer).struct()
        return [
            RowGroup(int(group[3]), dict(_chunk(column[3]) for column in group[1])) for group in fields[4]
        ]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise EventFileError(
            f"the footer of a Parquet file cannot be read: {error}", hint="compact the log again", path=""
        ) from error


def _chunk(facts: dict[int, Any]) -> tuple[str, tuple[int, int]]:
    start = min(int(facts[9]), int(facts.get(11) or facts[9]))
    return b".".join(facts[3]).decode(), (start, start + int(facts[7]))


class Compact:
    """Reads a struct of Thrift's compact protocol, as a dictionary by the numbers of the fields.

    Args:
        data: The bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> dict[int, Any]:
        """Return the struct that begins here."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._varint())
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 0x0F) for _ in range(size)]
        if kind == 11:
            size = self._varint()
            kinds = self._byte() if size else 0
            return {self._value(kinds >> 4): self._value(kinds & 0x0F) for _ in range(size)}
        if kind == 12:
            return self.struct()
        raise ValueError(f"no type {kind} in Thrift's compact protocol")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("it ends too soon")
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
