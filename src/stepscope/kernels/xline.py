"""Read the events of a protobuf message that repeats them, as an XPlane's line does, into columns.

An event is ``metadata_id = 1, offset = 2, duration = 3, stats = 4, occurrences = 5``, a stat is ``metadata_id
= 1`` and one value of field 2 to 7.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:

    def bytes_at(data: Any) -> Any:
        """Return the bytes as they are; compiled, a pointer."""
        return data

    def load_i8(p: Any, at: int) -> int:
        """Return the int64 at an offset."""
        return int.from_bytes(p[at : at + 8], "little", signed=True)

    def as_signed(value: int) -> int:
        """Return a uint64 as the int64 of the same bits."""
        return value - (1 << 64) if value >> 63 else value


def varint(p, at, end, out):  # type: ignore[no-untyped-def]
    """Parse a varint into ``out[0]``; return the offset after it, -1 where it is cut short."""
    value: cython.ulonglong = 0
    shift: cython.int = 0
    while at < end and shift < 70:
        value |= cython.cast(cython.ulonglong, p[at] & 0x7F) << shift
        at += 1
        if p[at - 1] < 0x80:
            out[0] = as_signed(value if cython.compiled else value & 0xFFFFFFFFFFFFFFFF)
            return at
        shift += 7
    return -1


def parse(p, at, end, out):  # type: ignore[no-untyped-def]
    """Parse a field into ``out``: number, wire type, value, and of bytes where they begin and how many.

    Return the offset after it, that of the bytes where it has some, -1 where it is cut short.
    """
    at = varint(p, at, end, out)
    if at < 0:
        return -1
    key, wire, value, place, size = out[0], out[0] & 7, 0, 0, 0
    if wire == 0:
        at = varint(p, at, end, out)
        if at < 0:
            return -1
        value = out[0]
    elif wire == 1:
        if at + 8 > end:
            return -1
        value = load_i8(p, at)
        at += 8
    elif wire == 5:
        at += 4
    elif wire == 2:
        at = varint(p, at, end, out)
        size = out[0]
        if at < 0 or size < 0 or size > end - at:
            return -1
        place = at
    else:
        return -1
    out[0], out[1], out[2], out[3], out[4] = key >> 3, wire, value, place, size
    return at


def parse_stat(p, at, stop, end, out):  # type: ignore[no-untyped-def]
    """Parse a stat into ``out``: metadata id, field number of the value, the value, its bytes.

    The id is -1 and the number 0 where there is none. Return the offset after it, -1 where it is cut short.
    """
    parsed: cython.longlong[5]
    if not cython.compiled:
        parsed = [0] * 5
    out[0], out[1], out[2], out[3] = -1, 0, 0, 0
    while at < stop:
        at = parse(p, at, end, parsed)
        if at < 0:
            return -1
        at += parsed[4]
        if parsed[0] == 1:
            out[0] = parsed[2]
        elif 2 <= parsed[0] <= 8:
            out[1], out[3] = parsed[0], parsed[4]
            out[2] = parsed[3] if parsed[1] == 2 else parsed[2]
    return at


@cython.locals(stop=cython.Py_ssize_t, number=cython.longlong)
def events(
    data: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    field: cython.longlong,
    wanted: cython.const[cython.uchar][::1],
    metadata: cython.longlong[::1],
    offset: cython.longlong[::1],
    duration: cython.longlong[::1],
    occurrences: cython.longlong[::1],
    stat_row: cython.int[::1],
    stat_name: cython.int[::1],
    stat_kind: cython.uchar[::1],
    stat_value: cython.longlong[::1],
    stat_bytes: cython.longlong[::1],
) -> tuple[int, int, bool]:
    """Read the events of the message in ``data[begin:end]``; what does not fit its column is only counted.

    Args:
        data: Bytes, padded with eight zeros.
        begin: Start of the message.
        end: End of the message.
        field: Number of the field that is an event.
        wanted: Whether to keep a stat, by its metadata id; larger ids are not kept.
        metadata: Metadata id of each event.
        offset: Field 2 of each event.
        duration: Field 3 of each event.
        occurrences: Field 5 of each event, 0 where it is not there.
        stat_row: Event of each stat.
        stat_name: Metadata id of each stat.
        stat_kind: Field number of each stat's value.
        stat_value: The value: an integer, a double's bits, or where its text begins in ``data``.
        stat_bytes: Bytes of the text.

    Returns:
        Number of events, number of stats, and whether the message was whole.
    """
    p: cython.p_const_uchar = bytes_at(data)
    at: cython.Py_ssize_t = begin
    rows: cython.Py_ssize_t = 0
    stats: cython.Py_ssize_t = 0
    parsed: cython.longlong[5]
    stat: cython.longlong[4]
    if not cython.compiled:
        parsed, stat = [0] * 5, [0] * 4
    with cython.nogil:
        while 0 <= at < end:
            at = parse(p, at, end, parsed)
            if at < 0 or parsed[1] != 2:
                continue
            stop = at + parsed[4]
            if parsed[0] != field:
                at = stop
                continue
            if rows < metadata.shape[0]:
                metadata[rows] = offset[rows] = duration[rows] = occurrences[rows] = 0
            while 0 <= at < stop:
                at = parse(p, at, end, parsed)
                number = parsed[0]
                if at >= 0 and number == 4 and parsed[1] == 2:
                    at = parse_stat(p, at, at + parsed[4], end, stat)
                    if at >= 0 and 0 <= stat[0] < wanted.shape[0] and stat[1] > 0 and wanted[stat[0]]:
                        if stats < stat_row.shape[0]:
                            stat_row[stats], stat_name[stats], stat_kind[stats] = rows, stat[0], stat[1]
                            stat_value[stats], stat_bytes[stats] = stat[2], stat[3]
                        stats += 1
                elif at >= 0:
                    at += parsed[4]
                    if rows < metadata.shape[0]:
                        if number == 1:
                            metadata[rows] = parsed[2]
                        elif number == 2:
                            offset[rows] = parsed[2]
                        elif number == 3:
                            duration[rows] = parsed[2]
                        elif number == 5:
                            occurrences[rows] = parsed[2]
            if at >= 0:
                rows += 1
    return rows, stats, at >= 0


def skip(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    field: cython.longlong,
) -> int:
    """Return the offset of the first field of another number, ``end`` for none, -1 where one is cut."""
    p: cython.p_const_uchar = bytes_at(data)
    after: cython.Py_ssize_t
    scratch: cython.longlong[1]
    if not cython.compiled:
        scratch = [0]
    with cython.nogil:
        while 0 <= at < end:
            after = varint(p, at, end, scratch)
            if after >= 0 and scratch[0] != (field << 3 | 2):
                break
            if after >= 0:
                after = varint(p, after, end, scratch)
            if after < 0 or scratch[0] < 0 or scratch[0] > end - after:
                at = -1
                break
            at = after + scratch[0]
    return at
