"""Encode scalars as records of an event file, and histograms as the values of an event.

Neighbouring points with the same wall time and step become one event with several values: one call logged
them.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    import struct

    from stepscope.kernels import records

    def begin(data: Any) -> Any:
        return data

    room_at = begin

    def put_u8(p: Any, at: int, value: int) -> None:
        struct.pack_into("<Q", p, at, value)

    def put_f8(p: Any, at: int, value: float) -> None:
        struct.pack_into("<d", p, at, value)

    def put_f4(p: Any, at: int, value: float) -> None:
        struct.pack_into("<f", p, at, value)

    def put_bytes(p: Any, at: int, source: Any, begin: int, n: int) -> None:
        p[at : at + n] = source[begin : begin + n]

    def put_crc(p: Any, at: int, begin: int, n: int) -> None:
        struct.pack_into("<I", p, at, records.checksum(bytes(p[begin : begin + n])))

    def crc_setup() -> bytes:
        return b"python"

    def bits(step: int) -> int:
        return step & 0xFFFF_FFFF_FFFF_FFFF

    def fits(value: float) -> bool:
        try:
            (narrow,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            return False
        return narrow == value or not abs(narrow) < 2.0**-126


IMPLEMENTATION = crc_setup().decode()
"""How checksums are computed: sse4.2, armv8, table, or python where this module is not compiled."""


@cython.locals(
    after=cython.Py_ssize_t, i=cython.Py_ssize_t, first=cython.Py_ssize_t, length=cython.Py_ssize_t,
    summary=cython.Py_ssize_t, start=cython.Py_ssize_t, p=cython.p_uchar, names=cython.p_const_uchar,
)  # fmt: skip
def scalars(
    tags: cython.const[cython.int][::1],
    values: cython.const[cython.double][::1],
    steps: cython.const[cython.longlong][::1],
    walls: cython.const[cython.double][::1],
    fields: cython.const[cython.uchar][::1],
    ends: cython.const[cython.int][::1],
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Encode points in their order, as far as there is room.

    It stops where ``out`` is full, and at a finite value that is beyond the range of float32, or so small
    that a float32 has fewer digits for it, or none.

    Args:
        tags: Number of each point's tag.
        values: Written as float32.
        steps: Step of each point.
        walls: Wall time in seconds.
        fields: For each tag the bytes of its Summary.Value that precede the float's four, all in a row.
        ends: Where each tag's part of ``fields`` ends.
        out: Filled with records.

    Returns:
        Number of points encoded, of bytes filled, and of points whose step differs from the one before.
    """
    n: cython.Py_ssize_t = len(values)
    room: cython.Py_ssize_t = len(out)
    done: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    changes: cython.Py_ssize_t = 0
    if n == 0 or room == 0 or len(fields) == 0:
        return 0, 0, 0
    p, names = room_at(out), begin(fields)
    with cython.nogil:
        while done < n and fits(values[done]):
            after = done + 1
            while (
                after < n
                and walls[after] == walls[done]
                and steps[after] == steps[done]
                and fits(values[after])
            ):
                after += 1
            summary = 0
            for i in range(done, after):
                length = ends[tags[i]] - (ends[tags[i] - 1] if tags[i] else 0) + 4
                summary += 1 + _varint_size(length) + length
            length = 10 + _varint_size(summary) + summary
            if steps[done]:
                length += 1 + _varint_size(bits(steps[done]))
            if at + length + 16 > room:
                break
            put_u8(p, at, length)
            put_crc(p, at + 8, at, 8)
            start = at = at + 12
            p[at] = 0x09  # Event.wall_time
            put_f8(p, at + 1, walls[done])
            at += 9
            if steps[done]:
                p[at] = 0x10  # Event.step
                at = _put_varint(p, at + 1, bits(steps[done]))
            p[at] = 0x2A  # Event.summary
            at = _put_varint(p, at + 1, summary)
            for i in range(done, after):
                first = ends[tags[i] - 1] if tags[i] else 0
                length = ends[tags[i]] - first
                p[at] = 0x0A  # Summary.value
                at = _put_varint(p, at + 1, length + 4)
                put_bytes(p, at, names, first, length)
                put_f4(p, at + length, values[i])
                at += length + 4
            put_crc(p, at, start, at - start)
            at += 4
            changes += done > 0 and steps[done] != steps[done - 1]
            done = after
    return done, at, changes


@cython.locals(
    i=cython.Py_ssize_t, j=cython.Py_ssize_t, first=cython.Py_ssize_t, last=cython.Py_ssize_t,
    rows=cython.Py_ssize_t, name=cython.Py_ssize_t, content=cython.Py_ssize_t, shape=cython.Py_ssize_t,
    tensor=cython.Py_ssize_t, p=cython.p_uchar, names=cython.p_const_uchar, facts=cython.p_const_uchar,
)  # fmt: skip
def histograms(
    counts: cython.const[cython.longlong][:, ::1],
    edges: cython.const[cython.double][::1],
    tags: cython.const[cython.uchar][::1],
    ends: cython.const[cython.int][::1],
    metadata: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> int:
    """Encode histograms as values of a summary; empty ones are left out.

    A histogram is a tensor of left edge, right edge and count: the span that holds counts, each bucket with
    a count a row, each empty stretch between them one.

    Args:
        counts: [n, m] counts by bucket, those beyond ``edges`` are ignored.
        edges: [k + 1], rising.
        tags: For each histogram Value.tag as it is encoded, all in a row.
        ends: [n] where each one's part of ``tags`` ends.
        metadata: Value.metadata as it is encoded, of all.
        out: Filled; 48 bytes for each bucket that counts, and for each histogram 64 and those of its tag
            and of ``metadata``, are enough.

    Returns:
        Number of bytes filled.
    """
    n: cython.Py_ssize_t = len(ends)
    k: cython.Py_ssize_t = len(edges) - 1
    more: cython.Py_ssize_t = len(metadata)
    at: cython.Py_ssize_t = 0
    if n == 0 or len(out) == 0:
        return 0
    p, names, facts = room_at(out), begin(tags), begin(metadata)
    with cython.nogil:
        for i in range(n):
            first, last, rows = k, -1, 0
            for j in range(k):
                if counts[i, j] > 0:
                    if first == k:
                        first = j
                    elif counts[i, j - 1] == 0:
                        rows += 1  # the empty stretch before it
                    rows, last = rows + 1, j
            if last < 0:
                continue
            name = ends[i - 1] if i else 0
            content = 24 * rows
            shape = 2 + 1 + _varint_size(rows) + 4
            tensor = 2 + 2 + shape + 1 + _varint_size(content) + content
            p[at] = 0x0A  # Summary.value
            at = _put_varint(p, at + 1, ends[i] - name + 1 + _varint_size(tensor) + tensor + more)
            put_bytes(p, at, names, name, ends[i] - name)
            at += ends[i] - name
            p[at] = 0x42  # Value.tensor
            at = _put_varint(p, at + 1, tensor)
            p[at], p[at + 1] = 0x08, 2  # Tensor.dtype: DT_DOUBLE
            p[at + 2], p[at + 3] = 0x12, shape  # Tensor.tensor_shape
            p[at + 4], p[at + 5], p[at + 6] = 0x12, 1 + _varint_size(rows), 0x08  # Shape.dim
            at = _put_varint(p, at + 7, rows)
            p[at], p[at + 1], p[at + 2], p[at + 3] = 0x12, 2, 0x08, 3
            p[at + 4] = 0x22  # Tensor.tensor_content
            at = _put_varint(p, at + 5, content)
            j = first
            while j <= last:
                put_f8(p, at, edges[j])
                put_f8(p, at + 16, counts[i, j])
                if counts[i, j] == 0:
                    while counts[i, j + 1] == 0:
                        j += 1
                j += 1
                put_f8(p, at + 8, edges[j])
                at += 24
            put_bytes(p, at, facts, 0, more)
            at += more
    return at


def _varint_size(value):
    n: cython.Py_ssize_t = 1
    while value > 127:
        value >>= 7
        n += 1
    return n


def _put_varint(p, at, value):
    while value > 127:
        p[at] = value & 127 | 128
        value >>= 7
        at += 1
    p[at] = value
    return at + 1
