# cython: boundscheck=False, wraparound=False
"""Walk over the opcodes of a pickle without executing them."""

from __future__ import annotations

import cython

LINE, LENGTH_1, LENGTH_4, LENGTH_8, TWO_LINES, UNKNOWN = -1, -2, -3, -4, -5, -9
"""How an argument without a fixed size says its length: by the end of its line, or by a number before it."""


def first_wrong(data: cython.const[cython.uchar][::1], argument: cython.const[cython.short][::1]) -> int:
    """Return the offset of the first opcode that asks for more than the pickle can hold; -1 if there is none.

    An opcode asks for too much where its argument is longer than what is left, or where it puts an object at
    a place of the memo beyond the number of bytes read so far: each byte can have put at most one object.

    Args:
        data: The pickle.
        argument: For each of 256 opcodes the bytes of its argument, or one of the constants of this module.
    """
    at: cython.Py_ssize_t = 0
    here: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = data.shape[0]
    wrong: cython.Py_ssize_t = -1
    ended: cython.int = 0
    kind: cython.int
    code: cython.int
    k: cython.int
    width: cython.int
    lines: cython.int
    length: cython.ulonglong
    with cython.nogil:
        while at < size and wrong < 0 and ended == 0:
            here = at
            code = data[at]
            kind = argument[code]
            at += 1
            length = 0
            if kind == -9 or kind > size - at:
                wrong = here
            elif code == 46:  # STOP
                ended = 1
            elif kind >= 0:
                if code == 114:  # LONG_BINPUT
                    for k in range(4):
                        length |= cython.cast(cython.ulonglong, data[at + k]) << (8 * k)
                    if length > cython.cast(cython.ulonglong, at):
                        wrong = here
                at += kind
            elif kind == -1 or kind == -5:
                lines = 1 if kind == -1 else 2
                while lines > 0 and at < size:
                    if data[at] == 10:
                        lines -= 1
                    elif (
                        code == 112 and 48 <= data[at] <= 57 and length <= cython.cast(cython.ulonglong, size)
                    ):
                        length = 10 * length + data[at] - 48  # PUT, whose place is written in digits
                    at += 1
                if lines > 0 or (code == 112 and length > cython.cast(cython.ulonglong, at)):
                    wrong = here
            else:
                width = 1 if kind == -2 else 4 if kind == -3 else 8
                if width > size - at:
                    wrong = here
                else:
                    for k in range(width):
                        length |= cython.cast(cython.ulonglong, data[at + k]) << (8 * k)
                    at += width
                    if length > cython.cast(cython.ulonglong, size - at):
                        wrong = here
                    elif code != 149:  # FRAME: the opcodes in it follow
                        at += cython.cast(cython.Py_ssize_t, length)
        if wrong < 0 and ended == 0:
            wrong = size
    return wrong
