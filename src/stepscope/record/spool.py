"""The spool, a directory of the user's: a run for a store is recorded there first and sent from there.

``<spool>/<hash of the URL>/<time>-<host>-<pid>-<n>/`` holds ``run/``, which is the run's directory as any
other, ``entry.json`` with the address and no secret, ``sent.json`` with the objects that are in the store
already, and ``lock``, which is held as long as a process sends. A lock that is free names a process that has
died. ``SpoolRoom`` bounds the bytes that all processes of a run on this machine keep there.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stepscope.errors import UsageError
from stepscope.files import json_object, write_whole
from stepscope.text import is_secret
from stepscope.urls import shown

ENTRY, SENT, LOCK, RUN, COUNT = "entry.json", "sent.json", "lock", "run", "attempt"
SPOOL_BYTES = 8 << 30
"""Limit for the waiting data of a run on one machine, unless ``STEPSCOPE_SPOOL_BYTES`` sets another."""
FILES_IN_BOUND = 8
"""Part of the limit at which an event file is ended, sent, and deleted here."""
FREE_BYTES, FREE_SHARE = 1 << 30, 0.05
"""Space left free on the disk for others, above all for checkpoints: the smaller of the two."""
MEASURE_SECS = 2.0
FACTS_BYTES = 64 << 20
"""Of a file about a spool that is read."""
_number = itertools.count()


def spool_home() -> Path:
    """Return the directory of all spools: ``STEPSCOPE_SPOOL``, else below the user's state directory."""
    named = os.environ.get("STEPSCOPE_SPOOL", "")
    if named:
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "stepscope" / "spool"
    try:
        home = Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"stepscope-spool-{os.getuid()}"
    folder = "Library/Application Support" if sys.platform == "darwin" else ".local/state"
    return home / folder / "stepscope" / "spool"


def folder_of(url: str) -> Path:
    """Return the folder of the entries of one URL; passwords and tokens in it make no difference."""
    return spool_home() / hashlib.sha256(shown(url).rstrip("/").encode()).hexdigest()[:24]


def spool_bytes() -> int:
    """Return the most bytes of a run that may wait on this machine.

    Raises:
        UsageError: ``STEPSCOPE_SPOOL_BYTES`` is not a number of bytes.
    """
    text = os.environ.get("STEPSCOPE_SPOOL_BYTES", "").strip()
    if not text:
        return SPOOL_BYTES
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise UsageError(
            f"STEPSCOPE_SPOOL_BYTES is {text!r}: expected a number of bytes above 0",
            hint=f"{SPOOL_BYTES} is the default",
        )
    return int(text)


class SpoolRoom:
    """The room that is left to the spool of a run: below its bound, and on its disk.

    Args:
        folder: Of the run's URL, with the spools of all its processes on this machine.
        max_bytes: The bound.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self.max_bytes = folder, max_bytes
        self.file_bytes = max(max_bytes // FILES_IN_BOUND, 1)
        self._left, self._measured_at = 0, float("-inf")
        self.why = ""
        """Why there was none at the last measurement; empty if there was some."""

    def left(self, now: float) -> int:
        """Return how many bytes may be added, 0 for none; measured again every two seconds.

        Args:
            now: Steady time in seconds.
        """
        if now - self._measured_at >= MEASURE_SECS:
            self._measured_at = now
            self._measure()
        return self._left

    def take(self, nbytes: int) -> None:
        """Note that so many bytes were added since the last measurement."""
        self._left = max(self._left - nbytes, 0)
        if not self._left and not self.why:
            self.why = f"the spool has reached its limit of {self.max_bytes:,} bytes"

    def _measure(self) -> None:
        held = folder_bytes(self._folder)
        try:
            disk = shutil.disk_usage(self._folder)
            free = disk.free - min(FREE_BYTES, int(FREE_SHARE * disk.total))
        except OSError:
            free = self.max_bytes  # a write will say what is wrong
        self._left = max(min(self.max_bytes - held, free), 0)
        self.why = ""
        if held >= self.max_bytes:
            self.why = f"the spool holds {held:,} bytes, and its bound is {self.max_bytes:,}"
        elif free <= 0:
            self.why = "the disk of the spool is nearly full"


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; files that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118  no Path per file
    return total


@dataclass
class SentFile:
    """The part of one file that the store has.

    Attributes:
        pieces: Ranges of an event file that are objects, in order.
        whole: Bytes of it that one object of its own name holds; None for none.
        stamp: Size and time of a file that is sent whole, when it was sent.
    """

    pieces: list[tuple[int, int]] = field(default_factory=list)
    whole: int | None = None
    stamp: tuple[int, int] | None = None

    @property
    def end(self) -> int:
        """Bytes of an event file that are in the store."""
        return max(self.whole or 0, self.pieces[-1][1] if self.pieces else 0)


@dataclass
class SpoolEntry:
    """The spool of one process of one run.

    Attributes:
        path: Its folder.
        url: The address without a secret.
        options: Options of the driver that are not secrets.
        files: The objects in the store, by path from the run's directory.
        pending: The operation that was begun last, to be repeated if it was not finished.
    """

    path: Path
    url: str
    options: dict[str, Any]
    files: dict[str, SentFile] = field(default_factory=dict)
    pending: dict[str, Any] | None = None
    _lock: int | None = None

    @classmethod
    def begin(cls, url: str, options: Mapping[str, Any]) -> SpoolEntry:
        """Make the spool of a run of this process, and lock it.

        Raises:
            OSError: It cannot be written.
        """
        name = f"{int(time.time()):010d}-{socket.gethostname()}-{os.getpid()}-{next(_number)}"
        entry = cls(folder_of(url) / name, shown(url), plain_options(options))
        entry.directory.mkdir(parents=True, mode=0o700)
        entry.path.chmod(0o700)
        if not entry.lock():
            raise BlockingIOError(f"the spool {entry.path} is in use")
        facts = {"url": entry.url, "options": entry.options, "host": socket.gethostname(), "pid": os.getpid()}
        _replace(entry.path / ENTRY, facts)
        return entry

    @classmethod
    def load(cls, path: Path) -> SpoolEntry | None:
        """Return the spool in a folder, None if there is none."""
        facts = json_object(path / ENTRY, FACTS_BYTES)
        if facts is None or not isinstance(facts.get("url"), str):
            return None
        options = facts.get("options")
        entry = cls(path, facts["url"], options if isinstance(options, dict) else {})
        sent = json_object(path / SENT, FACTS_BYTES) or {}
        with suppress(LookupError, msgspec.ValidationError):  # damaged: all of it is sent again
            pending = sent["pending"]
            entry.files = msgspec.convert(sent["files"], dict[str, SentFile])
            entry.pending = pending if isinstance(pending, dict) else None
        return entry

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return self.path / RUN

    def lock(self) -> bool:
        """Lock the spool; return False if another process holds it."""
        try:
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.forget()
            return False
        return True

    def forget(self) -> None:
        """Release the lock; in a forked child the parent keeps it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def save(self) -> None:
        """Save the list of objects in the store. Raises OSError."""
        files = {
            name: {"pieces": sent_file.pieces, "whole": sent_file.whole, "stamp": sent_file.stamp}
            for name, sent_file in self.files.items()
        }
        _replace(self.path / SENT, {"files": files, "pending": self.pending})

    def remove(self) -> None:
        """Delete the spool: all of it is in the store."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.forget()


def entries(home: Path | None = None) -> list[SpoolEntry]:
    """Return all spools of the user, or those below a folder, the oldest first."""
    home = spool_home() if home is None else home
    entries = [
        SpoolEntry.load(path.parent) for path in sorted(home.rglob(ENTRY)) if RUN not in path.parts[-2:]
    ]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.path.name)


def next_attempt(url: str, at_least: int) -> int:
    """Return the number of an attempt, above all that this machine has recorded for a URL."""
    place = folder_of(url) / COUNT
    try:
        known = int(place.read_text())
    except (OSError, ValueError):
        known = 0
    return max(known + 1, at_least)


def keep_attempt(url: str, number: int) -> None:
    """Remember the number of an attempt for when the store cannot be asked. Raises OSError."""
    _replace(folder_of(url) / COUNT, number)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a driver that are not secrets: all that may be written to a disk."""
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if is_secret(name) or name in ("key", "secret", "token", "connection_string", "account_key"):
            continue
        if isinstance(value, Mapping):
            plain[name] = plain_options(value)
        elif isinstance(value, str | int | float | bool) or value is None:
            plain[name] = value
    return plain


def _replace(path: Path, content: Any) -> None:
    write_whole(path, json.dumps(content).encode())
