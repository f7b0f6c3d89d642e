"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "", seconds: float = 60.0) -> Found:
    """What a condition says once it is true; an AssertionError where it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what or "it became true in time"
        time.sleep(0.005)
    return found
