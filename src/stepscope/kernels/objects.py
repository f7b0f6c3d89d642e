"""Read a JSON array of like objects into columns, block by block, without making a Python object per value.

Keys that are wanted are given beforehand. Equal texts become one number (interning), decimal numbers become
integers of a smaller unit, exactly. One nested object, such as the ``args`` of a trace event, is descended
into; everything else is skipped over. Strings are bounded by their quotes alone, so bytes that are not UTF-8
and raw control characters do no harm.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:

    def bytes_at(data: Any) -> Any:
        """Return the bytes as they are; compiled, a pointer."""
        return data

    room_at = ints_at = longs_at = hashes_at = bytes_at

    def load_u8(p: Any, at: int) -> int:
        """Return eight bytes as a number."""
        return int.from_bytes(p[at : at + 8], "little")

    def same(a: Any, i: int, b: Any, j: int, n: int) -> bool:
        """Return whether two texts are the same."""
        return bytes(a[i : i + n]) == bytes(b[j : j + n])

    def copy(to: Any, at: int, p: Any, i: int, n: int) -> None:
        """Copy bytes."""
        for k in range(n):
            to[at + k] = p[i + k]

    def find_byte(p: Any, at: int, end: int, byte: int) -> int:
        """Return the offset of a byte, -1 where it is not there."""
        return bytes(p[at:end]).find(byte) + at if byte in p[at:end] else -1

    def as_signed(value: int) -> int:
        """Return a uint64 as the int64 of the same bits."""
        return value - (1 << 64) if value >> 63 else value

    def times(a: int, b: int) -> int:
        """Multiply as uint64 does."""
        return int(a) * int(b) & 0xFFFFFFFFFFFFFFFF

    MORE, END, GROW, BAD, GOOD = range(5)
    SKIP, CHARACTER, TOKEN, INTEGER, MILLI, MICRO, IDENTITY, NESTED = range(8)
    AT, ROWS, SPARSE, TEXTS, ARENA, MISTYPED, SATURATED, UNKNOWN = range(8)
    SPACE, QUOTE, BACKSLASH = 0x20, 0x22, 0x5C

# Why a scan stopped (MORE …): the block is used up, the array has ended, a column is full, an object is
# malformed.
# What to make of a value (SKIP …): CHARACTER is the first byte of a string; TOKEN the number of its text,
# quotes removed, other values as they are written; INTEGER an int64, a uint64 wraps around; MILLI and MICRO a
# decimal number times 10^3 or 10^6, rounded half up; a number in quotes counts as a number. IDENTITY is a
# number; another text is -2 less the text's own number. NESTED is the object to descend into;
# its own text is kept as a token where the `raw` table asks for it.
#
# Fields of `state` (AT …): where in the block, rows and sparse values written, texts interned, bytes of their
# arena; values of a wrong type, numbers beyond 64 bits, and keys nobody asked for.

MISSING = -(1 << 63)
"""Value of a dense column where the object does not have the key."""


def hash_of(p, at, n):
    """Return the hash of a text."""
    h: cython.ulonglong = times(n + 1, 0x9E3779B97F4A7C15)
    i: cython.Py_ssize_t = at
    end: cython.Py_ssize_t = at + n
    while i + 8 <= end:
        h = times(h ^ load_u8(p, i), 0x9E3779B97F4A7C15)
        h ^= h >> 32
        i += 8
    if i < end:
        # The block is padded, so that eight bytes can be loaded; the ones beyond the text are shifted out.
        h = times(
            h ^ (load_u8(p, i) & ((cython.cast(cython.ulonglong, 1) << ((end - i) * 8)) - 1)),
            0x9E3779B97F4A7C15,
        )
    return h ^ (h >> 29)


def string_end(p, at, end):
    """Return the offset of the quote that ends a string, -1 where the block ends first."""
    quote: cython.Py_ssize_t = find_byte(p, at, end, QUOTE)
    i: cython.Py_ssize_t
    while quote >= 0:
        i = quote - 1
        while i >= at and p[i] == BACKSLASH:
            i -= 1
        if (quote - i) & 1:
            return quote
        quote = find_byte(p, quote + 1, end, QUOTE)
    return -1


def value_end(p, at, end):
    """Return the offset after a value, -1 where the block ends first."""
    depth: cython.Py_ssize_t = 0
    c: cython.int
    while at < end:
        c = p[at]
        if c == QUOTE:
            at = string_end(p, at + 1, end)
            if at < 0:
                return -1
            if depth == 0:
                return at + 1
        elif c == 0x7B or c == 0x5B:  # { [
            depth += 1
        elif c == 0x7D or c == 0x5D:  # } ]
            if depth == 0:
                return at
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0 and (c == 0x2C or c <= SPACE):
            return at
        at += 1
    return -1


def blank_end(p, at, end):
    """Return where white space and commas end."""
    while at < end and (p[at] <= SPACE or p[at] == 0x2C):
        at += 1
    return at


def space_end(p, at, end):
    """Return where white space ends."""
    while at < end and p[at] <= SPACE:
        at += 1
    return at


def number(p, at, end, scale, out):
    """Parse a decimal number times ten to the ``scale``; return the offset after it, -1 if it is no number.

    ``out[0]`` is the number, ``out[1]`` is 1 where it does not fit and was saturated.
    """
    tenth: cython.ulonglong = 0x1999999999999999  # of the largest uint64
    largest: cython.ulonglong = 0x7FFFFFFFFFFFFFFF
    m: cython.ulonglong = 0
    e: cython.int = scale
    exponent: cython.int = 0
    digits: cython.int = 0
    big: cython.bint = False
    negative: cython.bint = p[at] == 0x2D
    down: cython.bint
    c: cython.int
    out[1] = 0
    if negative or p[at] == 0x2B:
        at += 1
    while at < end and 0x30 <= p[at] <= 0x39:
        c = p[at] - 0x30
        if m > tenth or (m == tenth and c > 5):
            big = True
        else:
            m = m * 10 + c
        digits += 1
        at += 1
    if at < end and p[at] == 0x2E:
        at += 1
        while at < end and 0x30 <= p[at] <= 0x39:
            if m < tenth and e > -18:
                m = m * 10 + (p[at] - 0x30)
                e -= 1
            digits += 1
            at += 1
    if digits == 0:
        return -1
    if at < end and (p[at] == 0x65 or p[at] == 0x45):
        at += 1
        down = at < end and p[at] == 0x2D
        if at < end and (p[at] == 0x2D or p[at] == 0x2B):
            at += 1
        while at < end and 0x30 <= p[at] <= 0x39:
            if exponent < 1000:
                exponent = exponent * 10 + (p[at] - 0x30)
            at += 1
        e = e - exponent if down else e + exponent
    while e > 0 and m > 0:
        if m > tenth // 2:
            big = True
            break
        m *= 10
        e -= 1
    if e < -19:
        m = 0
    while e < -1 and m > 0:
        m //= 10
        e += 1
    if e == -1:
        m = (m + 5) // 10
    if big or (scale > 0 and m >> 63):
        out[1] = 1
        m = largest
    out[0] = -as_signed(m) if negative else as_signed(m)
    return at


class Texts:
    """A table of texts, each with a number.

    Args:
        arena: Their bytes, one after the other.
        ends: Where each ends.
        hashes: Their hashes.
        slots: Hash table, a power of two long; -1 is free.
    """

    def __init__(
        self,
        arena: cython.uchar[::1],
        ends: cython.longlong[::1],
        hashes: cython.ulonglong[::1],
        slots: cython.int[::1],
    ) -> None:
        self.kept = (arena, ends, hashes, slots)
        self.arena = room_at(arena)
        self.ends = longs_at(ends)
        self.hashes = hashes_at(hashes)
        self.slots = ints_at(slots)
        self.mask = slots.shape[0] - 1
        self.room = min(ends.shape[0], slots.shape[0] // 2)
        self.arena_room = arena.shape[0]

    def find(self, p, at, n, h):
        """Return the number of a text, or -1 less the free slot where it would stand."""
        slots: cython.p_int = self.slots
        mask: cython.Py_ssize_t = self.mask
        i: cython.Py_ssize_t = h & mask
        text: cython.Py_ssize_t
        start: cython.Py_ssize_t
        while slots[i] >= 0:
            text = slots[i]
            if self.hashes[text] == h:
                start = self.ends[text - 1] if text > 0 else 0
                if self.ends[text] - start == n and same(self.arena, start, p, at, n):
                    return text
            i = (i + 1) & mask
        return -1 - i

    def intern(self, p, at, n, state):
        """Return the number of a text, a new one where it is not known yet; -1 where it does not fit."""
        h: cython.ulonglong = hash_of(p, at, n)
        text: cython.Py_ssize_t = self.find(p, at, n, h)
        slot: cython.Py_ssize_t = -1 - text
        if text >= 0:
            return text
        if state[TEXTS] >= self.room or state[ARENA] + n > self.arena_room:
            return -1
        text = state[TEXTS]
        copy(self.arena, state[ARENA], p, at, n)
        state[ARENA] += n
        self.ends[text] = state[ARENA]
        self.hashes[text] = h
        self.slots[slot] = text
        state[TEXTS] = text + 1
        return text

    def add(
        self, text: cython.const[cython.uchar][::1], size: cython.Py_ssize_t, state: cython.longlong[::1]
    ) -> int:
        """Intern one text of ``size`` bytes, padded by eight; return its number, -1 where there is no room.

        Args:
            text: The bytes.
            size: Without the padding.
            state: Read and written; see ``AT``.
        """
        return self.intern(bytes_at(text), 0, size, longs_at(state))


def rehash(hashes: cython.ulonglong[::1], count: cython.Py_ssize_t, slots: cython.int[::1]) -> None:
    """Fill an empty (-1) hash table, a power of two long, from the hashes of the texts."""
    mask: cython.Py_ssize_t = slots.shape[0] - 1
    text: cython.Py_ssize_t
    i: cython.Py_ssize_t
    for text in range(count):
        i = hashes[text] & mask
        while slots[i] >= 0:
            i = (i + 1) & mask
        slots[i] = text


class Plan:
    """The fields wanted of each object.

    Args:
        keys: The wanted keys.
        columns: For the outer and the nested level, the column of each key, -1 for none.
        types: Type of each column.
        raw: 256 flags: whether the nested object's text is kept, by the value of the ``CHARACTER`` column.
        skipped: Objects dropped, by the number of the text that dropped them; its length says how many of the
            first texts do so.
        skip_column: Column whose text drops an object, -1 for none.
    """

    def __init__(
        self,
        keys: Texts,
        columns: cython.int[:, ::1],
        types: cython.const[cython.uchar][::1],
        raw: cython.const[cython.uchar][::1],
        skipped: cython.longlong[::1],
        skip_column: cython.Py_ssize_t,
    ) -> None:
        self.keys, self.columns, self.types, self.raw = keys, columns, types, raw
        self.skipped, self.skip_column = skipped, skip_column


class Room:
    """The buffers that values are written to.

    Args:
        dense: i4[columns, rows]: the first columns, for characters and tokens.
        wide: i8[columns, rows]: the next columns, for numbers.
        sparse_row: Object of each value of all other columns, in order.
        sparse_column: Column of each.
        sparse_value: The value.
    """

    def __init__(
        self,
        dense: cython.int[:, ::1],
        wide: cython.longlong[:, ::1],
        sparse_row: cython.int[::1],
        sparse_column: cython.uchar[::1],
        sparse_value: cython.longlong[::1],
    ) -> None:
        self.dense, self.wide = dense, wide
        self.sparse_row, self.sparse_column, self.sparse_value = sparse_row, sparse_column, sparse_value
        self.narrow, self.rows = dense.shape[0], dense.shape[1]
        self.packed = self.narrow + wide.shape[0]
        self.sparse = sparse_row.shape[0]


class Scan:
    """Reads objects of one block.

    Args:
        block: Bytes, padded with eight zeros.
        size: Bytes without the padding.
        final: No bytes follow this block, so an array may end without its bracket.
        plan: What is wanted.
        room: Where it goes.
        texts: Interned texts.
        state: Read and written; see ``AT``.
    """

    def __init__(
        self,
        block: cython.const[cython.uchar][::1],
        size: cython.Py_ssize_t,
        final: cython.bint,
        plan: Plan,
        room: Room,
        texts: Texts,
        state: cython.longlong[::1],
    ) -> None:
        self.kept = (block, state)
        self.p, self.size, self.final = bytes_at(block), size, final
        self.plan, self.keys, self.room, self.texts = plan, plan.keys, room, texts
        self.state = longs_at(state)
        if not cython.compiled:
            self.scratch = [0, 0]

    def run(self) -> int:
        """Read objects from ``state[AT]`` on and return why it stopped."""
        why: cython.int
        with cython.nogil:
            why = self.objects()
        return why

    def objects(self):
        """Read objects until there is a reason to stop."""
        why: cython.int
        begin: cython.Py_ssize_t
        used: cython.longlong
        while True:
            begin = blank_end(self.p, cython.cast(cython.Py_ssize_t, self.state[AT]), self.size)
            self.state[AT] = begin
            if begin >= self.size:
                return MORE
            if self.p[begin] == 0x5D:  # ]
                self.state[AT] = begin + 1
                return END
            if self.p[begin] != 0x7B:  # {
                return BAD
            if self.state[ROWS] >= self.room.rows:
                return GROW
            used = self.state[SPARSE]
            self.at = begin + 1
            why = self.one_object()
            if why != GOOD or self.skip >= 0:
                self.state[SPARSE] = used
            if why != GOOD:
                return why
            self.state[AT] = self.at
            if self.skip >= 0:
                self.plan.skipped[self.skip] += 1
            else:
                self.state[ROWS] += 1

    def one_object(self):
        """Read one object from behind its bracket on; return GOOD, or why it cannot be read whole."""
        why: cython.int
        i: cython.Py_ssize_t
        self.row = cython.cast(cython.Py_ssize_t, self.state[ROWS])
        for i in range(self.room.narrow):
            self.room.dense[i, self.row] = -1
        for i in range(self.room.packed - self.room.narrow):
            self.room.wide[i, self.row] = -0x7FFFFFFFFFFFFFFF - 1
        self.level = self.phase = 0
        self.nested_column = self.skip = -1
        while True:
            self.at = blank_end(self.p, self.at, self.size)
            if self.at >= self.size:
                return MORE
            if self.p[self.at] == 0x7D:  # }
                self.at += 1
                if self.level == 0:
                    return self.keep_nested()
                self.level = 0
                self.nested_end = self.at
            elif self.p[self.at] != QUOTE:
                return BAD
            else:
                why = self.member()
                if why != GOOD:
                    return why

    def member(self):
        """Read a key and its value."""
        p: cython.p_const_uchar = self.p
        size: cython.Py_ssize_t = self.size
        at: cython.Py_ssize_t = self.at + 1
        stop: cython.Py_ssize_t = string_end(p, at, size)
        key: cython.Py_ssize_t
        column: cython.int = -1
        kind: cython.int = SKIP
        if stop < 0:
            return MORE
        key = self.keys.find(p, at, stop - at, hash_of(p, at, stop - at))
        if key >= 0:
            column = self.plan.columns[self.level, key]
        else:
            self.state[UNKNOWN] += 1
        at = space_end(p, stop + 1, size)
        if at < size and p[at] != 0x3A:  # :
            return BAD
        at = space_end(p, at + 1, size)
        if at >= size:
            return MORE
        if column >= 0:
            kind = self.plan.types[column]
        if kind == NESTED and p[at] == 0x7B and self.level == 0:
            self.nested_column = column
            self.nested_at = at
            self.level = 1
            self.at = at + 1
            return GOOD
        stop = self.value_stop(at, kind)
        if stop < 0:
            return MORE
        if kind in (SKIP, NESTED):
            return GOOD
        return self.keep(column, kind, at + 1 if p[at] == QUOTE else at, stop)

    def value_stop(self, at, kind):
        """Return where the text of a value ends, and go on behind it; -1 where the block ends first."""
        stop: cython.Py_ssize_t
        if self.p[at] == QUOTE:
            stop = string_end(self.p, at + 1, self.size)
            self.at = stop + 1
            return stop
        if kind == SKIP or kind >= NESTED or kind <= TOKEN or self.p[at] == 0x7B or self.p[at] == 0x5B:
            stop = value_end(self.p, at, self.size)
            if stop == self.size and not self.final:
                return -1
        else:
            stop = at
            while stop < self.size and self.p[stop] > SPACE and self.p[stop] != 0x2C and self.p[stop] != 0x7D:
                stop += 1
            if stop >= self.size:
                return -1
        self.at = stop
        return stop

    def keep(self, column, kind, at, stop):
        """Keep a value as its column's type says."""
        token: cython.longlong
        end: cython.Py_ssize_t = -1
        if kind == TOKEN:
            token = self.texts.intern(self.p, at, stop - at, self.state)
            if token < 0:
                return GROW
            if column == self.plan.skip_column and token < self.plan.skipped.shape[0]:
                self.skip = token
        elif kind == CHARACTER:
            self.phase = self.p[at] if stop > at else 0
            token = self.phase
        else:
            if stop > at:
                end = number(
                    self.p, at, stop, 3 if kind == MILLI else (6 if kind == MICRO else 0), self.scratch
                )
            if end == stop:
                self.state[SATURATED] += self.scratch[1]
                token = self.scratch[0]
            elif kind == IDENTITY:
                token = self.texts.intern(self.p, at, stop - at, self.state)
                if token < 0:
                    return GROW
                token = -2 - token
            else:
                # Recorders write null for what they do not know, such as the parent of the outermost frame.
                self.state[MISTYPED] += not (stop - at == 4 and self.p[at] == 0x6E and self.p[at + 1] == 0x75)
                return GOOD
        if column < self.room.narrow:
            self.room.dense[column, self.row] = token
        elif column < self.room.packed:
            self.room.wide[column - self.room.narrow, self.row] = token
        else:
            return self.put_sparse(column, token)
        return GOOD

    def keep_nested(self):
        """Keep the text of the nested object where that is wanted."""
        token: cython.longlong
        if self.nested_column < 0 or not self.plan.raw[self.phase]:
            return GOOD
        token = self.texts.intern(self.p, self.nested_at, self.nested_end - self.nested_at, self.state)
        return GROW if token < 0 else self.put_sparse(self.nested_column, token)

    def put_sparse(self, column, token):
        """Keep a value of a column that few objects have."""
        to: cython.Py_ssize_t = self.state[SPARSE]
        if to >= self.room.sparse:
            return GROW
        self.room.sparse_row[to] = self.row
        self.room.sparse_column[to] = column
        self.room.sparse_value[to] = token
        self.state[SPARSE] = to + 1
        return GOOD


def skip_value(block: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> int:
    """Return the offset after the JSON value that begins at an offset, -1 where the block ends first."""
    end: cython.Py_ssize_t
    p: cython.p_const_uchar = bytes_at(block)
    with cython.nogil:
        end = value_end(p, at, size)
    return end
