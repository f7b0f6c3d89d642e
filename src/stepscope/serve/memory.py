"""Returns the memory of answers to the system.

The C library keeps freed memory for later, in an arena of each thread. A server that answers from many
threads would hold, after a while, the most that any of them has ever taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache

EVERY_S = 15.0


class Trimmer:
    """Gives memory back every so often.

    Args:
        give_back: Does it.
    """

    def __init__(self, give_back: Callable[[], None] | None = None) -> None:
        self._give_back = give_back or trim
        self._next = 0.0

    def look(self, now: float) -> None:
        """Return free memory, if the last time is long enough ago."""
        if now >= self._next:
            self._next = now + EVERY_S
            self._give_back()


def trim() -> None:
    """Return the C library's free memory to the system, if possible; other threads go on meanwhile."""
    call = _malloc_trim()
    if call is not None:
        call(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
        import ctypes

        call: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return call
    return None
