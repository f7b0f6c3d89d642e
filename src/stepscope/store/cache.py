"""The cache of a log directory, so that opening it again reads next to nothing.

It lies in ``$XDG_CACHE_HOME/stepscope/logs`` (``~/.cache/stepscope/logs``), one folder per log directory,
named by a hash of its real path, and never in the log directory: that is often read-only, shared,
synchronised to other machines and walked by other tools. It may be deleted at any time. Folders unused for 30
days, and the least recently used ones beyond 10 GiB, are deleted when another is written.

Per event file there is one blob of columns, per log directory one index that names them. A blob is never
changed: a file that has grown by an eighth gets a new one, and until then the next opening reads only the
    points that the blob lacks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stepscope.events import FileStatus
from stepscope.files import Blob, BlobWriter, unneeded
from stepscope.files import cache_home as all_caches
from stepscope.store.index import (
    Index,
    StoredFile,
    StoredPoints,
    StoredRecords,
    load_index,
    samples_of,
    save_index,
)
from stepscope.store.points import SeriesPoints
from stepscope.store.pyramid import BIG
from stepscope.store.records import Records
from stepscope.store.source import FollowedFile
from stepscope.text import printable

WORTH_BYTES = 1 << 20
"""Size below which reading event files is faster than managing a cache."""
WORTH_RATIO = 1 / 8
STRAY_SECONDS = 600
"""Age at which unreferenced blobs are deleted: another process may be about to reference a younger one."""


def cache_home() -> Path | None:
    """Return the directory for caches of log directories, None if there is none."""
    home = all_caches()
    return home / "logs" if home else None


class Cache:
    """The cache of one log directory.

    Args:
        log_dir: The log directory as it was given.
        home: Directory of all caches.
    """

    def __init__(self, log_dir: str, home: Path) -> None:
        self.log_dir, self.home = log_dir, home
        self.real_path = os.path.realpath(log_dir)
        self.folder = home / hashlib.sha256(os.fsencode(self.real_path)).hexdigest()[:32]
        self.error: str | None = None
        index = load_index(self.folder / "index")
        self._files = index.files if index and index.path == printable(self.real_path) else {}
        if self._files:
            with suppress(OSError):
                os.utime(self.folder / "index")  # marks it as used

    def source(self, path: str) -> FollowedFile:
        """Return an event file with the cached facts; the source decides whether they still hold."""
        entry = self._files.get(self._name(path))
        return FollowedFile(path, entry, Blob(self.folder / entry.blob) if entry else None)

    def _name(self, path: str) -> str:
        return path[len(self.log_dir) + 1 :]

    def is_due(self, sources: Iterable[FollowedFile]) -> bool:
        """Return whether enough has been read beyond the cache to be worth writing."""
        new = total = 0
        for source in sources:
            size, known = source.size, source.entry.size if source.entry else 0
            new, total = new + max(0, size - known), total + size
        return self.error is None and new >= max(WORTH_BYTES, total * WORTH_RATIO)

    def save(self, sources: Iterable[FollowedFile]) -> None:
        """Save the new points and facts. A failure is kept in ``error`` and ends all writing."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._files = {
                self._name(source.path): entry
                for source in sources
                if printable(source.path) == source.path and (entry := self._entry(source))
            }
            save_index(self.folder / "index", Index(printable(self.real_path), self._files))
            self._prune_blobs()
            prune_folders(self.home, self.folder)
        except OSError as error:
            self.error = error.strerror or str(error)

    def _entry(self, source: FollowedFile) -> StoredFile | None:
        known = source.entry
        if known and source.size - known.size <= max(known.size * WORTH_RATIO, 0):
            return known
        blob = BlobWriter()
        entry = stored_file(source, blob)
        if entry is not None:
            stem = hashlib.sha256(os.fsencode(source.path)).hexdigest()[:16]
            entry.blob = f"{stem}-{entry.size}-{os.getpid()}-{time.monotonic_ns():x}.columns"
            blob.write(self.folder / entry.blob)
            source.entry = entry
        return entry

    def _prune_blobs(self) -> None:
        named = {entry.blob for entry in self._files.values()}
        oldest = time.time() - STRAY_SECONDS
        with os.scandir(self.folder) as entries:
            for blob in entries:
                if blob.name not in named and blob.name != "index" and blob.stat().st_mtime < oldest:
                    Path(blob.path).unlink(missing_ok=True)


def stored_file(source: FollowedFile, blob: BlobWriter) -> StoredFile | None:
    """Return the entry of a file, its columns added to a blob; None if it could not be recognized."""
    with source.lock:  # reader and columns must be of one moment
        stat, state = source.seen, source.reader_state()
        if stat is None or state is None or source.error:
            return None
        try:
            samples = samples_of(source.path, stat.st_size)
        except OSError:
            return None
        if samples is None:
            return None
        return StoredFile(
            blob="",
            inode=stat.st_ino,
            size=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
            ctime_ns=stat.st_ctime_ns,
            state=state,
            samples=samples,
            status=FileStatus(**state["status"]),
            info=source.info,
            config=source.config,
            experiment=source.experiment,
            first_wall=source.first_wall,
            last_wall=source.last_wall,
            parts=[
                part.mapped(
                    lambda _, points: stored_points(points, blob),
                    lambda _, records: stored_records(records, blob),
                )
                for part in source.parts
            ],
        )


def stored_points(points: SeriesPoints, blob: BlobWriter) -> StoredPoints:
    """Return the entry of a series, its columns added to a blob."""
    step, wall, value = (blob.add(column) for column in points.columns)
    levels = points.pyramid if points.count >= BIG else ()
    pyramid = [(blob.add(level.low), blob.add(level.high), blob.add(level.nonfinite)) for level in levels]
    return StoredPoints(points.count, points.last, points.facts, step, wall, value, pyramid)


def stored_records(records: Records, blob: BlobWriter) -> StoredRecords:
    """Return the entry of a tag that holds no scalars, its columns added to a blob."""
    step, wall, position, which = (blob.add(column) for column in records.places)
    about = records.about
    known = about.plugin, about.content, about.display_name, about.description
    return StoredRecords(known, records.count, (step, wall, position, which))


def prune_folders(home: Path, mine: Path) -> None:
    """Delete caches that have not been used for long, and the least recently used beyond the limit."""
    used: list[tuple[float, int, Path]] = []
    for folder in home.iterdir():
        with suppress(OSError):  # being written or deleted by somebody else
            size = sum(file.stat().st_size for file in folder.iterdir())
            used.append(((folder / "index").stat().st_mtime, size, folder))
    for folder in unneeded(used, mine):
        shutil.rmtree(folder, ignore_errors=True)
