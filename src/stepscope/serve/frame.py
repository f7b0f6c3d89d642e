"""The binary frame that carries series: a JSON header, then typed arrays that a browser uses as they are.

::

    u32 magic | u32 bytes of header | header | zeros to a multiple of 8 | array | zeros … | array | …
"""

from __future__ import annotations

import struct
from typing import Any, Literal, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepscope.serve.encode import encoded
from stepscope.serve.types import MAGIC, Column, SeriesHeader

ALIGNMENT = 8
Header = TypeVar("Header", bound=msgspec.Struct)
Dtype = Literal["f4", "f8", "i4", "u4"]
DTYPES = frozenset({"f4", "f8", "i4", "u4"})


class FrameArrays:
    """Typed arrays in the order in which they were added, each with its position."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size_bytes = 0

    def add(self, array: NDArray[Any]) -> Column:
        """Append one array of any length and return its place.

        Raises:
            TypeError: The page does not read this element type.
        """
        kind = array.dtype.str[1:]
        if kind not in DTYPES:
            raise TypeError(f"array of {array.dtype}: a frame carries {', '.join(sorted(DTYPES))}")
        column = Column(dtype=cast(Dtype, kind), offset=self.size_bytes, count=len(array))
        body = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
        body += bytes(-len(body) % ALIGNMENT)
        self.parts.append(body)
        self.size_bytes += len(body)
        return column


def pack(header: msgspec.Struct, arrays: FrameArrays) -> bytes:
    """Return the frame."""
    text = encoded(header)
    start = struct.pack("<II", MAGIC, len(text)) + text
    return b"".join([start, bytes(-len(start) % ALIGNMENT), *arrays.parts])


def unpack(frame: bytes) -> tuple[SeriesHeader, memoryview]:
    """Return the header and the arrays' bytes of a series answer; for Python clients and the tests.

    Raises:
        ValueError: It is not a frame.
    """
    return unpack_as(frame, SeriesHeader)


def unpack_as(frame: bytes, kind: type[Header]) -> tuple[Header, memoryview]:
    """Return the header of some kind, and the arrays' bytes.

    Raises:
        ValueError: The frame is none.
    """
    magic, size = struct.unpack_from("<II", frame)
    if magic != MAGIC:
        raise ValueError(f"not a series answer: it starts with {magic:#x}, expected {MAGIC:#x}")
    header = msgspec.json.decode(frame[8 : 8 + size], type=kind)
    return header, memoryview(frame)[8 + size + (-(8 + size) % ALIGNMENT) :]


def array_of(body: memoryview, column: Column) -> NDArray[Any]:
    """Return one array of an unpacked frame."""
    return np.frombuffer(body, dtype=f"<{column.dtype}", count=column.count, offset=column.offset)
