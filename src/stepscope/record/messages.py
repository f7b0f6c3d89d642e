"""Texts for the user: warnings, lines on the console, logs. None of them waits for somebody to read it.

A pipe that nobody reads, as of a paused pager or a connection that hangs, takes some 64 KiB and then holds up
whoever writes into it. So a stream is asked first whether it takes a text of one page, the least that such a
pipe has room for, and a longer text is cut.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
from typing import IO, Any

MAX_BYTES = 3_000
"""The longest text: with the line that Python adds to a warning it fits into a page."""
STDERR = 2


def ready(stream: IO[str] | None = None) -> bool:
    """Return whether a stream takes a text without waiting.

    Args:
        stream: By default ``sys.stderr``. One without a file, as in a notebook, may pass its text on to the
            standard error, which is asked then.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None:
        return True
    try:
        number = stream.fileno()
    except Exception:  # noqa: BLE001  a stream of the user's own
        number = STDERR
    return not isinstance(number, int) or _takes(number)


def _takes(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode):
            return True
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        return bool(poll.poll(0))  # an error, as without any reader, does not wait either
    except (OSError, ValueError, AttributeError):  # closed; or a system without ``poll``
        return True


def logger_ready(logger: logging.Logger) -> bool:
    """Return whether the streams of a logger take a text without waiting."""
    current: logging.Logger | None = logger
    while current is not None:
        for handler in current.handlers:
            # absl's handler has the one that writes as an attribute.
            inner = getattr(handler, "python_handler", handler)
            stream = getattr(inner, "stream", None)
            if stream is not None and not ready(stream):
                return False
        current = current.parent if current.propagate else None
    return logger.hasHandlers() or ready()


def log(logger: logging.Logger, text: str, *arguments: Any, level: int = logging.INFO) -> bool:
    """Log a text, if that does not wait; return whether it was logged."""
    taken = logger_ready(logger)
    if taken:
        logger.log(level, text, *arguments)
    return taken


def shortened(text: str) -> str:
    """Return a text that fits into a page."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= MAX_BYTES else data[: MAX_BYTES - 4].decode("utf-8", "ignore") + " …"


def write(text: str, stream: IO[str] | None = None) -> bool:
    """Write a line, if that does not wait; return whether it was written.

    Args:
        text: Without the end of the line.
        stream: By default ``sys.stderr``.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None or not ready(stream):
        return stream is None
    try:
        stream.write(f"{shortened(text)}\n")
        stream.flush()
    except (BlockingIOError, BrokenPipeError):
        return False
    return True


def write_above_bars(line: str, stream: IO[str] | None = None) -> bool:
    """Write a line without tearing the progress bars that tqdm has on the screen; see ``write``."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if tqdm is None or not getattr(tqdm, "_instances", None):
        return write(line, stream)
    stream = sys.stderr if stream is None else stream
    if stream is None or not (ready(stream) and ready()):  # the bars are drawn again, on the standard error
        return stream is None
    tqdm.write(shortened(line), file=stream)
    return True
