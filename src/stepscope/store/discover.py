r"""Finds the event files under a log directory, and their changes since the last look.

The rules are TensorBoard's: an event file has ``tfevents`` anywhere in its name, a run is a directory that
directly holds one, and its name is the path from the log directory (``.`` for the log directory itself), with
bytes that are not UTF-8 written as ``\xff``. Symbolic links are followed. A link back to a directory that we
are inside of is left out, so a loop ends. Unlike TensorBoard we leave out partial copies of event files,
which copying programs write beside the original: its points would be there twice.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field

from stepscope.events.writer import COMPACTED, INDEX, is_own_name, stem_of
from stepscope.files import STATE_FOLDER
from stepscope.text import printable

DEBUGGER = "tfdbg_events."
"""Files of ``tf.debugging.experimental.enable_dump_debug_info`` begin with it; they hold DebugEvents."""
RACY_SECONDS = 2.0
"""Age of a change within which a directory is listed again: a second change may not move its time stamp."""
FULL_SECONDS = 30.0
"""How often every directory is listed again: some file systems have no reliable time stamps of
directories.
"""
MAX_DEPTH = 64

_HIDDEN_COPY = re.compile(r"(?:\.syncthing\.|~syncthing~|\.)(.+)(?:\.\w{6}|\.\d+\.\d+|\.tmp|\.partial)")
"""Names of rsync, Syncthing and our own copies of stores, until the copy is whole."""
_COPY = re.compile(
    r"(.+?)(?:\.[0-9A-Fa-f]{8}(?:\.partial)?|_\.gstmp|\.part|\.partial|\.filepart|\.crdownload|\.tmp|~)"
)
"""Names of aws s3, rclone, gsutil, curl, WinSCP, browsers and others."""

Files = dict[str, os.stat_result]
"""Event files of one run by path."""


def is_event_file(name: str) -> bool:
    """Return whether TensorBoard would take this name for an event file, or it is one of ours."""
    return "tfevents" in name or is_own_name(name) or is_index(name)


def is_index(name: str) -> bool:
    """Return whether a file is the index of a compacted event file."""
    return name.endswith(INDEX) and COMPACTED in name


def carries_data(name: str) -> bool:
    """Return whether there is anything to read: TensorFlow's profiler leaves empty marker files."""
    return not name.endswith(".profile-empty")


def copied_by(name: str) -> set[str]:
    """Return the names of files of which one named so may be a copy that is not whole yet."""
    matches = (pattern.fullmatch(name) for pattern in (_HIDDEN_COPY, _COPY))
    return {match[1] for match in matches if match}


@dataclass(slots=True)
class Directory:
    """The content of one directory when it was last listed."""

    mtime_ns: int = -1
    listed_at: float = 0.0
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    debugger: int = 0
    error: OSError | None = None


class EventFileTree:
    """The event files under one directory, found again cheaply.

    Args:
        root: The log directory.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.errors: dict[str, OSError] = {}
        self.debugger: dict[str, int] = {}
        """Directories with files of TensorFlow's debugger, which are not event files, and how many."""
        self._known: dict[str, Directory] = {}
        self._stats: dict[str, os.stat_result] = {}
        self._listed_all_at = 0.0

    def scan(self, *, now: float | None = None) -> dict[str, Files]:
        """Return every run with its event files, in the order of their names.

        A directory is listed again only if its time stamp moved; files are asked for size and time every
        time.

        Raises:
            OSError: The log directory itself cannot be listed.
        """
        now = time.time() if now is None else now
        again = now - self._listed_all_at >= FULL_SECONDS
        if again:
            self._listed_all_at = now
        runs: dict[str, Files] = {}
        seen: dict[str, Directory] = {}
        self.errors = {}
        waiting: list[tuple[str, str, frozenset[tuple[int, int]]]] = [(".", self.root, frozenset())]
        while waiting:
            name, path, inside = waiting.pop()
            directory, inside = self._visit(name, path, inside, now=now, again=again)
            if directory is None:
                continue
            seen[name] = directory
            if directory.files:
                runs[name] = self._stat_files(name, path, directory.files)
            if len(inside) < MAX_DEPTH:
                prefix = "" if name == "." else f"{name}/"
                waiting += [
                    (f"{prefix}{printable(child)}", f"{path}/{child}", inside) for child in directory.folders
                ]
        stats = {path: stat for files in runs.values() for path, stat in files.items()}
        if self._known.keys() - seen.keys() or self._stats.keys() - stats.keys():
            os.stat(self.root)  # noqa: PTH116  moved away under this scan, it says so instead of losing runs
        self._known, self._stats = seen, stats
        self.debugger = {
            name: directory.debugger for name, directory in sorted(seen.items()) if directory.debugger
        }
        return {name: runs[name] for name in sorted(runs)}

    def _visit(
        self, name: str, path: str, inside: frozenset[tuple[int, int]], *, now: float, again: bool
    ) -> tuple[Directory | None, frozenset[tuple[int, int]]]:
        known = self._known.get(name)
        try:
            stat = os.stat(path)  # noqa: PTH116  once per directory and look; Path costs three times as much
            identity = (stat.st_dev, stat.st_ino)
            if identity in inside:
                return None, inside
            racy = known is not None and known.listed_at - known.mtime_ns / 1e9 < RACY_SECONDS
            if known is None or again or racy or known.error or stat.st_mtime_ns != known.mtime_ns:
                known = list_directory(path, stat.st_mtime_ns, now)
            return known, inside | {identity}
        except FileNotFoundError:
            if name == ".":
                raise
            return None, inside
        except OSError as error:
            if name == ".":
                raise
            # What was seen before is kept: a network file system that fails for a moment deletes nothing.
            self.errors[name] = error
            directory = known or Directory()
            directory.error = error
            return directory, inside

    def _stat_files(self, run: str, path: str, names: list[str]) -> Files:
        files: Files = {}
        for name in names:
            file = f"{path}/{name}"
            try:
                files[file] = os.stat(file)  # noqa: PTH116  as above
            except FileNotFoundError:
                continue
            except OSError as error:
                self.errors[f"{run}/{printable(name)}"] = error
                if file in self._stats:
                    files[file] = self._stats[file]
        return files


def list_directory(path: str, mtime_ns: int, now: float) -> Directory:
    """List one directory: its event files and the folders below, both sorted by name."""
    directory = Directory(mtime_ns=mtime_ns, listed_at=now)
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name == STATE_FOLDER:
                continue
            if entry.is_dir():
                directory.folders.append(entry.name)
            elif entry.name.startswith(DEBUGGER):
                directory.debugger += 1
            elif is_event_file(entry.name) and entry.is_file():
                directory.files.append(entry.name)
    known = set(directory.files)
    directory.files = [name for name in directory.files if not known & copied_by(name)]
    compacted = {stem_of(name) + INDEX for name in directory.files if not is_index(name)}
    directory.files = sorted(name for name in directory.files if name not in compacted)  # originals go first
    directory.folders.sort()
    return directory
