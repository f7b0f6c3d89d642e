"""Files: whether a path lies in a directory, files of others, writing whole, and columns on disk.

Code that writes, moves or deletes asks first whether the path lies inside. So does code that reads a file
that others may have put there: a pipe in its place would be waited for, and one without end would take all
memory.

A cache file keeps columns, each with a checksum that is read with it. A file that is cut short, or has a
single changed bit, raises :class:`BlobError`; it never gives a wrong number. The version of its owner stands
in front of the columns or in an index next to the file.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, get_type_hints

import msgspec

from stepscope import lazy
from stepscope.errors import LogDirectoryError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from isal import isal_zlib
    from numpy.typing import NDArray
else:  # the page's server and `stepscope whoami` start without them
    np, isal_zlib = lazy.module("numpy"), lazy.module("isal.isal_zlib")

STATE_FOLDER = ".stepscope"
"""The directory of a log directory that holds annotations, corrections and the trash, and no runs."""
ALIGNMENT = 64
_BUFFER = 1 << 20
"""Most columns are short: they are written together."""
MAPPED_BYTES = 4 << 20
"""Size from which a column is mapped into memory; shorter ones are read, because a mapping keeps the file
open.
"""
UNUSED_SECONDS = 30 * 86400
TOTAL_BYTES = 10 << 30
"""How long, and how much, caches keep unused entries."""
DISK_BLOCK_BYTES = 512
"""Unit in which ``st_blocks`` counts, by POSIX."""
MAX_VALUES = 400_000
"""Values in an object that others wrote: to read them takes a tenth of a second."""


@contextmanager
def writing(
    what: str, path: str | os.PathLike[str], hint: str = "choose a folder that exists and can be written"
) -> Iterator[None]:
    """Raise a failure to write a user's file as the user's mistake.

    Args:
        what: The file, as a sentence names it.
        path: The file.
        hint: The hint.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {what}: {error.strerror or error}", path=path, hint=hint) from None


def inside(root: Path, path: str | Path) -> Path:
    """Return a path below a directory, after links and ``..`` have been followed.

    The last part of the path may itself be a link: the link is then moved or deleted, not its target. Nothing
    on the way to it may lead out.

    Args:
        root: The directory.
        path: Below it, or relative to it. It need not exist.

    Raises:
        LogDirectoryError: It lies elsewhere, or is the directory itself.
    """
    home = root.resolve()
    whole = root / path
    real = whole.parent.resolve() / whole.name
    if whole.name in ("", ".", "..") or "\0" in str(path) or not real.is_relative_to(home) or real == home:
        raise LogDirectoryError(
            f"refused: {str(path)!r} lies outside of the directory",
            hint="a link or a planted file leads out of it; use the place that it leads to",
            path=root,
        )
    return real


def run_directory(root: Path, run: str) -> Path:
    r"""Return the directory of a run.

    Args:
        root: The log directory.
        run: Its name, in which bytes that are not UTF-8 are written as ``\xff``.
    """
    place = root / run
    if "\\x" not in run or place.exists():
        return place
    raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda escape: bytes.fromhex(escape[1].decode()), os.fsencode(run))
    return root / os.fsdecode(raw)


def without_waiting(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or a pipe without waiting for a writer: an ``opener`` of ``open``."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def regular_bytes(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the content of a regular file that has no more than so many bytes.

    Raises:
        OSError: It cannot be read, is no regular file, or has more bytes.
    """
    with open(path, "rb", opener=without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if facts.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes:,} bytes")
        return file.read(most_bytes)


def json_object(path: str | os.PathLike[str], most_bytes: int) -> dict[str, Any] | None:
    """Return the JSON object in a regular file of so many bytes at most, None if there is none."""
    try:
        return bounded_object(regular_bytes(path, most_bytes))
    except OSError:
        return None


def bounded_object(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object that others wrote, None if it is none or has too many parts.

    Numbers are kept as far as they fit into 64 bits, as all who pass them on expect.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return None
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def fitting(kind: type, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return which fields of a record a JSON object holds, as far as they are of the field's type.

    Files of others and of later versions may hold anything: what does not fit counts as not recorded.
    """
    values = {}
    for name, hint in _hints_of(kind).items():
        with suppress(msgspec.ValidationError):
            if name in facts:
                values[name] = msgspec.convert(facts[name], hint)
    return values


_hints_of = lru_cache(get_type_hints)


def _integer(text: str) -> int | float:
    value = int(text) if len(text) < 20 else float(text)
    return value if -(2**63) <= value < 2**63 else float(value)


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, mode: int | None = None, gzipped: bool = False
) -> Iterator[IO[bytes]]:
    """Write a file under another name; it takes its own name when all went well.

    A reader sees the whole file, or the one before.

    Args:
        path: The file; its folder exists.
        mode: Permissions; None: as for every new file of the user.
        gzipped: Compress it, fast.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        with os.fdopen(handle, "wb", buffering=_BUFFER) as file:
            if mode is not None:
                os.fchmod(handle, mode)
            if gzipped:
                from isal import igzip

                with igzip.open(file, "wb", compresslevel=1) as packed:  # type: ignore[no-untyped-call]
                    yield packed
            else:
                yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that a reader sees all of it, or the one before; see :func:`replacing`."""
    with replacing(path) as file:
        file.write(content)


def cache_home() -> Path | None:
    """Return the directory for all caches of the user, None if there is none."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "stepscope"
    local = os.environ.get("LOCALAPPDATA", "") if sys.platform == "win32" else ""
    if local:
        return Path(local) / "stepscope"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "stepscope"


def unneeded(used: Iterable[tuple[float, int, Path]], mine: Path) -> Iterator[Path]:
    """Yield the entries of a cache unused for 30 days, and the least recently used beyond 10 GiB.

    Args:
        used: When each was used, seconds since the epoch, its size in bytes, and its path.
        mine: The one that stays.
    """
    total, oldest = 0, time.time() - UNUSED_SECONDS
    for at, size, path in sorted(used, reverse=True):
        total += size
        if path != mine and (at < oldest or total > TOTAL_BYTES):
            yield path


def prune_files(folder: Path, mine: Path) -> None:
    """Delete the files of a cache that :func:`unneeded` yields, by the time of their last change.

    Args:
        folder: A folder that holds nothing but such files.
        mine: The file that is kept.
    """
    used: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with suppress(OSError):  # deleted meanwhile by another process
            facts = path.stat()
            blocks = getattr(facts, "st_blocks", None)
            size = facts.st_size if blocks is None else blocks * DISK_BLOCK_BYTES
            used.append((facts.st_mtime, size, path))
    for path in unneeded(used, mine):
        with suppress(OSError):
            path.unlink()


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The place of a column in a blob: numpy type, offset and length in elements, CRC-32 of its bytes."""

    dtype: str
    offset: int
    count: int
    crc: int


class BlobError(Exception):
    """A cache file that is gone or has changed; the original is read again instead."""


class BlobWriter:
    """Collects columns and writes them; equal objects are written once."""

    def __init__(self) -> None:
        self._columns: list[NDArray[Any]] = []
        self._places: dict[tuple[int, int, str], Place] = {}
        self._size = 0

    def add(self, column: NDArray[Any]) -> Place:
        """Take a column and return its place in the file."""
        column = np.ascontiguousarray(column)
        key = (column.__array_interface__["data"][0], len(column), column.dtype.str)
        place = self._places.get(key)
        if place is None:
            place = Place(column.dtype.str, self._size, len(column), isal_zlib.crc32(column))
            self._places[key] = place
            self._columns.append(column)  # kept, so that no other column gets its address
            self._size += -(-column.nbytes // ALIGNMENT) * ALIGNMENT
        return place

    def write(self, path: Path, head: bytes = b"", *, mode: int = 0o600) -> None:
        """Write everything under a temporary name, then rename it.

        Args:
            path: The file.
            head: The bytes in front of the columns, which begin at the next multiple of ``ALIGNMENT``.
            mode: Permissions.

        Raises:
            OSError: The disk is full or the directory cannot be written.
        """
        with replacing(path, mode=mode) as file:
            file.write(head + bytes(-len(head) % ALIGNMENT))
            for column in self._columns:
                file.write(column.data)
                if beyond := column.nbytes % ALIGNMENT:
                    file.write(bytes(ALIGNMENT - beyond))


class Blob:
    """A cache file with columns.

    Args:
        path: The file.
        content: All of it, if it was read already; otherwise columns are read from the file when needed.
        head_bytes: Length of the bytes in front of the columns.
    """

    def __init__(self, path: Path, content: bytes | None = None, *, head_bytes: int = 0) -> None:
        self.path = path
        self._content = content
        self._begin = -(-head_bytes // ALIGNMENT) * ALIGNMENT
        self._read: dict[int, NDArray[Any]] = {}
        self._map: mmap.mmap | None = None

    def read_ahead(self) -> None:
        """Read a small file at once, for a caller that needs most columns: opening it for each is slow."""
        with suppress(OSError):  # the columns say what is wrong with it
            if self._content is None and self.path.stat().st_size < MAPPED_BYTES:
                self._content = self.path.read_bytes()

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
