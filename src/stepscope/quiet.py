"""Keeps lines of other libraries out of the log while this package calls them: they may hold secrets."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_quiet = threading.local()


class _Quiet(logging.Filter):
    """Refuses the lines of a thread that calls a library on its own account."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line may pass."""
        return not getattr(_quiet, "on", False)


_FILTER = _Quiet()


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """Keep this thread's lines out of some loggers; those of other threads pass.

    Args:
        *loggers: Their names. Loggers below them are not meant.
    """
    for name in loggers:
        logging.getLogger(name).addFilter(_FILTER)  # the same filter is added once
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False
