"""Types of encoded bytes: their MIME type by their first bytes, and the size of a picture in pixels."""

from __future__ import annotations

import struct
from typing import NamedTuple

OTHER = "application/octet-stream"
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
)


class Size(NamedTuple):
    """Pixels."""

    width: int
    height: int


HEAD_BYTES = 256


def mime(data: bytes) -> str:
    """Return the MIME type of encoded bytes, ``application/octet-stream`` if it is not known."""
    data = bytes(data[:HEAD_BYTES])
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], OTHER)
    if data[4:8] == b"ftyp":
        return "image/avif" if data[8:12] in (b"avif", b"avis") else "video/mp4"
    if data.lstrip().startswith((b"<svg", b"<?xml")):
        return "image/svg+xml"
    return OTHER


def size(data: bytes) -> Size:
    """Return the size of an encoded picture; 0 by 0 if it does not tell."""
    try:
        read = _SIZES.get(mime(data))
        return read(data) if read else Size(0, 0)
    except (struct.error, IndexError):
        return Size(0, 0)


def _jpeg(data: bytes) -> Size:
    """Look for a start of frame: its segment holds the size."""
    at = 2
    while True:
        marker, length = struct.unpack_from(">HH", data, at)
        if 0xFFC0 <= marker <= 0xFFCF and marker not in (0xFFC4, 0xFFC8, 0xFFCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return Size(width, height)
        if marker >> 8 != 0xFF:
            return Size(0, 0)
        at += 2 + length


def _webp(data: bytes) -> Size:
    kind = data[12:16]
    if kind == b"VP8X":
        packed = int.from_bytes(data[24:30], "little")
        return Size((packed & 0xFFFFFF) + 1, (packed >> 24) + 1)
    if kind == b"VP8L":
        packed = int.from_bytes(data[21:25], "little")
        return Size((packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1)
    width, height = struct.unpack_from("<HH", data, 26)
    return Size(width & 0x3FFF, height & 0x3FFF)


_SIZES = {
    "image/png": lambda data: Size(*struct.unpack_from(">II", data, 16)),
    "image/gif": lambda data: Size(*struct.unpack_from("<HH", data, 6)),
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
