"""Tensors of event files as numpy arrays."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import STRING, Shape, Tensor
from stepscope.events.wire import LARGE_BYTES
from stepscope.text import counted

BFLOAT16, HALF = 14, 19
_TYPES: dict[int, tuple[str, str]] = {
    1: ("f4", "float_val"),
    2: ("f8", "double_val"),
    3: ("i4", "int_val"),
    4: ("u1", "int_val"),
    5: ("i2", "int_val"),
    6: ("i1", "int_val"),
    STRING: ("O", "string_val"),
    8: ("c8", "scomplex_val"),
    9: ("i8", "int64_val"),
    10: ("?", "bool_val"),
    BFLOAT16: ("f4", "half_val"),
    17: ("u2", "int_val"),
    18: ("c16", "dcomplex_val"),
    HALF: ("f2", "half_val"),
    22: ("u4", "uint32_val"),
    23: ("u8", "uint64_val"),
}
"""By DataType: the numpy type, and the field that lists the values."""
_NUMBERS = {numpy: number for number, (numpy, _) in _TYPES.items() if number != BFLOAT16}
MOST_ELEMENTS = 1 << 24
"""Most elements of a tensor with fewer values than its shape: a few bytes must not take all memory."""


def array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor as an array; bfloat16 becomes float32, strings become an object array of bytes.

    As in TensorFlow, a list shorter than the shape is filled up with its last value, an empty one with zeros.
    The result may be read-only.

    Raises:
        EventFileError: The type has no numpy equal, or values and shape do not fit.
    """
    if tensor.dtype not in _TYPES:
        raise EventFileError(
            f"no array can be made of a tensor of DataType {tensor.dtype}", hint=UNUSUAL_SUMMARY
        )
    values = _content(tensor) if tensor.tensor_content else _listed(tensor)
    shape = tensor.tensor_shape or Shape()
    if shape.unknown_rank:
        return values
    sizes = shape.sizes
    count = math.prod(sizes)
    if min(sizes, default=0) < 0 or len(values) > count:
        raise EventFileError(
            f"a tensor of shape {list(sizes)} does not hold {counted(len(values), 'value')}",
            hint=UNUSUAL_SUMMARY,
        )
    try:
        return _fill(values, count, sizes)
    except ValueError as error:  # more dimensions than numpy knows, or sizes beyond it beside a zero
        raise EventFileError(f"a tensor of shape {list(sizes)}: {error}", hint=UNUSUAL_SUMMARY) from None


def held_array(tensor: Tensor) -> npt.NDArray[Any]:
    """Return a tensor as an array that may be copied: one value that fills a huge shape is an error.

    Raises:
        EventFileError: As of ``array``, or the shape is far larger than the tensor's content.
    """
    values = array(tensor)
    if values.size > MOST_ELEMENTS and 0 in values.strides:
        raise _too_large(values.shape, 1)
    return values


def numbers(tensor: Tensor | None, what: str) -> npt.NDArray[Any]:
    """Return a tensor of integers or floats as an array that may be copied.

    Args:
        tensor: Of a value.
        what: The expected type of the value.

    Raises:
        EventFileError: There is no tensor, or it holds something else.
    """
    if tensor is None:
        raise EventFileError(f"{what} without a tensor", hint=UNUSUAL_SUMMARY)
    values = held_array(tensor)
    if values.dtype.kind not in "fiu":
        raise EventFileError(f"{what} has numbers, found {values.dtype}", hint=UNUSUAL_SUMMARY)
    return values


def has_numpy_type(tensor: Tensor) -> bool:
    """Return whether numpy has an equal of the tensor's type."""
    return tensor.dtype in _TYPES


def tensor(values: npt.ArrayLike) -> Tensor:
    """Return an array as a tensor; numbers as content, text and bytes as strings.

    Of a large array the tensor is a view: it must not be changed before it is encoded.

    Raises:
        EventFileError: TensorFlow has no such type.
    """
    given = np.asarray(values)
    shape = Shape.of(*given.shape)
    if given.dtype.kind in "OSU":
        texts = [text.encode() if isinstance(text, str) else bytes(text) for text in given.ravel().tolist()]
        return Tensor.of_texts(*texts, sizes=given.shape)
    name = given.dtype.str[1:] if given.dtype.kind != "b" else "?"
    if name not in _NUMBERS:
        raise EventFileError(
            f"no tensor can be made of an array of {given.dtype}",
            hint="convert it first: array.astype(numpy.float32)",
        )
    little = given.astype(given.dtype.newbyteorder("<"), copy=False)
    return Tensor(_NUMBERS[name], shape, tensor_content=_bytes_of(little))


def _bytes_of(array: npt.NDArray[Any]) -> bytes:
    """Return the bytes of an array; of a large one a view, whose copy would hold up the other threads."""
    if array.nbytes < LARGE_BYTES:
        return array.tobytes()
    flat = np.ascontiguousarray(array).reshape(-1)
    return cast("bytes", flat.view(np.uint8).data.toreadonly())


def _content(tensor: Tensor) -> npt.NDArray[Any]:
    numpy, data = _TYPES[tensor.dtype][0], tensor.tensor_content
    if tensor.dtype == BFLOAT16:
        numpy = "u2"
    if numpy == "O" or len(data) % np.dtype(numpy).itemsize:
        raise EventFileError(
            f"{counted(len(data), 'byte is', 'bytes are')} not values of DataType {tensor.dtype}",
            hint=UNUSUAL_SUMMARY,
        )
    values = np.frombuffer(data, "<" + numpy if numpy != "?" else numpy)
    return (values.astype("<u4") << 16).view("<f4") if tensor.dtype == BFLOAT16 else values


def _listed(tensor: Tensor) -> npt.NDArray[Any]:
    numpy, field = _TYPES[tensor.dtype]
    values = getattr(tensor, field)
    if field == "half_val":
        return _halves(np.array(values, np.int64) & 0xFFFFFFFF, tensor.dtype)
    if numpy in ("c8", "c16"):
        return np.array(values[: len(values) // 2 * 2], "f" + str(int(numpy[1:]) // 2)).view(numpy)
    if numpy == "O":
        items = np.empty(len(values), object)
        items[:] = values
        return items
    return np.array(values, np.int64 if field == "int_val" else numpy).astype(numpy)


def _halves(bits: npt.NDArray[np.int64], dtype: int) -> npt.NDArray[Any]:
    """Return the numbers whose bits are given; PyTorch gives those of a float32 instead of a half's."""
    numpy = np.dtype(_TYPES[dtype][0])
    if bits.size and bits.max() > 0xFFFF:
        return bits.astype("<u4").view("<f4").astype(numpy)
    if dtype == BFLOAT16:
        return (bits.astype("<u4") << 16).view("<f4")
    return bits.astype("<u2").view("<f2")


def _fill(values: npt.NDArray[Any], count: int, sizes: tuple[int, ...]) -> npt.NDArray[Any]:
    if len(values) == count:
        return values.reshape(sizes)
    if len(values) <= 1:
        zero = b"" if values.dtype == object else values.dtype.type(0)
        return np.broadcast_to(values if len(values) else np.array([zero], values.dtype), (count,)).reshape(
            sizes
        )
    if count > MOST_ELEMENTS:
        raise _too_large(sizes, len(values))
    return np.concatenate([values, np.broadcast_to(values[-1:], (count - len(values),))]).reshape(sizes)


def _too_large(sizes: tuple[int, ...], count: int) -> EventFileError:
    what = f"a tensor of shape {list(sizes)} with {count} value" + ("" if count == 1 else "s")
    return EventFileError(f"{what} is too large", hint=UNUSUAL_SUMMARY)
