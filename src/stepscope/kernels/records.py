"""Find the records of an event file in a block of bytes; both checksums of every record are checked.

A record: ``uint64 length | uint32 masked CRC of the length | payload | uint32 masked CRC of the payload``.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    import struct

    import google_crc32c

    # What a scan met where it stopped; FULL is that there was no room for more.
    GOOD, INCOMPLETE, BAD_HEADER, BAD_PAYLOAD, FULL = range(5)
    OVERHEAD = 16  # bytes of a record beside its payload

    def _begin(data: Any) -> Any:
        return data

    def _load_u8(p: Any, at: int) -> int:
        return int(struct.unpack_from("<Q", p, at)[0])

    def _load_u4(p: Any, at: int) -> int:
        return int(struct.unpack_from("<I", p, at)[0])

    def _masked_crc32c(p: Any, n: int) -> int:
        crc: int = google_crc32c.value(bytes(p[:n]))
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    def _check(p: Any, at: int, size: int) -> int:
        if size - at < 12:
            return INCOMPLETE
        if _masked_crc32c(p[at : at + 8], 8) != _load_u4(p, at + 8):
            return BAD_HEADER
        length = _load_u8(p, at)
        if size - at < OVERHEAD or length > size - at - OVERHEAD:
            return INCOMPLETE
        end = at + 12 + length
        return GOOD if _masked_crc32c(p[at + 12 : end], length) == _load_u4(p, end) else BAD_PAYLOAD

    def _crc_setup(by_table: bool) -> bytes:
        return b"python"


def choose(*, by_table: bool = False) -> str:
    """Choose how checksums are computed and return its name: sse4.2, armv8, table, or python if not compiled.

    Importing this module chooses the best; ``by_table`` is for comparison.
    """
    return _crc_setup(by_table).decode()


def checksum(data: cython.const[cython.uchar][::1]) -> int:
    """Return the masked CRC-32C of some bytes."""
    return _masked_crc32c(_begin(data), len(data))


def scan(
    data: cython.const[cython.uchar][::1], starts: cython.longlong[::1], lengths: cython.longlong[::1]
) -> tuple[int, int, int]:
    """Find whole records from the first byte on.

    Args:
        data: Begins with a record.
        starts: Filled with the offset of each payload.
        lengths: Filled with its bytes.

    Returns:
        Number of records, the offset after the last one, and what is found there: INCOMPLETE, also at the
            very end,
        BAD_HEADER, BAD_PAYLOAD, or FULL where there was no room for more.
    """
    size: cython.Py_ssize_t = len(data)
    room: cython.Py_ssize_t = len(starts)
    at: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t
    state: cython.int
    p: cython.p_const_uchar = _begin(data)
    with cython.nogil:
        while True:
            state = _check(p, at, size)
            if state != GOOD:
                break
            if count == room:
                state = FULL
                break
            length = _load_u8(p, at)
            starts[count] = at + 12
            lengths[count] = length
            count += 1
            at += OVERHEAD + length
    return count, at, state


def find(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, available: cython.longlong) -> int:
    """Return the offset of the first header of a record at or after an offset, -1 where there is none.

    The caller has to check that a record with a valid checksum follows: in data made to contain many headers,
    one record may lie within another.

    Args:
        data: Some bytes of a file.
        at: Where to begin.
        available: Bytes of the file from the first of the data on; a record does not go beyond.
    """
    size: cython.Py_ssize_t = len(data)
    length: cython.ulonglong
    p: cython.p_const_uchar = _begin(data)
    with cython.nogil:
        while at + 12 <= size and at + OVERHEAD <= available:
            length = _load_u8(p, at)
            if length == 0 and _load_u4(p, at + 8) == 0:  # zeros, of which there may be many
                while at + 28 <= size and _load_u8(p, at + 12) == 0:
                    at += 8
            elif (
                length <= cython.cast(cython.ulonglong, available - at - OVERHEAD)
                and _check(p, at, at + 12) == INCOMPLETE
            ):
                break
            at += 1
        else:
            at = -1
    return at


def zero_run(data: cython.const[cython.uchar][::1], least: cython.Py_ssize_t) -> bool:
    """Return whether that many zero bytes lie in a row."""
    run: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = len(data)
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(size):
            run = 0 if data[i] else run + 1
            if run == least:
                break
    return run == least


choose()
