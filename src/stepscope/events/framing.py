"""Record framing of event files: TFRecord with masked CRC-32C.

``uint64 length | uint32 masked CRC of the length | payload | uint32 masked CRC of the payload``,
little-endian.
"""

from __future__ import annotations

import struct
import time

import google_crc32c

from stepscope.errors import DAMAGED_RECORD, EventFileError

PIECE_BYTES = 1 << 20
HEADER_BYTES, FOOTER_BYTES = 12, 4
OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES
MOST_BYTES = 2 << 30
"""Most bytes of a payload, as an event is a protocol-buffer message. A larger header is not valid."""
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes, rotated and offset so that a CRC of data holding CRCs stays one."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """Return the bytes before a payload of some length."""
    size = _LENGTH.pack(length)
    return size + _CRC.pack(masked_crc32c(size))


def frame_parts(payload: list[bytes]) -> list[bytes]:
    """Return a payload that lies in parts as a record in parts, none of them copied.

    Checksums are taken a piece at a time, so that the other threads of a program go on in between.
    """
    crc = 0
    for part in payload:
        for start in range(0, len(part), PIECE_BYTES):
            whole = type(part) is bytes and len(part) <= PIECE_BYTES
            piece = part if whole else bytes(part[start : start + PIECE_BYTES])
            crc = google_crc32c.extend(crc, piece)
            if len(piece) == PIECE_BYTES:
                time.sleep(0)
    return [header(sum(map(len, payload))), *payload, footer(crc)]


def footer(crc: int) -> bytes:
    """Return the bytes after a payload, from its CRC-32C."""
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(payload: bytes) -> bytes:
    """Return a payload as a record."""
    return header(len(payload)) + payload + _CRC.pack(masked_crc32c(payload))


def unframe(record: bytes) -> bytes:
    """Return the payload of a record.

    Raises:
        EventFileError: The bytes are not exactly one record with right checksums.
    """
    if len(record) < OVERHEAD_BYTES:
        raise EventFileError(
            f"not a record: expected at least {OVERHEAD_BYTES} bytes, found {len(record)}",
            hint=DAMAGED_RECORD,
        )
    length = payload_length(record[:HEADER_BYTES])
    if length is None or len(record) != length + OVERHEAD_BYTES:
        raise EventFileError(
            f"not a record: {len(record)} bytes do not begin with their own length", hint=DAMAGED_RECORD
        )
    payload = record[HEADER_BYTES:-FOOTER_BYTES]
    if _CRC.unpack(record[-FOOTER_BYTES:])[0] != masked_crc32c(payload):
        raise EventFileError("not a record: the checksum of its payload is wrong", hint=DAMAGED_RECORD)
    return payload


def unfinished(data: bytes) -> bytes:
    """Return the bytes after the last whole record of some bytes that begin with a record."""
    at = 0
    while (length := payload_length(data[at : at + HEADER_BYTES])) is not None:
        if at + length + OVERHEAD_BYTES > len(data):
            break
        at += length + OVERHEAD_BYTES
    return data[at:]


def payload_length(header_bytes: bytes) -> int | None:
    """Return the length that a header gives, None if its checksum is wrong or no event is so long."""
    if len(header_bytes) != HEADER_BYTES:
        return None
    if _CRC.unpack_from(header_bytes, 8)[0] != masked_crc32c(header_bytes[:8]):
        return None
    length: int = _LENGTH.unpack_from(header_bytes)[0]
    return length if length <= MOST_BYTES else None
