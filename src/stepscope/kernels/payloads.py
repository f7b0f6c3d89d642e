# cython: boundscheck=False, wraparound=False
"""Texts of tensors, packed with a head of a fixed size and rows after it."""

from __future__ import annotations

import cython


def texts(
    data: cython.const[cython.uchar][::1], starts: cython.longlong[::1], lengths: cython.longlong[::1]
) -> None:
    """Narrow tensors of one text to the text.

    Args:
        data: Where the encoded tensors lie.
        starts: Their offsets; changed to those of the texts.
        lengths: Their lengths in bytes; changed to those of the texts, -1 of any other tensor.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.longlong
    shift: cython.int
    key: cython.int
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = at + lengths[i]
            lengths[i] = -1
            while at < end:
                key = data[at]
                at += 1
                size = 0
                shift = 0
                while at < end and data[at] > 127 and shift < 56:
                    size |= cython.cast(cython.longlong, data[at] & 127) << shift
                    shift += 7
                    at += 1
                if at < end:
                    size |= cython.cast(cython.longlong, data[at] & 127) << shift
                    at += 1
                    if key == 0x08:  # Tensor.dtype
                        continue
                    if key == 0x42 and size <= end - at:  # Tensor.string_val
                        starts[i] = at
                        lengths[i] = size
                    if (key == 0x42 or key == 0x12) and size <= end - at:  # Tensor.tensor_shape
                        at += size
                        continue
                lengths[i] = -1
                break


def split(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    heads: cython.uchar[:, ::1],
    rows: cython.uchar[:, ::1],
    tails: cython.uchar[:, ::1],
) -> None:
    """Split texts into their heads, and the rows behind these into their beginnings and their tails.

    Args:
        data: Where the texts lie.
        starts: Their offsets.
        lengths: Their lengths in bytes: a head and whole rows.
        heads: Filled; one of each text.
        rows: Filled; one of each row, of all texts.
        tails: Filled; one of each row.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = at + lengths[i]
            for k in range(heads.shape[1]):
                heads[i, k] = data[at + k]
            at += heads.shape[1]
            while at < end:
                for k in range(rows.shape[1]):
                    rows[row, k] = data[at + k]
                at += rows.shape[1]
                for k in range(tails.shape[1]):
                    tails[row, k] = data[at + k]
                at += tails.shape[1]
                row += 1
