"""Looks at stretches of a file without records: the start of the next one, and whether they may be filled."""

from __future__ import annotations

from dataclasses import dataclass

import google_crc32c

from stepscope.events.framing import FOOTER_BYTES, HEADER_BYTES, OVERHEAD_BYTES, footer, payload_length
from stepscope.events.source import EventSource, aligned
from stepscope.kernels import records

WINDOW_BYTES = 1 << 20
HOLE_ZEROS = 16
"""Consecutive zero bytes that make a hole of a place without a record; an event of a scalar has fewer."""
MOST_WAITING = 256 << 20
"""Longest stretch that is waited for: no more can be under way, and each look would read it again."""


class Effort:
    """Bounds the cost of looking for records, to some times the bytes of the file.

    A header with a right checksum that begins no record does not come by chance: somebody wrote it. In a file
    of nothing but such headers each would have all that follows it checked, for days.

    Attributes:
        is_spent: The budget is spent: the rest of the file is not looked at.
    """

    def __init__(self) -> None:
        self._spent, self.is_spent = 0, False

    def allows(self, cost: int, size: int) -> bool:
        """Spend so many bytes of checking in a file of some size; return whether there were so many left."""
        self._spent += cost + LOOK_BYTES
        self.is_spent = self._spent > EFFORT * size + FREE_BYTES
        return not self.is_spent


EFFORT = 8
"""Times its own bytes that a file may have checked beside those of its records."""
FREE_BYTES = 256 << 20
LOOK_BYTES = 4 << 10
"""Cost of a look at a header, in bytes of checking."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of a file without a record.

    Attributes:
        start: Its first byte.
        end: The byte after its last.
        sums: Checksums of its blocks, to see when it changes.
        zeros: It has zeros, like bytes that are not written yet, so it may be filled.
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


def next_record(source: EventSource, at: int, end: int, effort: Effort) -> int | None:
    """Return the start of the next whole record, after a place without one.

    Args:
        source: The file.
        at: The place; if a header is right there, the record after it counts by its header alone.
        end: Records do not go beyond.
        effort: The budget; once it is spent, there is no next record.
    """
    length = payload_length(source.bytes(at, HEADER_BYTES))
    if length is not None:
        after = at + OVERHEAD_BYTES + length
        if after + OVERHEAD_BYTES <= end and payload_length(source.bytes(after, HEADER_BYTES)) is not None:
            return after
    return _search(source, at + 1, end, effort)


def _search(source: EventSource, at: int, end: int, effort: Effort) -> int | None:
    buffer = aligned(WINDOW_BYTES)
    while at + OVERHEAD_BYTES <= end:
        # Zeros are no header, but the last of them may be the first bytes of one.
        at = max(at, source.data_from(at) - HEADER_BYTES)
        block = source.block(buffer, at, min(end, at + WINDOW_BYTES))
        place = records.find(block, 0, end - at)
        if place >= 0:
            length = payload_length(source.bytes(at + place, HEADER_BYTES)) or 0
            if not effort.allows(length, source.size):
                return None
            if is_record(source, at + place):
                return at + place
            at += place + 1
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
    crc, place, end = 0, at + HEADER_BYTES, at + HEADER_BYTES + length
    while place < end:  # a part at a time: a record may be as long as memory
        part = source.bytes(place, min(WINDOW_BYTES, end - place))
        if not part:
            return False
        crc = google_crc32c.extend(crc, part)
        place += len(part)
    return source.bytes(end, FOOTER_BYTES) == footer(crc)
