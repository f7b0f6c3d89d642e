"""Event files in pieces, as an object store holds them: it cannot append, so each piece is an object.

``NAME.bytes-<start>-<end>`` holds the bytes of the file NAME from start to end. If start is not 0, they
follow a record that names the file's version: TensorBoard, and every reader that takes each file by itself,
reads a piece as an event file, and in the order of their names the pieces are the file. A piece begins and
ends between two records. Pieces may overlap, if several were merged into one and are not deleted yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from stepscope.events.framing import HEADER_BYTES, OVERHEAD_BYTES

_PIECE = re.compile(r"(?P<name>.+)\.bytes-(?P<start>\d{15})-(?P<end>\d{15})")


class Piece(NamedTuple):
    """The range of a file that an object holds."""

    name: str
    start: int
    end: int


def piece_name(name: str, start: int, end: int) -> str:
    """Return the name of the object for a range of a file."""
    return f"{name}.bytes-{start:015d}-{end:015d}"


def parse_piece(name: str) -> Piece | None:
    """Return the facts in the name of an object, None if it is not a piece's."""
    match = _PIECE.fullmatch(name)
    return Piece(match["name"], int(match["start"]), int(match["end"])) if match else None


def records_end(file: BinaryIO, start: int, size: int, most: int | None = None) -> int:
    """Return the end of the last whole record.

    Args:
        file: An event file.
        start: Start of a record.
        size: End of the file.
        most: Return the end of a record beyond this many bytes rather than look further.
    """
    at = start
    while at + HEADER_BYTES <= size and (most is None or at - start < most):
        file.seek(at)
        after = at + int.from_bytes(file.read(8), "little") + OVERHEAD_BYTES
        if after > size:
            break
        at = after
    return at


def first_record(file: BinaryIO) -> bytes:
    """Return the first record of an event file, which names the version; nothing if it is not whole."""
    file.seek(0)
    head = file.read(8)
    if len(head) < 8:
        return b""
    length = int.from_bytes(head, "little")
    rest = file.read(length + 8) if length < 1 << 16 else b""
    return head + rest if len(rest) == length + 8 else b""


def covering(pieces: Iterable[Piece], at: int) -> Piece | None:
    """Return the piece that reaches furthest of those that hold a byte, None if none does."""
    held = [piece for piece in pieces if piece.start <= at < piece.end]
    return max(held, key=lambda piece: piece.end, default=None)
