"""Transfers from a spool to the store, in an order in which nothing is lost and nothing appears twice.

Event files go as pieces while they grow, because an object cannot be appended to. Many small pieces are
merged into one; once a run has ended, one object takes the place of all. Every other file goes whole, again
when it has changed. Each operation is noted in the spool before it begins and is done again after a crash, to
the same name with the same bytes; a piece is deleted only when its replacement is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.events.pieces import first_record, piece_name, records_end
from stepscope.events.telemetry import FOLDER, parse_name
from stepscope.events.writer import EVENTS, is_own_name
from stepscope.record.spool import SentFile, SpoolEntry
from stepscope.urls import OBJECT_STORES, scheme

if TYPE_CHECKING:
    from stepscope.remote import Remote

PIECE_BYTES = 8 << 20
"""Bytes of an event file that are sent at once, without waiting for the next turn."""
MOST_BYTES = 64 << 20
"""The largest piece, and the memory that sending takes."""
MERGE = 32
"""Number of small pieces that are merged into one: a run of a week has some hundred objects."""
SETTLED_SECS = 2.0
"""Seconds since the last change within which a file may still be written."""


class Transfer:
    """Sends a spool to its store. Not safe for threads; errors of the driver come through.

    Args:
        entry: The spool.
        system: The store.
        root: The run's directory in it.

    Attributes:
        sent_bytes: Bytes that reached it.
    """

    def __init__(self, entry: SpoolEntry, system: Remote, root: str) -> None:
        self.entry, self._system, self._root = entry, system, root
        self._whole_puts = scheme(entry.url) in OBJECT_STORES
        self._folders: set[str] = set()
        self._broken_off = False
        self._requests = self.sent_bytes = 0
        if not self._whole_puts and "://" not in entry.url:
            self._whole_puts = True  # a mounted bucket: a file appears there when it is closed
            self._makes_folders = True
        else:
            self._makes_folders = not self._whole_puts

    @property
    def requests(self) -> int:
        """Calls that were made to the store, those that were made once more included."""
        return self._requests + self._system.retries

    # --- what there is to do ------------------------------------------------------------------------

    def left(self) -> tuple[int, int]:
        """Return how many files are not in the store in full, and how many of their bytes."""
        return left_in(self.entry)

    # --- doing it -----------------------------------------------------------------------------------

    def push(self, now: float, *, everything: bool) -> None:
        """Send the files that are due.

        Args:
            now: Wall time, to know which files have settled.
            everything: Send also bytes that could wait for larger pieces.
        """
        self._resume()
        for name, path, stat in files_in(self.entry):
            sent = self.entry.files.get(name, SentFile())
            if grows(name):
                self._push_pieces(name, path, stat.st_size, everything=everything)
            elif sent.stamp != _stamp(stat) and (everything or now - stat.st_mtime >= SETTLED_SECS):
                self._put_file(name, path)
                self._sent(name).stamp = _stamp(stat)
                self.entry.save()

    def drop_uploads(self) -> None:
        """Have the store delete the remains of broken uploads of these files.

        If that is not allowed, or the store knows no such request, it stays.
        """
        self._broken_off = False
        mine = {f"{self._root}/{name}".lstrip("/") for name, _, _ in files_in(self.entry)}
        with suppress(OSError, NotImplementedError):
            self._requests += self._system.drop_uploads(self._root, mine.__contains__)

    def compact(self) -> None:
        """Make one object of each event file; for a run that has ended and is sent in full."""
        self._resume()
        if self._broken_off:
            self.drop_uploads()
        for name, path, stat in files_in(self.entry):
            sent = self.entry.files.get(name)
            if sent is None or not sent.pieces:
                continue
            if stat.st_size > sent.end:  # half a record at its end, of a process that was killed
                os.truncate(path, sent.end)
            self._run({"file": name, "start": 0, "end": sent.end, "whole": True, "drop": list(sent.pieces)})

    def retire(self, name: str) -> None:
        """Make one object of an event file that has ended, and delete it here. Raises OSError.

        Args:
            name: Its path from the run's directory.
        """
        self._resume()
        path = self.entry.directory / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # the user deleted it
            return
        self._push_pieces(name, path, size, everything=True)
        sent = self._sent(name)
        if sent.pieces:
            self._run({"file": name, "start": 0, "end": sent.end, "whole": True, "drop": list(sent.pieces)})
        path.unlink(missing_ok=True)

    def _push_pieces(self, name: str, path: Path, size: int, *, everything: bool) -> None:
        while True:
            start = self.entry.files.get(name, SentFile()).end
            if size <= start or not (everything or size - start >= PIECE_BYTES):
                break
            end = _end(path, start, size, PIECE_BYTES if size - start > MOST_BYTES else None)
            if end == start:
                break
            self._run({"file": name, "start": start, "end": end, "whole": False, "drop": []})
        self._merge(name)

    def _merge(self, name: str) -> None:
        """Replace the newest small pieces by one, once there are many."""
        sent = self.entry.files.get(name)
        small = 0
        for start, end in reversed(sent.pieces if sent else []):
            if end - start >= PIECE_BYTES:
                break
            small += 1
        if sent is None or small < MERGE:
            return
        drop, size = [], 0
        for start, end in sent.pieces[-small:]:
            if size + end - start > MOST_BYTES:
                break
            drop.append((start, end))
            size += end - start
        if len(drop) > 1:
            self._run({"file": name, "start": drop[0][0], "end": drop[-1][1], "whole": False, "drop": drop})

    def _resume(self) -> None:
        """Do the operation again that a crash, or an error of the store, left half done."""
        if self.entry.pending is not None:
            self._run(self.entry.pending)

    def _run(self, operation: dict[str, Any]) -> None:
        """Put a range of an event file into the store, then delete the pieces that it replaces."""
        entry = self.entry
        if entry.pending is not operation:
            entry.pending = operation
            entry.save()
        name, start, end = operation["file"], operation["start"], operation["end"]
        path, drop = entry.directory / name, [(a, b) for a, b in operation["drop"]]
        if operation["whole"]:
            self._put_file(name, self._beginning(path, end))
            self._check(name, end)
        elif (start, end) not in self._sent(name).pieces:
            with path.open("rb") as file:
                head = first_record(file) if start and not name.startswith(f"{FOLDER}/") else b""
                file.seek(start)
                data = head + file.read(end - start)
            self._put(piece_name(name, start, end), data)
        for part in drop:
            if part != (start, end) or operation["whole"]:
                self._delete(piece_name(name, *part))
        sent = self._sent(name)
        remaining = [piece for piece in sent.pieces if piece not in drop]
        if operation["whole"]:
            sent.whole, sent.pieces = end, remaining
        else:
            sent.pieces = sorted({*remaining, (start, end)})
        entry.pending = None
        entry.save()

    def _beginning(self, path: Path, end: int) -> Path:
        """Return a file with so many bytes of an event file: itself, if it has grown no further."""
        if path.stat().st_size == end:
            return path
        part = self.entry.path / ".beginning"
        shutil.copyfile(path, part)
        os.truncate(part, end)
        return part

    def _sent(self, name: str) -> SentFile:
        return self.entry.files.setdefault(name, SentFile())

    # --- the store ----------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        path = f"{self._root}/{name}"
        folder = path.rpartition("/")[0]
        if self._makes_folders and folder not in self._folders:
            self._system.makedirs(folder)
            self._folders.add(folder)
        return path

    def _put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with _appearing(self._system, path, whole=self._whole_puts) as part:
            self._system.pipe_file(part, data)
        self._count(len(data))

    def _put_file(self, name: str, local: Path) -> None:
        path, size = self._path(name), local.stat().st_size
        before, broken_off, self._broken_off = self._system.retries, self._broken_off, True
        with _appearing(self._system, path, whole=self._whole_puts) as part:
            self._system.put_file(str(local), part, size)
        # A driver does not clear up after an upload that took too long.
        self._broken_off = broken_off or self._system.retries > before
        self._count(size)

    def _check(self, name: str, size: int) -> None:
        """Make sure that an object is complete before anything that it replaces is deleted."""
        self._system.invalidate_cache()
        stored = self._system.info(self._path(name)).get("size")
        self._count(0)
        if stored != size:
            raise OSError(f"the store holds {stored} bytes of {name}, and {size} were sent")

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):  # it was deleted before a crash
            self._system.rm_file(self._path(name))
        self._count(0)

    def _count(self, size: int) -> None:
        self._requests += 1
        self.sent_bytes += size


def files_in(entry: SpoolEntry) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield the files of a run with their path from its directory; hidden ones are being written."""
    top = str(entry.directory)
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            try:
                stat = path.stat()
            except OSError:
                continue
            if not name.startswith(".") and path.is_file():
                yield path.relative_to(top).as_posix(), path, stat


def left_in(entry: SpoolEntry) -> tuple[int, int]:
    """Return how many files are not in the store in full, and how many of their bytes."""
    count = missing = 0
    for name, path, stat in files_in(entry):
        sent = entry.files.get(name, SentFile())
        if grows(name):
            size = _end(path, sent.end, stat.st_size) - sent.end
        else:
            size = 0 if sent.stamp == _stamp(stat) else stat.st_size or 1
        count, missing = count + (size > 0), missing + size
    return count, missing


class _appearing:  # noqa: N801  used as a context
    """A temporary name, replaced by the right one at the end: half a file must not look like a whole one."""

    def __init__(self, system: Remote, path: str, *, whole: bool) -> None:
        folder, _, name = path.rpartition("/")
        self._system, self._path, self._whole = system, path, whole
        self._part = path if whole else f"{folder}/.{name}.part"

    def __enter__(self) -> str:
        return self._part

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and not self._whole:
            self._system.mv(self._part, self._path)


def grows(name: str) -> bool:
    """Return whether a file of a run is appended to: an event file, or the file of a rank."""
    folder, _, last = name.rpartition("/")
    return EVENTS in last or is_own_name(last) or (folder == FOLDER and parse_name(last) is not None)


def _end(path: Path, start: int, size: int, most: int | None = None) -> int:
    try:
        with path.open("rb") as file:
            return records_end(file, start, size, most)
    except OSError:
        return start


def _stamp(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns
