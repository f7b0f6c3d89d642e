"""Logged values become a tag, a step and a float, or a value that is read later on the writer's thread.

No framework is imported. The type's own module says which one made it, and the answer is remembered per type.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

from stepscope.record import device
from stepscope.record.device import Pending, Reader, not_a_number
from stepscope.record.problems import RefusalError, shown

MAX_TAG = 1_024
_TAG_HINT = "name the series, as in run.scalar('train/loss', loss)"
_STEP_HINT = "pass an integer, or none to use the current step of run.steps()"

_readers: dict[type, Reader] = {}


def read(value: Any) -> float | Pending:
    """Return the value as a float, or what becomes one later.

    Raises:
        RefusalError: It is not a single number. Other exceptions come from the value's own code.
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
    """Return what reads values of a type without waiting, for the shortest way; None if there is nothing.

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
    """Return how a framework's values are read; None if the type belongs to no framework."""
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


# --- tags and steps ---------------------------------------------------------------------------------


def as_tag(tag: Any) -> str:
    """Return the tag as plain text.

    Raises:
        RefusalError: It is not text, empty, too long, or not Unicode.
    """
    if not isinstance(tag, str):
        raise RefusalError("tag", f"a tag must be text, got {shown(tag)}", _TAG_HINT)
    if not tag or len(tag) > MAX_TAG:
        raise RefusalError("tag", f"a tag must have 1 to {MAX_TAG} characters, got {len(tag)}", _TAG_HINT)
    try:
        tag.encode()
    except UnicodeEncodeError:
        raise RefusalError("tag", f"a tag must be Unicode text, got {shown(tag)}", _TAG_HINT) from None
    return str(tag)


def as_step(step: Any) -> int | Pending:
    """Return the step as an integer, or what becomes one later: JAX counts steps on the device.

    Raises:
        RefusalError: It is not a 64-bit integer.
    """
    if isinstance(step, int):
        return _whole(int(step))
    if framework_reader(type(step)) is not None:
        found = read(step)
        return _whole(found) if isinstance(found, float) else found
    try:
        return _whole(operator.index(step))
    except TypeError:
        raise _no_step(shown(step)) from None


class Delayed:
    """A point whose step is still on a device, and perhaps its value too.

    Attributes:
        step: The step, once ``read`` has returned.
    """

    __slots__ = ("_step", "_value", "step")

    def __init__(self, value: float | Pending, step: Pending) -> None:
        self._value, self._step = value, step
        self.step = 0

    def ready(self) -> bool:
        """Return whether both are there."""
        return self._step.ready() and (isinstance(self._value, float) or self._value.ready())

    def read(self) -> float:
        """Return the value; the step is then known as well."""
        number = self._value if isinstance(self._value, float) else self._value.read()
        self.step = _whole(self._step.read())
        return number


def _whole(number: float) -> int:
    if number != number or number in (float("inf"), float("-inf")) or number != int(number):
        raise _no_step(repr(number))
    if not -(1 << 63) <= number < 1 << 63:
        raise RefusalError("step", f"a step must fit into 64 bits, got {shown(number)}", _STEP_HINT)
    return int(number)


def _no_step(found: str) -> RefusalError:
    return RefusalError("step", f"a step must be an integer, got {found}", _STEP_HINT)
