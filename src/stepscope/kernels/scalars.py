"""Decode the events in a block of records: scalars to rows, everything else to notes of its position.

This is a decoder of protocol buffers for Event, Summary, Summary.Value and TensorProto, by hand: it takes
fields in any order, skips unknown ones, and keeps the last value of a field that occurs twice.

Most events are not decoded at all. Tags usually recur in the same order, and a summary usually differs from
the one before in its number alone. So the next tag is guessed, and if the bytes around the number match the
pattern of that tag, the number is read directly. A pattern is learned from an event that was decoded.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

if not cython.compiled:
    import struct

    # Kinds of notes, beside the number of the field that an event or a value has set.
    NOTE = 7  # int64 columns of a note: kind, tag, step, position, index, start, length
    UNEVEN, METADATA, EVENT, UNDECODABLE = 99, 100, 200, 300
    NOT_SCALAR, NARROW, WIDE, BAD = range(4)
    HAS_METADATA, IS_SCALARS, IS_WIDE, NO_NUMBERS = 1, 2, 4, 8  # flags of a tag

    def _begin(data: Any) -> Any:
        return memoryview(data)

    def _load_f8(p: Any, at: int) -> float:
        return float(struct.unpack_from("<d", p, at)[0])

    def _load_f4(p: Any, at: int) -> float:
        return float(struct.unpack_from("<f", p, at)[0])

    def _load_u8(p: Any, at: int) -> int:
        return int(struct.unpack_from("<Q", p, at)[0])

    def _load_u4(p: Any, at: int) -> int:
        return int(struct.unpack_from("<I", p, at)[0])

    def _load_u2(p: Any, at: int) -> int:
        return int(struct.unpack_from("<H", p, at)[0])

    def _half(bits: int) -> float:
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])

    def _f4_of_bits(bits: int) -> float:
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])

    def _low32(number: int) -> int:
        return number & (1 << 32) - 1

    def _u8(number: int) -> int:
        return number & (1 << 64) - 1

    def _as_signed(number: int, bits: int) -> int:
        number &= (1 << bits) - 1
        return number - (1 << bits) if number >> bits - 1 else number

    def _same(p: Any, at: int, q: Any, other: int, n: int) -> bool:
        return bytes(p[at : at + n]) == bytes(q[other : other + n])


@cython.cclass
class Tags:
    """The tags of a file by number, in the order in which they were first seen.

    Attributes:
        count: How many there are.
        names: Their bytes, one after the other.
        ends: Where each one ends there.
        flags: HAS_METADATA, IS_SCALARS, IS_WIDE, NO_NUMBERS of each one.
    """

    def __init__(self) -> None:
        self.count = self.previous = self.learned = 0
        self.names, self.patterns = _zeros(256, np.uint8), _zeros(2048, np.uint8)
        self.ends, self.pattern = _zeros(16, np.int64), _zeros(16, np.int64)
        self.head, self.tail = _zeros(16, np.int32), _zeros(16, np.int32)
        self.flags, self.width, self.tries = _zeros(16, np.uint8), _zeros(16, np.uint8), _zeros(16, np.uint8)
        self.follow, self.table = _zeros(16, np.int32), _zeros(64, np.int32)

    def grow(self, name_bytes: int) -> None:
        """Make room for one more tag of that many bytes, and for the patterns of all."""
        used = self.ends[self.count - 1] if self.count else 0
        if used + name_bytes > len(self.names):
            self.names = _longer(self.names, max(used + name_bytes, len(self.names)))
        if self.count == len(self.ends):
            self.ends, self.pattern = _longer(self.ends), _longer(self.pattern)
            self.head, self.tail = _longer(self.head), _longer(self.tail)
            self.flags, self.width, self.tries = _longer(self.flags), _longer(self.width), _longer(self.tries)
            self.follow, self.table = _longer(self.follow), _zeros(8 * self.count, np.int32)
            for number in range(self.count):
                _enter(self, number)
        # As the names grow by doubling, so do the patterns; they must not double with every tag.
        room = 2 * len(self.names) + 128 * len(self.ends)
        if room > len(self.patterns):
            self.patterns = _longer(self.patterns, room - len(self.patterns))


def _zeros(size: int, dtype: Any) -> Any:
    return memoryview(np.zeros(size, dtype))


def _longer(array: Any, more: int | None = None) -> Any:
    """Return an array with that many zeros appended; by default as many as it holds."""
    zeros = np.zeros(len(array) if more is None else more, np.asarray(array).dtype)
    return memoryview(np.concatenate([array, zeros]))


@cython.cclass
class Rows:
    """The decoded rows: one per scalar, and one note per other thing.

    Attributes:
        count: Rows filled; so many of ``tag`` … ``position`` count.
        noted: Notes filled, each NOTE numbers of ``notes`` and one of ``note_wall``.
        low_step: Least step of a row; high_step: greatest.
        low_wall: Earliest wall time of an event; high_wall: latest; only valid dates count.
        needed: After a decode that stopped early: bytes for the tag that had no room, 0 where it was a row or
            a note.
    """

    def __init__(self, rows: int, notes: int) -> None:
        self.tag = memoryview(np.empty(rows, np.uint32))
        self.wall = memoryview(np.empty(rows, np.float64))
        self.step = memoryview(np.empty(rows, np.int64))
        self.value = memoryview(np.empty(rows, np.float64))
        self.position = memoryview(np.empty(rows, np.int64))
        self.notes = memoryview(np.empty(notes * NOTE, np.int64))
        self.note_wall = memoryview(np.empty(notes, np.float64))
        self.clear()

    def clear(self) -> None:
        """Start again with no rows and no notes."""
        self.count = self.noted = self.needed = 0
        self.low_step, self.high_step = (1 << 63) - 1, -((1 << 63) - 1)
        self.low_wall, self.high_wall = float("inf"), float("-inf")


def decode(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    base: cython.longlong,
    tags: Tags,
    rows: Rows,
) -> int:
    """Decode the events of some records.

    Args:
        data: The block that holds them.
        starts: Offset of each payload in it.
        lengths: Bytes of each payload.
        first: The first record to decode.
        count: Number of records.
        base: Position of the block in its file.
        tags: Of this file; new ones are added.
        rows: Where scalars and notes are added.

    Returns:
        The first record that was not decoded: ``count``, or less where there was no room for all of it.
    """
    if not cython.compiled:
        starts, lengths = memoryview(starts), memoryview(lengths)  # that give Python integers
    i: cython.Py_ssize_t = first
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    p: cython.p_const_uchar = _begin(data)
    with cython.nogil:
        while i < count:
            at, end = starts[i], starts[i] + lengths[i]
            if not (
                _quick(p, at, end, base + at - 12, tags, rows)
                or _event(p, at, end, base + at - 12, tags, rows)
            ):
                break
            i += 1
    return i


def _quick(p, at, end, position, tags, rows):
    """Decode an event of the guessed tag's pattern; return whether it is one and there was room."""
    if end - at < 12 or p[at] != 0x09 or rows.count == rows.tag.shape[0]:
        return False
    wall = _load_f8(p, at + 1)
    at += 9
    step = 0
    if p[at] == 0x10:
        step = p[at + 1]
        at += 2
        if step > 127:
            step &= 127
            shift = 7
            while at < end and p[at] > 127:
                step |= _u8(p[at] & 127) << shift
                at += 1
                shift += 7
            if at >= end or shift > 56:
                return False  # ten bytes are a negative step: seldom, and not for here
            step |= _u8(p[at]) << shift
            at += 1
    tag = tags.follow[tags.previous]
    head, width, tail = tags.head[tag], tags.width[tag], tags.tail[tag]
    pattern = tags.pattern[tag]
    if end - at != head + width + tail or width == 0:
        return False
    if not _same(p, at, _begin(tags.patterns), pattern, head):
        return False
    if tail and not _same(p, end - tail, _begin(tags.patterns), pattern + head, tail):
        return False
    tags.previous = tag
    _times(wall, rows)
    _row(rows, tag, step, wall, _load_f4(p, at + head) if width == 4 else _load_f8(p, at + head), position)
    return True


def _learn(p, at, end, tag, tags, rows):
    """Keep the bytes around an event's number as its tag's pattern; a few times, to find the usual one."""
    head = rows.real_at - at
    tail = end - rows.real_at - rows.real_size
    if tags.tries[tag] == 8 or tags.learned + head + tail > tags.patterns.shape[0]:
        return
    tags.tries[tag] += 1
    for i in range(head):
        tags.patterns[tags.learned + i] = p[at + i]
    for i in range(tail):
        tags.patterns[tags.learned + head + i] = p[end - tail + i]
    tags.pattern[tag] = tags.learned
    tags.head[tag], tags.width[tag], tags.tail[tag] = head, rows.real_size, tail
    tags.learned += head + tail


def _times(wall, rows):
    """Take a wall time into account that is a date: not NaN, infinite or beyond the year 9999."""
    if not (wall >= 0 and wall < 253402300800.0):  # 10000-01-01
        return
    if wall < rows.low_wall:
        rows.low_wall = wall
    if wall > rows.high_wall:
        rows.high_wall = wall


def _event(p, at, end, position, tags, rows):
    """Decode one event; return whether there was room for it."""
    start = at
    what = summaries = 0
    key_at = first_at = first_end = 0
    step = 0
    wall = 0.0
    in_order = True  # wall time, step, then one summary and nothing else
    while at < end:
        key = p[at]
        if key == 0x09 and at + 9 <= end:
            in_order = in_order and at == start
            wall = _load_f8(p, at + 1)
            at += 9
            _times(wall, rows)
        elif key == 0x10:
            in_order = in_order and at == start + 9
            at = _varint(p, at + 1, end, rows)
            step = _as_signed(rows.number, 64)
        elif key == 0x2A:
            summaries += 1
            if summaries == 1:
                key_at = at
            at = _size(p, at + 1, end, rows)
            what = 5
            if summaries == 1:
                first_at, first_end = at, at + rows.number
            at += rows.number
        else:
            at = _skip(p, at, end, rows)
            if 3 <= rows.field <= 9:
                what = rows.field
        if at < 0:
            return _note(rows, UNDECODABLE, -1, 0, wall, position, 0, start, end - start)
    if what == 0:
        return True
    if what != 5:
        return _note(rows, EVENT + what, -1, step, wall, position, 0, start, end - start)
    count, noted = rows.count, rows.noted
    rows.real_size = 0
    if summaries == 1:
        done = _values(p, first_at, first_end, position, step, wall, 0, tags, rows)
    else:
        done = _every_summary(p, start, end, position, step, wall, tags, rows)
    if done == 1 and rows.real_size and in_order and first_end == end:
        _learn(p, key_at, end, tags.previous, tags, rows)
    if done >= 0:
        return True
    _undo(count, noted, tags, rows)
    if done == -1:
        return False
    return _note(rows, UNDECODABLE, -1, step, wall, position, 0, start, end - start)


def _every_summary(p, at, end, position, step, wall, tags, rows):
    """Decode the values of an event that has several summaries: they are one with all their values."""
    index = 0
    while at < end:
        if p[at] == 0x2A:
            at = _size(p, at + 1, end, rows)
            size = rows.number
            index = _values(p, at, at + size, position, step, wall, index, tags, rows)
            if index < 0:
                return index
            at += size
        else:
            at = _skip(p, at, end, rows)
    return index


def _values(p, at, end, position, step, wall, index, tags, rows):
    """Decode the values of a summary; return their number, -1 where there was no room, -2 if malformed."""
    while at < end:
        if p[at] == 0x0A:
            at = _size(p, at + 1, end, rows)
            if at < 0:
                return -2
            size = rows.number
            done = _value(p, at, at + size, position, step, wall, index, tags, rows)
            if done < 0:
                return done
            at += size
            index += 1
        else:
            at = _skip(p, at, end, rows)
            if at < 0:
                return -2
    return index


def _value(p, at, end, position, step, wall, index, tags, rows):
    """Decode one value; return 0, -1 where there was no room, -2 if malformed."""
    kind = 0
    name_at = name_size = body_at = body_end = metadata_at = metadata_size = 0
    number = 0.0
    while at < end:
        key = p[at]
        if key == 0x0A:
            at = _size(p, at + 1, end, rows)
            name_at, name_size = at, rows.number
            at += name_size
        elif key == 0x15 and at + 5 <= end:
            kind = 2
            number = _load_f4(p, at + 1)
            rows.real_at, rows.real_size = at + 1, 4
            at += 5
        elif key == 0x42:
            at = _size(p, at + 1, end, rows)
            kind = 8
            body_at, body_end = at, at + rows.number
            at = body_end
        elif key == 0x4A:
            at = _size(p, at + 1, end, rows)
            metadata_at, metadata_size = at, rows.number
            at += metadata_size
        else:
            at = _skip(p, at, end, rows)
            if 3 <= rows.field <= 6:
                kind = rows.field
                body_at, body_end = rows.body, at
        if at < 0:
            return -2
    if kind == 5 and _uneven(p, body_at, body_end, rows):
        kind = UNEVEN
    tag = _tag(p, name_at, name_size, tags)
    if tag < 0:
        rows.needed = name_size + 1
        return -1
    if metadata_at and not tags.flags[tag] & HAS_METADATA:
        if not _note(rows, METADATA, tag, step, wall, position, index, metadata_at, metadata_size):
            return -1
        tags.flags[tag] |= HAS_METADATA
        tags.flags[tag] |= _plugin_flag(p, metadata_at, metadata_at + metadata_size, rows)
    if kind == 8 and not tags.flags[tag] & NO_NUMBERS:
        rows.real_size = 0
        done = _tensor(p, body_at, body_end, tags.flags[tag] & IS_SCALARS, rows)
        if done == BAD:
            return -2
        if done != NOT_SCALAR:
            kind = 2
            number = rows.real
            if done == WIDE:
                tags.flags[tag] |= IS_WIDE
    if kind != 2:
        done = _note(rows, kind, tag, step, wall, position, index, body_at, body_end - body_at)
        return 0 if done else -1
    return _row(rows, tag, step, wall, number, position)


def _uneven(p, at, end, rows):
    """Return whether an old-style histogram has different numbers of limits and counts."""
    more = 0
    while at < end:
        packed = p[at] & 7 == 2
        at = _skip(p, at, end, rows)
        if at < 0:
            return True
        if rows.field == 6:
            more += (at - rows.body) // 8 if packed else 1
        elif rows.field == 7:
            more -= (at - rows.body) // 8 if packed else 1
    return more != 0


def _row(rows, tag, step, wall, number, position):
    n = rows.count
    if n == rows.tag.shape[0]:
        rows.needed = 0
        return -1
    rows.tag[n] = tag
    rows.wall[n] = wall
    rows.step[n] = step
    rows.value[n] = number
    rows.position[n] = position
    rows.count = n + 1
    if step < rows.low_step:
        rows.low_step = step
    if step > rows.high_step:
        rows.high_step = step
    return 0


def _note(rows, kind, tag, step, wall, position, index, start, length):
    n = rows.noted
    if n == rows.note_wall.shape[0]:
        rows.needed = 0
        return False
    at = n * NOTE
    rows.notes[at] = kind
    rows.notes[at + 1] = tag
    rows.notes[at + 2] = step
    rows.notes[at + 3] = position
    rows.notes[at + 4] = index
    rows.notes[at + 5] = start
    rows.notes[at + 6] = length
    rows.note_wall[n] = wall
    rows.noted = n + 1
    return True


def _undo(count, noted, tags, rows):
    """Remove the rows and notes of an event, and forget the metadata in it."""
    rows.count = count
    while rows.noted > noted:
        rows.noted -= 1
        if rows.notes[rows.noted * NOTE] == METADATA:
            tags.flags[rows.notes[rows.noted * NOTE + 1]] &= 255 - HAS_METADATA - IS_SCALARS - NO_NUMBERS


# --- tags -------------------------------------------------------------------------------------------


def _tag(p, at, size, tags):
    """Return the number of a tag, -1 where there is no room for a new one."""
    guess = tags.follow[tags.previous]
    if tags.count == 0 or not _is_tag(p, at, size, tags, guess):
        guess = _look_up(p, at, size, tags)
        if guess < 0:
            return -1
        tags.follow[tags.previous] = guess
    tags.previous = guess
    return guess


def _is_tag(p, at, size, tags, number):
    start = tags.ends[number - 1] if number else 0
    return tags.ends[number] - start == size and _same(p, at, _begin(tags.names), start, size)


def _look_up(p, at, size, tags):
    mask = tags.table.shape[0] - 1
    slot = _hash(p, at, size) & mask
    while tags.table[slot]:
        if _is_tag(p, at, size, tags, tags.table[slot] - 1):
            return tags.table[slot] - 1
        slot = (slot + 1) & mask
    number = tags.count
    start = tags.ends[number - 1] if number else 0
    if number == tags.ends.shape[0] or start + size > tags.names.shape[0]:
        return -1
    for i in range(size):
        tags.names[start + i] = p[at + i]
    tags.ends[number] = start + size
    tags.count = number + 1
    tags.table[slot] = number + 1
    return number


def _enter(tags, number):
    """Put a known tag into the hash table."""
    start = tags.ends[number - 1] if number else 0
    mask = tags.table.shape[0] - 1
    slot = _hash(_begin(tags.names), start, tags.ends[number] - start) & mask
    while tags.table[slot]:
        slot = (slot + 1) & mask
    tags.table[slot] = number + 1


def _hash(p, at, size):
    """FNV-1a of 32 bits."""
    hashed = 2166136261
    for i in range(size):
        hashed = _low32((hashed ^ p[at + i]) * 16777619)
    return hashed


# --- tensors ----------------------------------------------------------------------------------------


def _tensor(p, at, end, is_scalars, rows):
    """Decode a tensor of one number into ``rows.real``; return NOT_SCALAR, NARROW, WIDE or BAD.

    One number is a tensor of rank 0, or of one element where the tag's plugin is ``scalars``.
    """
    kind = rank = field = 0
    elements = 1
    several = False  # lists, or lists that are not packed
    content_at = content_size = list_at = list_size = 0
    while at < end:
        key = p[at]
        if key == 0x08:
            at = _varint(p, at + 1, end, rows)
            kind = _as_signed(rows.number, 32)
        elif key == 0x12:
            at = _size(p, at + 1, end, rows)
            if at > 0:
                size = rows.number
                if not _shape(p, at, at + size, rows):
                    return BAD
                rank, elements = rows.rank, rows.elements
                at += size
        elif key == 0x22:
            at = _size(p, at + 1, end, rows)
            content_at, content_size = at, rows.number
            at += content_size
        else:
            at = _skip(p, at, end, rows)
            element = rows.field == 8 or rows.field == 14 or rows.field == 15  # also where it is empty
            if (rows.body < at and rows.field >= 5) or element:
                several = list_at > 0
                field, list_at, list_size = rows.field, rows.body, at - rows.body
        if at < 0:
            return BAD
    if elements != 1 or (rank > 0 and not is_scalars):
        return NOT_SCALAR
    if content_size:
        return _number_in_content(p, content_at, content_size, kind, rows)
    if several:
        return NOT_SCALAR
    return _number_in_list(p, list_at, list_at + list_size, field, kind, rows)


def _shape(p, at, end, rows):
    """Read rank and number of elements into ``rows``; return whether it is a shape."""
    rank = 0
    elements = 1
    while at < end:
        if p[at] == 0x12:
            at = _size(p, at + 1, end, rows)
            if at < 0:
                return False
            stop = at + rows.number
            size = 0
            while at < stop:
                if p[at] == 0x08:
                    at = _varint(p, at + 1, stop, rows)
                    size = _as_signed(rows.number, 64)
                else:
                    at = _skip(p, at, stop, rows)
                if at < 0:
                    return False
            rank += 1
            elements = 1 if size == 1 and elements == 1 else -1
        elif p[at] == 0x18:
            at = _varint(p, at + 1, end, rows)
            if rows.number:
                elements = -1
        else:
            at = _skip(p, at, end, rows)
        if at < 0:
            return False
    rows.rank, rows.elements = rank, elements
    return True


def _number_in_content(p, at, size, kind, rows):
    if kind == 1 and size == 4:
        rows.real = _load_f4(p, at)
        rows.real_at, rows.real_size = at, 4
    elif kind == 2 and size == 8:
        rows.real = _load_f8(p, at)
        rows.real_at, rows.real_size = at, 8
        return WIDE
    elif kind == 3 and size == 4:
        rows.real = _as_signed(_load_u4(p, at), 32)
        return WIDE
    elif kind == 9 and size == 8:
        rows.real = _as_signed(_load_u8(p, at), 64)
        return WIDE
    elif kind == 22 and size == 4:
        rows.real = _load_u4(p, at)
        return WIDE
    elif kind == 23 and size == 8:
        rows.real = _load_u8(p, at)
        return WIDE
    elif kind == 14 and size == 2:
        rows.real = _f4_of_bits(_load_u2(p, at) << 16)
    elif kind == 19 and size == 2:
        rows.real = _half(_load_u2(p, at))
    elif kind == 5 and size == 2:
        rows.real = _as_signed(_load_u2(p, at), 16)
    elif kind == 17 and size == 2:
        rows.real = _load_u2(p, at)
    elif kind == 6 and size == 1:
        rows.real = _as_signed(p[at], 8)
    elif (kind == 4 or kind == 10) and size == 1:
        rows.real = p[at]
    else:
        return NOT_SCALAR
    return NARROW


def _number_in_list(p, at, end, field, kind, rows):
    """Read the only number of the list of its type; without one it is zero, as TensorFlow has it."""
    is_int = kind == 3 or 4 <= kind <= 6 or kind == 17
    wanted = (
        5 if kind == 1 else 6 if kind == 2 else 7 if is_int else 10 if kind == 9 else 11 if kind == 10 else 0
    )
    if kind == 14 or kind == 19:
        wanted = 13
    elif kind == 22 or kind == 23:
        wanted = kind - 6
    if wanted == 0 or (field != 0 and field != wanted):
        return NOT_SCALAR
    rows.real = 0.0
    if field == 5 or field == 6:
        if at + (4 if field == 5 else 8) != end:
            return NOT_SCALAR
        rows.real = _load_f4(p, at) if field == 5 else _load_f8(p, at)
        rows.real_at, rows.real_size = at, 4 if field == 5 else 8
    elif field:
        at = _varint(p, at, end, rows)
        if at < 0:
            return BAD
        if at != end:
            return NOT_SCALAR
        if field == 13:
            rows.real = _half_or_float(_low32(rows.number), kind)
        elif field == 7:
            rows.real = _as_signed(rows.number, 32)
        elif field == 10:
            rows.real = _as_signed(rows.number, 64)
        elif field == 11:
            rows.real = rows.number != 0
        else:
            rows.real = rows.number if field == 17 else _low32(rows.number)
    return WIDE if kind == 2 or kind == 3 or kind == 9 or kind >= 22 else NARROW


def _half_or_float(bits, kind):
    """Decode a half that may be stored as the bits of a float32, as PyTorch does."""
    if bits > 0xFFFF:
        return _f4_of_bits(bits)
    return _f4_of_bits(bits << 16) if kind == 14 else _half(bits)


def _plugin_flag(p, at, end, rows):
    """Return IS_SCALARS or NO_NUMBERS for the plugin that metadata names; 0 if it may hold numbers."""
    while at < end:
        if p[at] == 0x0A:
            at = _size(p, at + 1, end, rows)
            if at < 0:
                return 0
            stop = at + rows.number
            while at < stop:
                if p[at] == 0x0A:
                    at = _size(p, at + 1, stop, rows)
                    return 0 if at < 0 else _flag_of(_hash(p, at, rows.number) & 0x7FFFFFFF)
                at = _skip(p, at, stop, rows)
                if at < 0:
                    return 0
        else:
            at = _skip(p, at, end, rows)
            if at < 0:
                return 0
    return 0


def _flag_of(name):
    """Return the flag of a plugin, by 31 bits of the hash of its name."""
    if name == 0x0B31A2EA:  # scalars
        return IS_SCALARS
    if name == 0x1EF67C96 or name == 0x51D746AB or name == 0x60613999:  # histograms, images, audio
        return NO_NUMBERS
    if name == 0x3DE64E3E or name == 0x7F171CA0 or name == 0x2100BEBC:  # text, pr_curves, mesh
        return NO_NUMBERS
    if name == 0x51127175 or name == 0x7E37F294:  # hparams, custom_scalars
        return NO_NUMBERS
    return 0


# --- the wire format --------------------------------------------------------------------------------


def _varint(p, at, end, rows):
    """Read an integer into ``rows.number``; return the offset after it, -1 where it does not end."""
    if at < end and p[at] < 128:
        rows.number = p[at]
        return at + 1
    return _long_varint(p, at, end, rows)


def _long_varint(p, at, end, rows):
    number = 0
    shift = 0
    while at < end and shift < 64:
        byte = p[at]
        at += 1
        number |= _u8(byte & 127) << shift
        if byte < 128:
            rows.number = _u8(number)
            return at
        shift += 7
    return -1


def _size(p, at, end, rows):
    """Read the bytes of a field into ``rows.number``; return where it begins, -1 where it does not fit."""
    at = _varint(p, at, end, rows)
    if at < 0 or rows.number > _u8(end - at):
        rows.number = 0
        return -1
    return at


def _skip(p, at, end, rows):
    """Skip a field; return the offset after it, -1 if it is malformed.

    Leaves its number in ``rows.field``, 0 where it is a group, and where its value begins in ``rows.body``.
    """
    at = _varint(p, at, end, rows)
    rows.field = 0
    if at < 0 or rows.number >> 3 == 0:
        return -1
    number, wire = rows.number >> 3, rows.number & 7
    rows.body = at
    if wire == 0:
        at = _varint(p, at, end, rows)
    elif wire == 1 or wire == 5:
        at = at + 8 if wire == 1 else at + 4
    elif wire == 2:
        at = _size(p, at, end, rows)
        rows.body = at
        at += rows.number
    elif wire == 3:
        return _skip_group(p, at, end, number, 0, rows)
    else:
        return -1
    rows.field = number
    return at if at <= end else -1


def _skip_group(p, at, end, number, depth, rows):
    while at < end and depth < 100:
        before = at
        at = _varint(p, at, end, rows)
        if at < 0:
            return -1
        wire = rows.number & 7
        inner = rows.number >> 3
        if wire == 4:
            rows.field = 0
            return at if inner == number else -1
        at = _skip_group(p, at, end, inner, depth + 1, rows) if wire == 3 else _skip(p, before, end, rows)
        if at < 0:
            return -1
    return -1
