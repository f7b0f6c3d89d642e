"""Paths below a log directory: whether one lies in it, where a run of some name does, and what a file holds.

What writes, moves or deletes asks here first, and so does what reads a file that somebody else may have put
there: a pipe in its place would be waited for, and one without end would take all memory.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from stepscope.errors import LogDirectoryError


def inside(root: Path, path: str | Path) -> Path:
    """Return a path below a directory, after links and ``..`` have been followed.

    The last part of the path may itself be a link: what is moved or deleted is then the link, not what it
    points to. Nothing on the way to it may lead out.

    Args:
        root: The directory.
        path: Below it, or relative to it. It need not exist.

    Raises:
        LogDirectoryError: It lies elsewhere, or is the directory itself.
    """
    home = root.resolve()
    whole = root / path
    real = whole.parent.resolve() / whole.name
    if whole.name in ("", ".", "..") or "\0" in str(path) or not real.is_relative_to(home) or real == home:
        raise LogDirectoryError(
            f"refused: {str(path)!r} lies outside of the directory",
            hint="a link or a planted file leads out of it; use the place that it leads to",
            path=root,
        )
    return real


def run_directory(root: Path, run: str) -> Path:
    r"""Return the directory of a run.

    Args:
        root: The log directory.
        run: Its name, in which bytes that are not UTF-8 are written as ``\xff``.
    """
    place = root / run
    if "\\x" not in run or place.exists():
        return place
    raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda found: bytes.fromhex(found[1].decode()), os.fsencode(run))
    return root / os.fsdecode(raw)


def without_waiting(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or a pipe without waiting for a writer: an ``opener`` of ``open``."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def regular_bytes(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the content of a regular file that has no more than so many bytes.

    Raises:
        OSError: It cannot be read, is no regular file, or has more bytes.
    """
    with open(path, "rb", opener=without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if facts.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes:,} bytes")
        return file.read(most_bytes)


def json_object(path: str | os.PathLike[str], most_bytes: int) -> dict[str, Any] | None:
    """Return the JSON object in a regular file of so many bytes at most, None where there is none."""
    try:
        return bounded_object(regular_bytes(path, most_bytes))
    except OSError:
        return None


MAX_VALUES = 400_000
"""Values in an object that others wrote: to read them takes a tenth of a second."""


def bounded_object(data: bytes) -> dict[str, Any] | None:
    """Return a JSON object that others wrote, None if it is none or has too many parts.

    Numbers are kept as far as they fit into 64 bits, as all who pass them on expect.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return None
    try:
        found = json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _integer(text: str) -> int | float:
    value = int(text) if len(text) < 20 else float(text)
    return value if -(2**63) <= value < 2**63 else float(value)
