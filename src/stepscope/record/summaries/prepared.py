"""A summary on its way: what is left to do on the background thread, and the memory it holds until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stepscope.record.problems import RefusalError
from stepscope.record.summary_encoder import Made

MAX_BYTES = 1 << 30
"""No event holds more: protocol buffers end at 2 GiB."""


class Prepared(NamedTuple):
    """What a kind of summary makes of what the user passed.

    Attributes:
        make: Makes an event, or the values of one, given the tag; runs on the background thread.
        nbytes: Memory that it holds.
    """

    make: Callable[[str], Made]
    nbytes: int


def refused(found: str, hint: str) -> RefusalError:
    """Return the refusal of what a user passed."""
    return RefusalError("value", found, hint)


def bounded(nbytes: int) -> int:
    """Return a size that fits into an event.

    Raises:
        RefusalError: It does not.
    """
    if nbytes > MAX_BYTES:
        raise refused(f"{nbytes / (1 << 30):.1f} GiB", "log a part of it; an event holds 1 GiB at most")
    return nbytes
