"""Columns in a cache file, of logs and of profiles: written once, each with a checksum that is read with it.

A file that is cut short, or has a single changed bit, raises :class:`BlobError`; it never gives a wrong
number. The version of its owner stands in front of the columns or in an index next to the file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

ALIGNMENT = 64
_BUFFER = 1 << 20
"""Most columns are short: they are written together."""
MAPPED_BYTES = 4 << 20
"""Bytes from which on a column is mapped into memory; shorter ones are read, as a mapping keeps the file
open.
"""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The place of a column in a blob: numpy type, offset and length in elements, CRC-32 of its bytes."""

    dtype: str
    offset: int
    count: int
    crc: int


class BlobError(Exception):
    """A cache file that is gone or is not what was written; the original is read again instead."""


class BlobWriter:
    """Collects columns and writes them; equal objects are written once."""

    def __init__(self) -> None:
        self._columns: list[NDArray[Any]] = []
        self._places: dict[tuple[int, int, str], Place] = {}
        self._size = 0

    def add(self, column: NDArray[Any]) -> Place:
        """Take a column and return where it will lie."""
        column = np.ascontiguousarray(column)
        key = (column.ctypes.data, len(column), column.dtype.str)
        place = self._places.get(key)
        if place is None:
            place = Place(column.dtype.str, self._size, len(column), isal_zlib.crc32(column))
            self._places[key] = place
            self._columns.append(column)  # kept, so that no other column gets its address
            self._size += -(-column.nbytes // ALIGNMENT) * ALIGNMENT
        return place

    def write(self, path: Path, head: bytes = b"", *, mode: int | None = None) -> None:
        """Write everything under a temporary name, then rename it.

        Args:
            path: The file.
            head: What stands in front of the columns, which begin at the next multiple of ``ALIGNMENT``.
            mode: Permissions; None: only the user's own.

        Raises:
            OSError: The disk is full or the directory cannot be written.
        """
        with replacing(path) as file:
            file.write(head + bytes(-len(head) % ALIGNMENT))
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            for column in self._columns:
                file.write(column)
                if beyond := column.nbytes % ALIGNMENT:
                    file.write(bytes(ALIGNMENT - beyond))


class replacing:  # noqa: N801  used as a statement
    """Context in which a file is written under another name; it takes its own name when all went well."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Any:
        handle, self._temporary = tempfile.mkstemp(
            prefix=f"{self.path.name}.", suffix=".tmp", dir=self.path.parent
        )
        self._file = os.fdopen(handle, "wb", buffering=_BUFFER)
        return self._file

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self._file.close()
            if kind is None:
                Path(self._temporary).replace(self.path)
                return
        except OSError:
            Path(self._temporary).unlink(missing_ok=True)
            raise
        Path(self._temporary).unlink(missing_ok=True)


class Blob:
    """A cache file with columns.

    Args:
        path: The file.
        content: All of it, if it was read already; otherwise columns are read from the file when needed.
        head_bytes: Length of what stands in front of the columns.
    """

    def __init__(self, path: Path, content: bytes | None = None, *, head_bytes: int = 0) -> None:
        self.path = path
        self._content = content
        self._begin = -(-head_bytes // ALIGNMENT) * ALIGNMENT
        self._read: dict[int, NDArray[Any]] = {}
        self._map: mmap.mmap | None = None

    def column(self, place: Place) -> NDArray[Any]:
        """Return a column, read-only.

        Raises:
            BlobError: The file is gone, or its bytes are not those that were written.
        """
        column = self._read.get(place.offset)
        if column is None or column.dtype.str != place.dtype or len(column) != place.count:
            column = self._read[place.offset] = self._fetch(place)
        return column

    def _fetch(self, place: Place) -> NDArray[Any]:
        size = np.dtype(place.dtype).itemsize * place.count
        try:
            data = self._bytes(self._begin + place.offset, size)
        except (OSError, ValueError) as error:
            raise BlobError(str(error)) from error
        if len(data) != size or isal_zlib.crc32(data) != place.crc:
            raise BlobError(f"{self.path}: the column at byte {place.offset} is not what was written")
        return np.frombuffer(data, place.dtype)

    def _bytes(self, at: int, size: int) -> bytes | memoryview:
        if self._content is not None:
            return memoryview(self._content)[at : at + size]
        if size < MAPPED_BYTES:
            with self.path.open("rb", buffering=0) as file:
                return os.pread(file.fileno(), size, at)
        if self._map is None:
            with self.path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return memoryview(self._map)[at : at + size]
