"""Functions that XLA compiles for JAX while steps are captured, and the shapes of their arguments.

Profiles hold the time that compiling takes and not what differed from the call before. JAX logs that at a
level that is usually hidden; a filter there listens while steps are captured, and lets through what would
have been shown without it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

MOST = 1000
"""Most compilations that are noted in one capture."""
MOST_ARGUMENTS = 2000
_LOGGER = "jax._src.interpreters.pxla"
_MESSAGE = "Compiling %s with global shapes and types %s"


class CompileLog(logging.Filter):
    """Notes what is compiled between ``begin`` and ``end``.

    Args:
        clock: Returns ns; steady.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        super().__init__()
        self._clock = clock
        self._level = self._seen = logging.NOTSET
        self.found: list[tuple[int, str, list[str]]] = []
        """Time, function, and of each argument type and shape."""

    def begin(self) -> None:
        """Listen; if JAX was not imported, there is nothing to listen to."""
        if "jax" not in sys.modules:
            return
        logger = logging.getLogger(_LOGGER)
        self._level, self._seen = logger.level, logger.getEffectiveLevel()
        logger.addFilter(self)
        logger.setLevel(min(self._seen, logging.DEBUG))

    def end(self) -> None:
        """Listen no more."""
        logger = logging.getLogger(_LOGGER)
        if self in logger.filters:
            logger.removeFilter(self)
            logger.setLevel(self._level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Note what a record says about compiling; return whether it would have been shown anyway."""
        given = record.args
        if isinstance(given, tuple) and len(given) > 1 and str(record.msg).startswith(_MESSAGE):
            name, shapes = given[:2]
            if len(self.found) < MOST and isinstance(shapes, (list, tuple)):
                told = [str(getattr(one, "str_short", one.__str__)()) for one in shapes[:MOST_ARGUMENTS]]
                self.found.append((self._clock(), str(name), told))
        return record.levelno >= self._seen
