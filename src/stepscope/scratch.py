"""Temporary folders, which a later process removes if their own was killed.

Each holds a file that its process keeps locked (``flock``); the kernel releases the lock when the process,
and those that it forked, have ended in whatever way. A folder that nobody holds is removed by the next
process that makes one of its kind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

LOCK = ".held"
FRESH_S = 60.0
"""Age below which folders are left alone: one that is being made is not locked yet."""


class Scratch:
    """A folder in the system's place for temporary files.

    Args:
        kind: Its purpose, a part of its name.

    Raises:
        OSError: There is no place for it.
    """

    def __init__(self, kind: str) -> None:
        prefix = f"stepscope-{kind}-"
        _sweep_once(tempfile.gettempdir(), prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._held = -1
        with contextlib.suppress(OSError):  # a file system that locks nothing: nobody will sweep there
            self._held = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and its content; never raises."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[Path]:
    """Lend a folder; see :class:`Scratch`."""
    folder = Scratch(kind)
    try:
        yield folder.path
    finally:
        folder.remove()


@cache
def _sweep_once(place: str, prefix: str) -> None:
    sweep(Path(place), prefix)


def sweep(place: Path, prefix: str, *, now: float | None = None) -> int:
    """Remove this user's folders of a kind that no process holds; return how many. Never raises.

    Args:
        place: The directory that holds them.
        prefix: How their names begin.
        now: Seconds since the epoch.
    """
    now = time.time() if now is None else now
    removed = 0
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _is_left(entry, now):
                shutil.rmtree(entry.path, ignore_errors=True)
                removed += 1
    return removed


def _is_left(entry: os.DirEntry[str], now: float) -> bool:
    """Return whether a folder is this user's, is not new, and was held by a process that has ended."""
    with contextlib.suppress(OSError):
        facts = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or now - facts.st_mtime < FRESH_S:
            return False
        with Path(entry.path, LOCK).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
