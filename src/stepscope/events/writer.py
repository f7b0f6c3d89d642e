"""Writes event files."""

from __future__ import annotations

import io
import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import google_crc32c

from stepscope.errors import EventFileError
from stepscope.events.framing import (
    HEADER_BYTES,
    OVERHEAD_BYTES,
    frame_parts,
    header,
    payload_length,
    unfinished,
)
from stepscope.events.messages import (
    Event,
    Metadata,
    Shape,
    SourceMetadata,
    Summary,
    Tensor,
    Value,
    decode_event,
    encode_event,
)
from stepscope.events.wire import encode_parts, length_prefixed, varint

FILE_VERSION = "brain.Event:2"
HPARAMS = "_hparams_/"
"""Beginning of the tags under which TensorBoard keeps a configuration."""
FULL_BYTES = 1 << 20  # a buffer this large is written out before more is taken
DT_DOUBLE = 2
LEAST_NORMAL = 2.0**-126
"""The smallest float32 with all of its digits."""
EVENTS, OWN = "tfevents", "stepscope"
COMPACTED, COMPACTED_OWN = "compacted", "compacted-own"
INDEX, RECORDS, POINTS = ".index", ".records", ".parquet"
"""Endings of the files that an event file becomes when it is compacted."""
_uid = itertools.count()
_crc = google_crc32c.value
_pack_crc = struct.Struct("<I").pack
_pack_value = struct.Struct("<f").pack


class EventWriter:
    """Writes one event file, that nothing else writes.

    Records are encoded into a buffer and reach the file by ``flush``, or when the buffer holds 1 MiB. A
    failed write raises OSError and loses nothing: unwritten bytes stay in the buffer, and the call
    that raised has taken nothing, so it can be repeated. Not safe for threads.

    Args:
        directory: Directory of the file, made with its parents.
        suffix: Appended to the file's name.
        clock: Gives the wall time in seconds of the file's name and first record.
        name: Of the file, in place of one by which readers of event files find it. Raises FileExistsError.

    Attributes:
        path: The file.
        bytes_written: Bytes that reached the file.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        suffix: str = "",
        clock: Callable[[], float] = time.time,
        name: str = "",
    ) -> None:
        now = clock()
        Path(directory).mkdir(parents=True, exist_ok=True)
        if name:
            self.path = Path(directory, name)
            self._file = io.FileIO(self.path, "xb")
        else:
            self.path, self._file = _create(Path(directory), now, suffix)
        self.bytes_written = 0
        self._parts: list[bytes | memoryview] = []
        self._written: list[bytes | memoryview] = []
        self._size = 0
        self._step, self._step_field = 0, b""
        self._tags: dict[str, bytes] = {}
        self._shapes: dict[str, tuple[bytes, struct.Struct, bytes]] = {}
        first = Event(now, file_version=FILE_VERSION, source_metadata=SourceMetadata("stepscope"))
        self.event(first)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be written."""
        return self._size

    def scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Add a scalar as a float32, or as a float64 tensor if it is finite and beyond that range.

        A number below the smallest normal float32 would lose digits, and all of them below 1e-45.

        Raises:
            EventFileError: The step is no 64-bit integer.
            OSError: The buffer was full and could not be written; the scalar was not taken.
        """
        if self._size >= FULL_BYTES:
            self.flush()
        if step != self._step:
            self._set_step(step)
        try:
            start, layout, prefix = self._shapes[tag]
        except KeyError:
            start, layout, prefix = self._set_shape(tag)
        try:
            payload = None if _is_tiny(value) else layout.pack(9, wall_time, self._step_field, prefix, value)
        except OverflowError:
            payload = None
        if payload is None:
            self._add([encode_event(Event(wall_time, step, summary=Summary([_wide(tag, value)])))])
            return
        crc = _crc(payload)
        self._parts += start, payload, _pack_crc(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        self._size += len(payload) + 16

    def scalars(self, values: Iterable[tuple[str, float]], step: int, wall_time: float) -> None:
        """Add several scalars of one step and time as one event."""
        if self._size >= FULL_BYTES:
            self.flush()
        if step != self._step:
            self._set_step(step)
        parts: list[bytes] = []
        for tag, value in values:
            parts += self._value(tag, value)
        summary = b"".join(parts)
        self._add(
            [b"\x09" + struct.pack("<d", wall_time) + self._step_field + b"\x2a" + length_prefixed(summary)]
        )

    def event(self, event: Event) -> None:
        """Add any event."""
        if self._size >= FULL_BYTES:
            self.flush()
        self._add(encode_parts(event))

    def records(self, data: bytes) -> None:
        """Add whole records that are framed already."""
        if self._size >= FULL_BYTES:
            self.flush()
        self._parts.append(data)
        self._size += len(data)

    def flush(self, sync: bool = False) -> None:
        """Write the buffer.

        Args:
            sync: Also wait until it is on the disk.

        Raises:
            OSError: It could not be written; the rest stays buffered.
        """
        try:
            while self._size:
                count = self._front()
                data = self._parts[0] if count == 1 else b"".join(self._parts[:count])
                written = self._file.write(data) or 0
                self.bytes_written += written
                self._size -= written
                self._parts[:count] = [memoryview(data)[written:]] if written < len(data) else []
                self._written.append(memoryview(data)[:written])
        finally:
            self._written = [unfinished(b"".join(self._written))] if self._size else []
        if sync:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write the buffer and close the file, even if writing fails."""
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()

    def take_back(self) -> list[bytes]:
        """Take the records that are not whole in the file, for another file; the beginning of one is cut off.

        Nothing may be added afterwards.
        """
        begun = b"".join(self._written)
        with suppress(OSError):  # readers know how to read a file whose last record is not whole
            if begun:
                os.ftruncate(self._file.fileno(), self.bytes_written - len(begun))
        rest = begun + b"".join(self._parts)
        self._parts, self._written, self._size = [], [], 0
        self.bytes_written -= len(begun)
        return [rest]

    def put(self, rest: list[bytes]) -> None:
        """Add records taken back from another file."""
        for data in rest:
            self._parts.append(data)
            self._size += len(data)

    @property
    def values_left(self) -> int:
        """How many values of series are not in the file as whole records; it decodes the buffer."""
        data, at, count = b"".join(self._written) + b"".join(self._parts), HEADER_BYTES, 0
        while (length := payload_length(data[at - HEADER_BYTES : at])) is not None:
            values = decode_event(data[at : at + length]).values
            count += sum(not value.tag.startswith(HPARAMS) for value in values)
            at += length + OVERHEAD_BYTES
        return count

    @property
    def whole_bytes(self) -> int:
        """Bytes of the file in whole records, as of the last ``flush``."""
        return self.bytes_written - sum(map(len, self._written))

    def fileno(self) -> int:
        """Return the number of the open file."""
        return self._file.fileno()

    def abandon(self) -> None:
        """Close the file without writing the buffer: in a forked child it is the parent's to write."""
        self._file.close()

    def _front(self) -> int:
        """Return how many parts to write at once: small ones together, a large one by itself, uncopied."""
        size = 0
        for count, part in enumerate(self._parts):
            size += len(part)
            if count and size > FULL_BYTES:
                return count
        return len(self._parts)

    def _add(self, payload: list[bytes]) -> None:
        parts = frame_parts(payload)
        self._parts += parts
        self._size += sum(map(len, parts))

    def _set_step(self, step: int) -> None:
        if not isinstance(step, int) or not -(1 << 63) <= step < 1 << 63:
            raise EventFileError(
                f"cannot write step {step!r}: expected an integer of 64 bits",
                hint="pass the number of the training step: step=global_step",
            )
        field = b"\x10" + varint(step) if step else b""
        if len(field) != len(self._step_field):
            self._shapes.clear()
        self._step, self._step_field = step, field

    def _value(self, tag: str, value: float) -> tuple[bytes, bytes]:
        with suppress(OverflowError):
            if not _is_tiny(value):
                return self._tags.get(tag) or self._set_tag(tag), _pack_value(value)
        return b"\x0a", length_prefixed(bytes(_wide(tag, value)))

    def _set_tag(self, tag: str) -> bytes:
        named = b"\x0a" + length_prefixed(tag.encode("utf-8", "surrogateescape")) + b"\x15"
        self._tags[tag] = prefix = b"\x0a" + varint(len(named) + 4) + named
        return prefix

    def _set_shape(self, tag: str) -> tuple[bytes, struct.Struct, bytes]:
        value = self._tags.get(tag) or self._set_tag(tag)
        prefix = b"\x2a" + varint(len(value) + 4) + value
        layout = struct.Struct(f"<Bd{len(self._step_field)}s{len(prefix)}sf")
        self._shapes[tag] = entry = (header(layout.size), layout, prefix)
        return entry


def own_name(name: str) -> str:
    """Return the name of the file beside an event file that holds Stepscope's own facts of the run.

    Readers of event files look for "tfevents" in a name and do not find it.
    """
    return name.replace(EVENTS, OWN)


def is_own_name(name: str) -> bool:
    """Return whether a file is one beside an event file."""
    return name.startswith(f"events.out.{OWN}.")


def stem_of(name: str) -> str:
    """Return the common beginning of the names of a compacted event file's files; none holds "tfevents"."""
    if is_own_name(name):
        return name.replace(OWN, COMPACTED_OWN, 1)
    return name.replace(EVENTS, COMPACTED)


def is_compacted(name: str) -> bool:
    """Return whether a file belongs to a compacted event file."""
    return COMPACTED in name and name.endswith((INDEX, RECORDS, POINTS))


def _is_tiny(value: float) -> bool:
    """Return whether a number is so small that a float32 has fewer digits than it needs."""
    if value == 0 or not -LEAST_NORMAL < value < LEAST_NORMAL:
        return False
    return bool(struct.unpack("<f", struct.pack("<f", value))[0] != value)


def _wide(tag: str, value: float) -> Value:
    tensor = Tensor(DT_DOUBLE, Shape(), double_val=[value])
    return Value(tag, tensor=tensor, metadata=Metadata.of("scalars", data_class=1))


def _create(directory: Path, now: float, suffix: str) -> tuple[Path, io.FileIO]:
    start = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}"
    while True:
        path = directory / f"{start}.{next(_uid)}{suffix}"
        try:
            return path, io.FileIO(path, "xb")
        except FileExistsError:
            continue
