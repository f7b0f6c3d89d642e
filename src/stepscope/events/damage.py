"""Looks at stretches of a file without records: where the next one begins, and whether they may be filled."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.errors import EventFileError
from stepscope.events.framing import HEADER_BYTES, OVERHEAD_BYTES, payload_length, unframe
from stepscope.events.source import EventSource, aligned
from stepscope.kernels import records

WINDOW_BYTES = 1 << 20
HOLE_ZEROS = 16
"""So many zero bytes in a row make a hole of a place without a record; an event of a scalar has fewer."""
MOST_WAITING = 256 << 20
"""A longer stretch is not waited for: nothing has so much under way, and each look would read it anew."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of a file without a record.

    Attributes:
        start: Its first byte.
        end: The byte after its last.
        sums: Checksums of its blocks, to see when it changes.
        zeros: It has zeros such as bytes that are not written yet: it may be filled.
    """

    start: int
    end: int
    sums: tuple[int, ...]
    zeros: bool


def survey(source: EventSource, start: int, end: int) -> Stretch:
    """Look at a stretch of a file; at one that is too long to be filled not closely."""
    if end - start > MOST_WAITING:
        return Stretch(start, end, (), False)
    buffer = aligned(WINDOW_BYTES + HOLE_ZEROS)
    sums, zeros = [], False
    for at in range(start, end, WINDOW_BYTES):
        # Windows overlap by as many bytes as a run of zeros may lack at a border.
        block = source.block(buffer, at, min(end, at + WINDOW_BYTES + HOLE_ZEROS - 1))
        sums.append(records.checksum(block))
        zeros = zeros or records.zero_run(block, HOLE_ZEROS)
    return Stretch(start, end, tuple(sums), zeros)


def next_record(source: EventSource, at: int, end: int) -> int | None:
    """Return where the next whole record begins, after a place where none begins.

    Args:
        source: The file.
        at: The place; where a header is right there, the record after it counts by its header alone.
        end: Records do not go beyond.
    """
    length = payload_length(source.bytes(at, HEADER_BYTES))
    if length is not None:
        after = at + OVERHEAD_BYTES + length
        if after + OVERHEAD_BYTES <= end and payload_length(source.bytes(after, HEADER_BYTES)) is not None:
            return after
    return _search(source, at + 1, end)


def _search(source: EventSource, at: int, end: int) -> int | None:
    buffer = aligned(WINDOW_BYTES)
    while at + OVERHEAD_BYTES <= end:
        # Zeros are no header, but the last of them may be the first bytes of one.
        at = max(at, source.data_from(at) - HEADER_BYTES)
        block = source.block(buffer, at, min(end, at + WINDOW_BYTES))
        found = records.find(block, 0, end - at)
        if found >= 0:
            if is_record(source, at + found):
                return at + found
            at += found + 1
        elif len(block) <= HEADER_BYTES:
            return None
        else:
            at += len(block) - HEADER_BYTES + 1
    return None


def is_record(source: EventSource, at: int) -> bool:
    """Return whether a whole record with right checksums begins at a position."""
    length = payload_length(source.bytes(at, HEADER_BYTES))
    if length is None or at + OVERHEAD_BYTES + length > source.size:
        return False
    try:
        unframe(source.bytes(at, OVERHEAD_BYTES + length))
    except EventFileError:
        return False
    return True
