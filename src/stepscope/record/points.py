"""What a user passes as tag and step becomes text and an integer."""

from __future__ import annotations

import operator
from typing import Any

from stepscope.record import values
from stepscope.record.pending import Pending
from stepscope.record.problems import RefusalError, shown

MAX_TAG = 1_024
_TAG_HINT = "name the series, as in run.scalar('train/loss', loss)"
_STEP_HINT = "pass an integer, or none to use the current step of run.steps()"


def as_tag(tag: Any) -> str:
    """Return the tag as plain text.

    Raises:
        RefusalError: It is no text, empty, too long, or no Unicode.
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
        RefusalError: It is no integer of 64 bits.
    """
    if isinstance(step, int):
        return _whole(int(step))
    if values.framework_reader(type(step)) is not None:
        found = values.read(step)
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
        """Whether both are there."""
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
