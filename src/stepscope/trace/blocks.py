"""The bytes of a profile, uncompressed, block by block, read ahead in a thread.

Memory stays at a few blocks however large the file is. A file that inflates beyond all reason is refused.
"""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from isal import isal_zlib

from stepscope.errors import TraceError
from stepscope.files import without_waiting

BLOCK_BYTES = 1 << 20
AHEAD = 3
MAX_EXPANSION = 300
"""Bytes that one byte of a gzip file may inflate to: profiles reach 20 to 60, a gzip bomb 1000."""
HARMLESS_BYTES = 64 << 20
"""Up to this size the expansion is not looked at."""

_BAD_DEFLATE: Any = isal_zlib.error
_GZIP = b"\x1f\x8b"
_PACKED_BYTES = 1 << 16
_listener: Callable[[Path, int], None] | None = None


@contextlib.contextmanager
def listening(listener: Callable[[Path, int], None]) -> Iterator[None]:
    """Call a function with the bytes taken of each file, from the reading thread, while this is open."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


class Blocks:
    """Iterates over a file's uncompressed bytes, once.

    Args:
        path: Plain or gzipped file; which of the two is told by content.
        max_expansion: Largest ratio of uncompressed to compressed bytes; None takes
            ``STEPSCOPE_MAX_EXPANSION``
            from the environment, else :data:`MAX_EXPANSION`.
        block_bytes: Size of a block.

    Raises:
        TraceError: The file cannot be opened, or, while iterating, it inflates beyond the limit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_expansion: float | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.path = Path(path)
        self.block_bytes = block_bytes
        self.total_bytes = 0
        self.damage = ""
        """Why the bytes end early, ``""`` while they do not: a gzip stream that is cut or corrupt."""
        self._max_expansion = _expansion_limit(max_expansion)
        try:
            # Opening a pipe that nobody writes would wait for ever.
            self._raw: BinaryIO = open(self.path, "rb", opener=without_waiting)  # noqa: SIM115
            facts = os.fstat(self._raw.fileno())
            if not stat.S_ISREG(facts.st_mode):
                self._raw.close()
                raise TraceError("not a regular file", hint="pass the file of a profile", path=path)
            self.file_bytes = facts.st_size
            self.compressed = self._raw.read(2) == _GZIP
            self._raw.seek(0)
        except OSError as error:
            raise TraceError(
                f"cannot open the profile: {error.strerror}",
                path=path,
                hint="check the path and whether this user may read the file",
            ) from error
        self._member: Any = None
        """The gzip member that is being read, None between two."""
        self._packed = b""

    def __iter__(self) -> Generator[bytes]:
        if self.file_bytes <= self.block_bytes // 8:
            yield from self._read_all()
            return
        yield from _ahead(self._read_all())

    def head(self, size: int = 1 << 16) -> bytes:
        """Return the first bytes without consuming them."""
        with Blocks(self.path, block_bytes=size) as blocks:
            return next(blocks._read_all(), b"")

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def __enter__(self) -> Blocks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_all(self) -> Iterator[bytes]:
        while block := self._read():
            self.total_bytes += len(block)
            self._check_expansion()
            if _listener is not None:
                _listener(self.path, self._raw.tell())
            yield block

    def _read(self) -> bytes:
        if not self.compressed:
            return self._raw.read(self.block_bytes)
        # A whole read inflates to about a block; a bomb's to a thousand reads, which is still bearable.
        most = self.block_bytes if self.block_bytes < BLOCK_BYTES else 0
        while not self.damage:
            part = self._inflate(most)
            if part is None:
                break
            if part:
                return part
        return b""

    def _inflate(self, most: int) -> bytes | None:
        """Return some more bytes, None at the end; a file may hold several gzip members."""
        if not self._packed:
            self._packed = self._raw.read(_PACKED_BYTES)
        if not self._packed:
            if self._member is not None:
                self.damage = "the gzip stream ends before its end marker"
            return None
        if self._member is None:
            if not self._packed.startswith(_GZIP[: len(self._packed)]):
                return None  # padding after the last member
            self._member = isal_zlib.decompressobj(wbits=31)
        try:
            part: bytes = self._member.decompress(self._packed, most)
        except (zlib.error, _BAD_DEFLATE) as error:
            self.damage = f"the gzip stream is corrupt ({error})"
            return None
        self._packed = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        if self._member.eof:
            self._member = None
        return part

    def _check_expansion(self) -> None:
        if not self.compressed or self.total_bytes <= HARMLESS_BYTES:
            return
        read = max(1, self._raw.tell())
        if self.total_bytes > self._max_expansion * read:
            raise TraceError(
                f"the gzip file inflates to more than {self._max_expansion:g} times its size: "
                f"{read:,} bytes gave {self.total_bytes:,} so far",
                hint="if it is a real profile, set STEPSCOPE_MAX_EXPANSION to a larger ratio",
                path=self.path,
            )


def _expansion_limit(given: float | None) -> float:
    if given is not None:
        return given
    text = os.environ.get("STEPSCOPE_MAX_EXPANSION", "")
    try:
        return float(text) if text else MAX_EXPANSION
    except ValueError as error:
        raise TraceError(
            f"STEPSCOPE_MAX_EXPANSION is {text!r}: expected a number", hint=f"the default is {MAX_EXPANSION}"
        ) from error


def _ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Run an iterator in a thread that stays a few items ahead; its error is raised here."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
    stop = threading.Event()

    def offer(item: bytes | BaseException | None) -> bool:
        """Wait for room, but not for a consumer that has gone."""
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return True
        return False

    def fill() -> None:
        try:
            for block in blocks:
                if not offer(block):
                    return
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, which raises it
            offer(error)
        else:
            offer(None)

    thread = threading.Thread(target=fill, name="stepscope-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
