"""A value that is still on a device."""

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
