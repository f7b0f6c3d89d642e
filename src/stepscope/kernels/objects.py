"""Read a JSON array of like objects into columns, block by block, without making a Python object per value.

Keys that are wanted are given beforehand. Equal texts become one number (interning), decimal numbers become
integers of a smaller unit, exactly. One nested object, such as the ``args`` of a trace event, is descended
into; everything else is skipped over. Strings are bounded by their quotes alone, so bytes that are no UTF-8
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

    MORE, END, GROW, BAD = range(4)
    SKIP, CHARACTER, TOKEN, INTEGER, MILLI, MICRO, IDENTITY, NESTED = range(8)
    AT, ROWS, SPARSE, TEXTS, ARENA, MISTYPED, SATURATED, UNKNOWN = range(8)
    SPACE, QUOTE, BACKSLASH = 0x20, 0x22, 0x5C

# Why a scan stopped (MORE …): the block is used up, the array has ended, a column is full, an object is
# malformed.
# What to make of a value (SKIP …): CHARACTER is the first byte of a string; TOKEN the number of its text,
# quotes removed, other values as they are written; INTEGER an int64, a uint64 wraps around; MILLI and MICRO a
# decimal number times 10^3 or 10^6, rounded half up; a number in quotes counts as a number. IDENTITY is a
# number, or -2 less the number of a text that is none. NESTED is the object to descend into;
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


def number(p, at, end, scale, out):
    """Parse a decimal number times ten to the ``scale``; return the offset after it, -1 if it is none.

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


def intern(p, at, n, arena, ends, hashes, slots, mask, room, arena_room, state, insert):
    """Return the number of a text, -1 where it is unknown and not to be inserted or does not fit."""
    h: cython.ulonglong = hash_of(p, at, n)
    i: cython.Py_ssize_t = h & mask
    text: cython.Py_ssize_t
    start: cython.Py_ssize_t
    while slots[i] >= 0:
        text = slots[i]
        if hashes[text] == h:
            start = ends[text - 1] if text > 0 else 0
            if ends[text] - start == n and same(arena, start, p, at, n):
                return text
        i = (i + 1) & mask
    if not insert or state[TEXTS] >= room or state[ARENA] + n > arena_room:
        return -1
    text = state[TEXTS]
    copy(arena, state[ARENA], p, at, n)
    state[ARENA] += n
    ends[text] = state[ARENA]
    hashes[text] = h
    slots[i] = text
    state[TEXTS] = text + 1
    return text


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


def add(
    text: cython.const[cython.uchar][::1],
    size: cython.Py_ssize_t,
    arena: cython.uchar[::1],
    ends: cython.longlong[::1],
    hashes: cython.ulonglong[::1],
    slots: cython.int[::1],
    state: cython.longlong[::1],
) -> int:
    """Intern one text of ``size`` bytes, padded by eight; return its number, -1 where there is no room."""
    return intern(
        bytes_at(text), 0, size, room_at(arena), longs_at(ends), hashes_at(hashes), ints_at(slots),
        slots.shape[0] - 1, ends.shape[0], arena.shape[0], longs_at(state), True,
    )  # fmt: skip


def scan(
    block: cython.const[cython.uchar][::1],
    size: cython.Py_ssize_t,
    final: cython.bint,
    key_arena: cython.uchar[::1],
    key_ends: cython.longlong[::1],
    key_hashes: cython.ulonglong[::1],
    key_slots: cython.int[::1],
    columns: cython.int[:, ::1],
    types: cython.const[cython.uchar][::1],
    raw: cython.const[cython.uchar][::1],
    skipped: cython.longlong[::1],
    skip_column: cython.Py_ssize_t,
    dense: cython.int[:, ::1],
    wide: cython.longlong[:, ::1],
    sparse_row: cython.int[::1],
    sparse_column: cython.uchar[::1],
    sparse_value: cython.longlong[::1],
    arena: cython.uchar[::1],
    ends: cython.longlong[::1],
    hashes: cython.ulonglong[::1],
    slots: cython.int[::1],
    state: cython.longlong[::1],
) -> int:
    """Read objects from ``state[AT]`` on and return why it stopped.

    Args:
        block: Bytes, padded with eight zeros.
        size: Bytes without the padding.
        final: No bytes follow this block, so an array may end without its bracket.
        key_arena: Texts of the wanted keys, a table as of ``add``.
        key_ends: Where each ends.
        key_hashes: Their hashes.
        key_slots: Their hash table.
        columns: For the outer and the nested level, the column of each key, -1 for none.
        types: Type of each column.
        raw: 256 flags: whether the nested object's text is kept, by the value of the ``CHARACTER`` column.
        skipped: Objects dropped, by the number of the text that dropped them; its length says how many of the
            first
            texts do so.
        skip_column: Column whose text drops an object, -1 for none.
        dense: i4[columns, rows]: the first columns, for characters and tokens.
        wide: i8[columns, rows]: the next columns, for numbers.
        sparse_row: Object of each value of all other columns, in order.
        sparse_column: Column of each.
        sparse_value: The value.
        arena: Interned texts.
        ends: Where each ends.
        hashes: Their hashes.
        slots: Their hash table.
        state: Read and written; see ``AT``.
    """
    p: cython.p_const_uchar = bytes_at(block)
    kp: cython.p_uchar = room_at(key_arena)
    ke: cython.p_longlong = longs_at(key_ends)
    kh: cython.p_ulonglong = hashes_at(key_hashes)
    ks: cython.p_int = ints_at(key_slots)
    key_mask: cython.Py_ssize_t = key_slots.shape[0] - 1
    tp: cython.p_uchar = room_at(arena)
    te: cython.p_longlong = longs_at(ends)
    th: cython.p_ulonglong = hashes_at(hashes)
    ts: cython.p_int = ints_at(slots)
    st: cython.p_longlong = longs_at(state)
    mask: cython.Py_ssize_t = slots.shape[0] - 1
    text_room: cython.Py_ssize_t = min(ends.shape[0], slots.shape[0] // 2)
    arena_room: cython.Py_ssize_t = arena.shape[0]
    narrow: cython.Py_ssize_t = dense.shape[0]
    packed: cython.Py_ssize_t = narrow + wide.shape[0]
    row_room: cython.Py_ssize_t = dense.shape[1]
    sparse_room: cython.Py_ssize_t = sparse_row.shape[0]
    skips: cython.Py_ssize_t = skipped.shape[0]

    at: cython.Py_ssize_t = st[AT]
    row: cython.Py_ssize_t = st[ROWS]
    used: cython.Py_ssize_t = st[SPARSE]
    begin: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    key: cython.Py_ssize_t
    value: cython.Py_ssize_t
    nested_at: cython.Py_ssize_t
    nested_end: cython.Py_ssize_t
    nested_column: cython.int
    column: cython.int
    kind: cython.int
    level: cython.int
    phase: cython.int
    token: cython.longlong
    why: cython.int = MORE
    done: cython.bint
    skip: cython.Py_ssize_t
    i: cython.Py_ssize_t
    missing: cython.longlong = -0x7FFFFFFFFFFFFFFF - 1
    scratch: cython.longlong[2]
    if not cython.compiled:
        scratch = [0, 0]
        at, row, used = int(at), int(row), int(used)
    with cython.nogil:
        while True:
            while at < size and (p[at] <= SPACE or p[at] == 0x2C):
                at += 1
            if at >= size:
                break
            begin = at
            if p[at] == 0x5D:  # ]
                at += 1
                why = END
                break
            if p[at] != 0x7B:
                why = BAD
                break
            if row >= row_room:
                why = GROW
                break
            for i in range(narrow):
                dense[i, row] = -1
            for i in range(packed - narrow):
                wide[i, row] = missing
            st[SPARSE] = used
            at += 1
            level = 0
            phase = 0
            nested_column = -1
            nested_at = 0
            nested_end = 0
            skip = -1
            done = False
            while True:
                # --- a key, or the end of the object ---
                while at < size and (p[at] <= SPACE or p[at] == 0x2C):
                    at += 1
                if at >= size:
                    break
                if p[at] == 0x7D:  # }
                    at += 1
                    if level == 1:
                        level = 0
                        nested_end = at
                        continue
                    done = True
                    break
                if p[at] != QUOTE:
                    why = BAD
                    break
                stop = string_end(p, at + 1, size)
                if stop < 0:
                    break
                key = intern(p, at + 1, stop - at - 1, kp, ke, kh, ks, key_mask, 0, 0, st, False)
                column = -1
                if key >= 0:
                    column = columns[level, key]
                else:
                    st[UNKNOWN] += 1
                at = stop + 1
                while at < size and p[at] <= SPACE:
                    at += 1
                if at >= size:
                    break
                if p[at] != 0x3A:  # :
                    why = BAD
                    break
                at += 1
                while at < size and p[at] <= SPACE:
                    at += 1
                if at >= size:
                    break
                # --- its value ---
                kind = types[column] if column >= 0 else SKIP
                if kind == NESTED and p[at] == 0x7B and level == 0:
                    nested_column = column
                    nested_at = at
                    level = 1
                    at += 1
                    continue
                value = at
                if p[at] == QUOTE:
                    stop = string_end(p, at + 1, size)
                    if stop < 0:
                        at = size
                        break
                    value = at + 1
                    at = stop + 1
                elif kind == SKIP or kind >= NESTED or kind <= TOKEN or p[at] == 0x7B or p[at] == 0x5B:
                    stop = value_end(p, at, size)
                    if stop < 0 or (stop == size and not final):
                        at = size
                        break
                    at = stop
                else:
                    stop = at
                    while stop < size and p[stop] > SPACE and p[stop] != 0x2C and p[stop] != 0x7D:
                        stop += 1
                    if stop >= size:
                        at = size
                        break
                    at = stop
                if kind in (SKIP, NESTED):
                    continue
                # --- what to keep of it ---
                if kind == TOKEN:
                    token = intern(
                        p, value, stop - value, tp, te, th, ts, mask, text_room, arena_room, st, True
                    )
                    if token < 0:
                        why = GROW
                        break
                    if column == skip_column and token < skips:
                        skip = token
                elif kind == CHARACTER:
                    phase = p[value] if stop > value else 0
                    token = phase
                else:
                    i = -1
                    if stop > value:
                        i = number(
                            p, value, stop, 3 if kind == MILLI else (6 if kind == MICRO else 0), scratch
                        )
                    if i != stop and kind == IDENTITY:
                        scratch[0] = intern(
                            p, value, stop - value, tp, te, th, ts, mask, text_room, arena_room, st, True
                        )
                        if scratch[0] < 0:
                            why = GROW
                            break
                        scratch[0] = -2 - scratch[0]
                        scratch[1] = 0
                    elif i != stop:
                        st[MISTYPED] += 1
                        continue
                    st[SATURATED] += scratch[1]
                    token = scratch[0]
                if column < narrow:
                    dense[column, row] = token
                elif column < packed:
                    wide[column - narrow, row] = token
                else:
                    if st[SPARSE] >= sparse_room:
                        why = GROW
                        break
                    sparse_row[st[SPARSE]] = row
                    sparse_column[st[SPARSE]] = column
                    sparse_value[st[SPARSE]] = token
                    st[SPARSE] += 1
            if done and nested_column >= 0 and raw[phase]:
                token = intern(
                    p,
                    nested_at,
                    nested_end - nested_at,
                    tp,
                    te,
                    th,
                    ts,
                    mask,
                    text_room,
                    arena_room,
                    st,
                    True,
                )
                if token < 0 or st[SPARSE] >= sparse_room:
                    why = GROW
                else:
                    sparse_row[st[SPARSE]] = row
                    sparse_column[st[SPARSE]] = nested_column
                    sparse_value[st[SPARSE]] = token
                    st[SPARSE] += 1
            if why != MORE or not done:
                at = begin
                break
            if skip >= 0:
                skipped[skip] += 1
                continue
            used = st[SPARSE]
            row += 1
        st[AT] = at
        st[ROWS] = row
        st[SPARSE] = used
    return why


def skip_value(block: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> int:
    """Return the offset after the JSON value that begins at an offset, -1 where the block ends first."""
    end: cython.Py_ssize_t
    p: cython.p_const_uchar = bytes_at(block)
    with cython.nogil:
        end = value_end(p, at, size)
    return end
