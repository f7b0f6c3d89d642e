# cython: boundscheck=False, wraparound=False
"""Split payloads that begin with a head of a fixed size, followed by rows."""

from __future__ import annotations

import cython


def split(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    heads: cython.uchar[:, ::1],
    body: cython.uchar[::1],
) -> None:
    """Copy the heads into one table and the bytes after them into one array.

    Args:
        data: Where the payloads lie.
        starts: Their offsets.
        lengths: Their lengths in bytes, at least that of a head.
        heads: Filled; a row per payload, as long as a head.
        body: Filled; as long as all payloads without their heads.
    """
    size: cython.Py_ssize_t = heads.shape[1]
    out: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    at: cython.Py_ssize_t
    rest: cython.Py_ssize_t
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            rest = lengths[i] - size
            for k in range(size):
                heads[i, k] = data[at + k]
            at += size
            for k in range(rest):
                body[out + k] = data[at + k]
            out += rest
