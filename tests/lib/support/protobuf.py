"""Messages of protobuf, field by field."""

import numpy as np


def varint(value: int) -> bytes:
    """Return an integer as so many bytes as it takes."""
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """Return a field with its number."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + np.float64(value).tobytes()
    if isinstance(value, (bytes, str)):
        value = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)
