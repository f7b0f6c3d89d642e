"""What a user logs becomes a float, or something that becomes one later on the writer's thread.

No framework is imported. The type's own module says which one made it, and the answer is remembered per type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stepscope.record import device
from stepscope.record.pending import Pending, Reader, not_a_number
from stepscope.record.problems import shown

_readers: dict[type, Reader] = {}


def read(value: Any) -> float | Pending:
    """Return the value as a float, or what becomes one later.

    Raises:
        RefusalError: It is no single number. Other exceptions come from the value's own code.
    """
    kind = type(value)
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = reader_for(kind)
    return reader(value)


def reader_for(kind: type) -> Reader:
    """Choose how values of a type are read."""
    if issubclass(kind, str | bytes | bytearray | list | tuple | dict | set | type(None)):
        return _refuse
    if issubclass(kind, int | float):
        return _plain
    reader = framework_reader(kind)
    if reader is not None:
        return reader
    if any(base.__module__ == "numpy" for base in kind.__mro__):
        return _numpy
    return _plain if hasattr(kind, "__float__") or hasattr(kind, "__index__") else _refuse


def reader_now(kind: type) -> Callable[[Any], float | None] | None:
    """Return what reads values of a type without waiting, for the shortest way; None where there is nothing.

    It may return None, or raise, for a value that takes the longer way.
    """
    reader = reader_for(kind)
    if reader is device.read_torch:
        return device.read_torch_now
    if reader is not _numpy:
        return None
    numpy = sys.modules["numpy"]
    plain = issubclass(kind, numpy.floating | numpy.integer | numpy.bool_)
    return float if plain and not issubclass(kind, numpy.timedelta64) else _numpy


def framework_reader(kind: type) -> Reader | None:
    """Return how a framework's values are read; None where the type is none's."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "keras":
            return _keras
        choose = device.READERS.get(base.__module__.partition(".")[0])
        if choose is not None:
            return choose(kind)
    return None


def _keras(value: Any) -> float | Pending:
    """Read a variable's value, which is an array of the backend."""
    if not hasattr(value, "value"):
        raise not_a_number(
            "a symbolic Keras tensor, which has no number yet", "log what the model returns for data"
        )
    return read(value.value)


def _plain(value: Any) -> float:
    """Numbers proper: bool, int, float, Decimal, Fraction and whatever else defines ``__float__``."""
    try:
        return float(value)
    except OverflowError:
        raise not_a_number("a number beyond the range of a float") from None


def _numpy(value: Any) -> float:
    if value.size != 1:
        raise not_a_number(f"an array of shape {value.shape}", "log one number: its mean() or max(), say")
    item = value.item()
    if isinstance(item, str | bytes) or not hasattr(item, "__float__"):
        raise not_a_number(f"a numpy value of type {value.dtype}")
    return float(item)


def _refuse(value: Any) -> float:
    hint = ""
    if isinstance(value, dict):
        hint = "use run.scalars({...}) for several numbers"
    elif value is None:
        hint = "log nothing where there is no value: what is not recorded is not shown as 0"
    raise not_a_number(shown(value), hint)
