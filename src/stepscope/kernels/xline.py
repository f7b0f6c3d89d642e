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
    rooms: cython.Py_ssize_t = metadata.shape[0]
    stat_room: cython.Py_ssize_t = stat_row.shape[0]
    known: cython.Py_ssize_t = wanted.shape[0]
    at: cython.Py_ssize_t = begin
    rows: cython.Py_ssize_t = 0
    stats: cython.Py_ssize_t = 0
    event_end: cython.Py_ssize_t
    stat_end: cython.Py_ssize_t
    level: cython.int = 0
    number: cython.longlong
    wire: cython.longlong
    value: cython.longlong
    place: cython.longlong
    size: cython.longlong
    name: cython.longlong = -1
    kind: cython.int = 0
    kept: cython.longlong = 0
    kept_size: cython.longlong = 0
    whole: cython.bint = True
    scratch: cython.longlong[1]
    if not cython.compiled:
        scratch = [0]
    event_end = end
    stat_end = end
    with cython.nogil:
        while True:
            if level == 2 and at >= stat_end:
                if 0 <= name < known and kind > 0 and wanted[name]:
                    if stats < stat_room:
                        stat_row[stats] = rows
                        stat_name[stats] = name
                        stat_kind[stats] = kind
                        stat_value[stats] = kept
                        stat_bytes[stats] = kept_size
                    stats += 1
                level = 1
                continue
            if level == 1 and at >= event_end:
                rows += 1
                level = 0
                continue
            if at >= end:
                break
            at = varint(p, at, end, scratch)
            if at < 0:
                whole = False
                break
            number = scratch[0] >> 3
            wire = scratch[0] & 7
            value = 0
            place = 0
            size = 0
            if wire == 0:
                at = varint(p, at, end, scratch)
                if at < 0:
                    whole = False
                    break
                value = scratch[0]
            elif wire == 1:
                if at + 8 > end:
                    whole = False
                    break
                value = load_i8(p, at)
                at += 8
            elif wire == 5:
                at += 4
            elif wire == 2:
                at = varint(p, at, end, scratch)
                size = scratch[0]
                if at < 0 or size < 0 or size > end - at:
                    whole = False
                    break
                place = at
                if level == 0 and number == field:
                    level = 1
                    event_end = at + size
                    if rows < rooms:
                        metadata[rows] = 0
                        offset[rows] = 0
                        duration[rows] = 0
                        occurrences[rows] = 0
                    continue
                if level == 1 and number == 4:
                    level = 2
                    stat_end = at + size
                    name = -1
                    kind = 0
                    continue
                at += size
            else:
                whole = False
                break
            if level == 1 and rows < rooms:
                if number == 1:
                    metadata[rows] = value
                elif number == 2:
                    offset[rows] = value
                elif number == 3:
                    duration[rows] = value
                elif number == 5:
                    occurrences[rows] = value
            elif level == 2:
                if number == 1:
                    name = value
                elif 2 <= number <= 8:
                    kind = number
                    kept = place if wire == 2 else value
                    kept_size = size
    return rows, stats, whole


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
