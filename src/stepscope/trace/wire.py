"""Recognizes protobuf messages and splits large ones into pieces, which are then read without copying."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.events.wire import FIXED32, FIXED64, read_value
from stepscope.events.wire import read_varint as varint

Value = int | memoryview


def fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Iterate over a message's fields: number, wire type, and value.

    Varints and fixed numbers come as unsigned integers, the rest as a view of the bytes.

    Raises:
        ValueError: Bytes that are not messages, or one that is cut short.
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = read_value(data, at, key & 7, key)
        yield key >> 3, key & 7, int.from_bytes(value, "little") if key & 7 in (FIXED64, FIXED32) else value


def _first(data: memoryview, wanted: int) -> memoryview | None:
    """Return as much as there is of the first field, where it is a submessage of that number."""
    try:
        tag, at = varint(data, 0)
        length, at = varint(data, at)
    except ValueError:
        return None
    if tag != wanted << 3 | 2:
        return None
    return data[at : at + length]


def looks_like_event_file(head: bytes) -> bool:
    """Return whether the first record's length has the right checksum."""
    from stepscope.events import masked_crc32c

    return len(head) >= 12 and masked_crc32c(head[:8]) == int.from_bytes(head[8:12], "little")


def looks_like_xspace(head: bytes) -> bool:
    """Return whether the first field is an XPlane: an optional number, then a name that is text."""
    plane = _first(memoryview(head), 1)
    if plane is None:
        return False
    name = b""
    try:
        for number, kind, value in fields(plane[:4096]):
            if number == 1 and kind == 0:
                continue
            if number == 2 and kind == 2 and isinstance(value, memoryview):
                name = bytes(value)
            break
    except ValueError:
        return False
    return 0 < len(name) < 256 and name.isascii() and name.decode().isprintable() and _plane_name(name)


def _plane_name(name: bytes) -> bool:
    return (
        name.startswith((b"/host:", b"/device:", b"/host", b"#Chip", b"/custom"))
        or b"Task Environment" in name
        or (b":" in name and b"/" in name)
    )


def looks_like_run_metadata(head: bytes) -> bool:
    """Return whether the first fields are a StepStats, a DeviceStepStats and a device's name."""
    data: memoryview | None = memoryview(head)
    for _ in range(2):
        data = _first(data, 1) if data is not None else None
    name = _first(data, 1) if data is not None else None
    return name is not None and bytes(name[:200]).startswith(
        (b"/job:", b"/device:", b"/host:", b"/replica:", b"/")
    )
