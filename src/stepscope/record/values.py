"""What a user logs becomes a float, or something that becomes one later on the writer's thread.

No framework is imported. The type's own module says which one made it, and the answer is remembered per type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stepscope.record.problems import RefusalError

Reader = Callable[[Any], "float | Pending"]


class Pending(Protocol):
    """A value still on a device."""

    def ready(self) -> bool:
        """Whether ``read`` would return without waiting for the device."""

    def read(self) -> float:
        """Return the value as it was when it was logged.

        Raises:
            RefusalError: It cannot be had any more.
        """


def not_a_number(found: str, hint: str = "") -> RefusalError:
    """Return the refusal of a value."""
    return RefusalError(
        "value", found, hint or "pass one number: a Python, numpy, torch, JAX or TensorFlow scalar"
    )


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


def framework_reader(kind: type) -> Reader | None:
    """Return how a framework's values are read; None where the type is none's."""
    from stepscope.record import device

    for base in kind.__mro__:
        choose = device.READERS.get(base.__module__.partition(".")[0])
        if choose is not None:
            return choose(kind)
    return None


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
    if isinstance(value, dict):
        raise not_a_number(f"a dict of {len(value)} items", "use run.scalars({...}) for several numbers")
    if value is None:
        raise not_a_number(
            "None", "log nothing where there is no value: what is not recorded is not shown as 0"
        )
    shown = repr(value)
    raise not_a_number(f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:59] + '…'}")
