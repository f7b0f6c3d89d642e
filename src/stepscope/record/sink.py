"""The files of a run, the event file and the one beside it: they may fail, vanish and come back."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from stepscope.errors import LogDirectoryError
from stepscope.events.messages import Event
from stepscope.events.writer import EventWriter, own_name
from stepscope.record.mounts import is_synchronized
from stepscope.record.problems import Problems

PREFIX = "stepscope/"
"""Beginning of the tags that a run records by itself: its state, cost, findings and profiles."""


class LogFiles:
    """Writes the event file of a run and the file beside it; otherwise like ``EventWriter``.

    Args:
        directory: Of the run.
        open_log: Makes the event file.
        own_file: Whether there is a file beside it; else all goes into the event file.
    """

    def __init__(
        self,
        directory: str,
        open_log: Callable[[str], EventWriter] = EventWriter,
        *,
        own_file: bool = True,
    ) -> None:
        self._log = open_log(directory)
        try:
            self._own = (
                EventWriter(directory, name=own_name(Path(self._log.path).name)) if own_file else self._log
            )
        except OSError:
            self._log.abandon()
            Path(self._log.path).unlink(missing_ok=True)
            raise
        self._files = [self._log] if self._own is self._log else [self._log, self._own]

    @property
    def path(self) -> str | os.PathLike[str]:
        """The event file."""
        return self._log.path

    @property
    def log_bytes(self) -> dict[str, int]:
        """Length of the event file, by its name, for the file beside it to record."""
        return {Path(self._log.path).name: self._log.bytes_written}

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [file.path for file in self._files]

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be written."""
        return sum(file.buffered_bytes for file in self._files)

    @property
    def bytes_written(self) -> int:
        """Bytes that reached the files."""
        return sum(file.bytes_written for file in self._files)

    def scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Add a scalar."""
        self._of(tag).scalar(tag, value, step, wall_time)

    def scalars(self, values: list[tuple[str, float]], step: int, wall_time: float) -> None:
        """Add several of one step and time, all of the run itself or none."""
        self._of(values[0][0] if values else "").scalars(values, step, wall_time)

    def records(self, data: bytes) -> None:
        self._log.records(data)

    def event(self, event: Event) -> None:
        """Add any event; its first tag says whose it is."""
        values = event.values
        self._of(values[0].tag if values else "").event(event)

    def flush(self, sync: bool = False) -> None:
        """Write the buffers. Raises OSError; unwritten bytes stay buffered."""
        for file in reversed(self._files):  # whose points they are before the points
            file.flush(sync)

    def take_back(self) -> list[bytes]:
        """Take back the records that are not yet whole in each file."""
        return [rest for file in self._files for rest in file.take_back()]

    def put(self, rest: list[bytes]) -> None:
        """Add records taken back from other files."""
        if self._own is not self._log:  # it may be as much as fills the event file at once
            with contextlib.suppress(OSError):  # what was not written stays buffered
                self._own.flush()
        for file, data in zip(self._files, rest, strict=True):
            file.put([data])

    @property
    def values_left(self) -> int:
        """How many values that were logged are not in the event file."""
        return self._log.values_left

    @property
    def whole_bytes(self) -> int:
        """Bytes of the files in whole records."""
        return sum(file.whole_bytes for file in self._files)

    def fileno(self) -> int:
        """Return the number of the open event file."""
        return self._log.fileno()

    def close(self) -> None:
        """Write the buffers and close the files, even if writing fails."""
        try:
            self._log.close()
        finally:
            self._own.close()

    def abandon(self) -> None:
        """Close the files without writing the buffers."""
        for file in self._files:
            file.abandon()

    def _of(self, tag: str) -> EventWriter:
        return self._own if tag.startswith(PREFIX) else self._log


_UNKNOWN = (0, 0)
FIRST_RETRY_SECS, LONGEST_RETRY_SECS = 1.0, 30.0
SYNC_SECS = 1.0
NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Errors of file systems that cannot synchronize files."""
FULL_FILE = errno.EFBIG
DEAD_FILE = (errno.ESTALE, errno.EIO, errno.EBADF, errno.ENODEV, errno.ENXIO, errno.ENOTCONN)
"""Errors after which a file takes nothing more, while another file in its directory may."""


class LogWriter(Protocol):
    """The part of ``events.EventWriter`` that recording needs; a call that raises OSError took nothing."""

    @property
    def path(self) -> str | os.PathLike[str]:
        """The place of the file."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait to be written."""

    @property
    def whole_bytes(self) -> int:
        """Bytes of the file in whole records."""

    def scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Add a scalar."""

    def scalars(self, values: list[tuple[str, float]], step: int, wall_time: float) -> None:
        """Add several of one step and time."""

    def records(self, data: bytes) -> None:
        """Add whole records."""

    def event(self, event: Event) -> None:
        """Add any event."""

    def flush(self, sync: bool = False) -> None:
        """Write the buffer."""

    def take_back(self) -> list[bytes]:
        """Take back the records that are not yet whole in the file, for another file."""

    def put(self, rest: list[bytes]) -> None:
        """Add whole records without writing any, as those that were taken back from another file."""

    def fileno(self) -> int:
        """Return the number of the open file."""

    def close(self) -> None:
        """Write the buffer and close the file."""

    def abandon(self) -> None:
        """Close the file without writing the buffer."""


class Sink:
    """Opens a writer and keeps trying.

    After a failure nothing is written until a back-off has passed, 1 s at first and 30 s at most. The
    writer's buffer stays there. A deleted file is begun again. A file that may not grow further, or whose
    location is broken, keeps the whole records that it holds, and the rest goes into a new file.

    Args:
        directory: Directory of the files.
        open_writer: Makes a writer in a directory.
        problems: Told of failures.
        what: Name of the file in messages.
    """

    def __init__(
        self,
        directory: str,
        open_writer: Callable[[str], LogWriter],
        problems: Problems,
        what: str = "the event file",
    ) -> None:
        self.directory, self._synced, self._sync_at = directory, False, float("-inf")
        self._open, self._problems, self._what = open_writer, problems, what
        self._writer: LogWriter | None = None
        self._identity: tuple[int, int] | None = None
        self._wait, self._retry_at = FIRST_RETRY_SECS, float("-inf")
        self._rest: list[bytes] | None = None
        self._head = 0
        self.fresh = False
        """A file was begun, and ``begun`` was not called since."""
        self.moved = False
        """The last failure was that of a full file, and the next one can be begun at once."""
        self.log_bytes: dict[str, int] = {}
        """How long the event files are that were ended, by name."""
        self.ended: deque[str] = deque()
        """Files that were ended for their size, by name from the directory, for who sends them away."""
        self.last_paths: list[str | os.PathLike[str]] = []
        """The files that ``close`` has closed."""
        self.unflushed = 0
        """Points encoded since the last flush that succeeded; the recorder adds to it."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes encoded and not yet handed to the operating system."""
        waiting = sum(map(len, self._rest or ()))
        return waiting + (self._writer.buffered_bytes if self._writer else 0)

    @property
    def paths(self) -> list[str | os.PathLike[str]]:
        """The files that are written now."""
        writer = self._writer
        return [] if writer is None else list(getattr(writer, "paths", [writer.path]))

    def writer(self, now: float) -> LogWriter | None:
        """Return the writer, opening it if necessary; None while trying is pointless.

        Args:
            now: Steady time in seconds.
        """
        if now < self._retry_at:
            return None
        if self._writer is None:
            try:
                self._writer = self._open(self.directory)
                self._identity = _identity(self._writer)
                self._synced = is_synchronized(self.directory)
            except OSError as error:
                self.failed(error, now)
                return None
            self.fresh = True
        return self._writer

    def begun(self, writer: LogWriter) -> None:
        """Note that the header of a new file is written; records that an earlier file refused come next."""
        self.fresh = self.moved = False
        self._head = writer.whole_bytes + writer.buffered_bytes
        rest, self._rest = self._rest, None
        if rest is not None:
            writer.put(rest)

    def retry_now(self) -> None:
        """Try again without regard to the back-off, because the user asked for a flush."""
        if self._retry_at != float("inf"):
            self._retry_at = float("-inf")

    def flush(self, now: float, *, sync: bool = False) -> bool:
        """Hand everything encoded to the operating system; False if that failed."""
        writer = self.writer(now)
        if writer is None:
            return False
        try:
            self._flush(writer, now, sync=sync)
            if not self._still_there(writer):
                return False
        except OSError as error:
            self.failed(error, now)
            return False
        self._succeeded()
        return True

    def _flush(self, writer: LogWriter, now: float, *, sync: bool) -> None:
        """Flush; if other machines see only synchronized bytes, synchronize too, once a second at most."""
        due = self._synced and not sync and now >= self._sync_at
        if due:
            self._sync_at = now + SYNC_SECS
        try:
            writer.flush(sync or due)
        except OSError as error:
            if not due or error.errno not in NO_SYNC:
                raise
            self._synced = False
            writer.flush()

    def failed(self, error: OSError, now: float) -> None:
        """Note a failure; the next try comes after the back-off."""
        self.moved = self._leave(error) and error.errno == FULL_FILE
        if self.moved:
            self._problems.post("disk", full_file(self._what, error, self.directory), points=0)
            return
        self._retry_at = now + self._wait
        self._wait = min(2 * self._wait, LONGEST_RETRY_SECS)
        self._problems.post("disk", directory_error(self.directory, error), points=0)

    def _leave(self, error: OSError) -> bool:
        """Move on to another file if that helps, which it does only if this one has taken something."""
        writer = self._writer
        if writer is None or self.fresh or error.errno not in (FULL_FILE, *DEAD_FILE):
            return False
        if writer.whole_bytes <= self._head:
            return False
        self._writer, self._rest = None, writer.take_back()
        with contextlib.suppress(OSError):
            writer.close()
        return True

    def roll(self, most_bytes: int) -> bool:
        """End a file that holds at least the given number of flushed bytes; ``writer`` begins the next one.

        Returns:
            Whether it was ended.
        """
        writer = self._writer
        if writer is None or self.fresh or writer.buffered_bytes:
            return False
        if writer.whole_bytes < max(most_bytes, self._head + 1):
            return False
        self._writer = None
        self.log_bytes |= getattr(writer, "log_bytes", {})
        try:
            writer.close()
        except OSError as error:
            self._problems.post("disk", directory_error(self.directory, error), points=0)
        paths = getattr(writer, "paths", [writer.path])
        self.ended.extend(os.path.relpath(path, self.directory) for path in paths)
        return True

    def close(self) -> None:
        """Close the file; the caller has flushed it. Records that a full disk has not taken stay counted."""
        self.last_paths = self.paths
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except OSError as error:
                self._problems.post("disk", directory_error(self.directory, error), points=0)
                # Some of what was encoded since the last flush that succeeded may be in the file.
                self.unflushed = min(self.unflushed, getattr(writer, "values_left", self.unflushed))

    def discard(self) -> None:
        """Delete the file: it turned out that this process is not the one to write it."""
        writer, self._writer, self._rest = self._writer, None, None
        self.unflushed = 0
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.abandon()
                for path in getattr(writer, "paths", [writer.path]):
                    os.unlink(path)  # noqa: PTH108  no Path object needed

    def forget(self) -> None:
        """Let go of the writer without writing, in a forked child: the file is the parent's."""
        writer, self._writer, self._rest = self._writer, None, None
        self._retry_at = float("inf")
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.abandon()

    def _succeeded(self) -> None:
        self.unflushed = 0
        if self._wait > FIRST_RETRY_SECS:
            self._wait = FIRST_RETRY_SECS
            self._problems.forgive("disk")

    def _still_there(self, writer: LogWriter) -> bool:
        """Return whether the file still has its name: a deleted one takes writes without an error."""
        if _identity(writer) in (self._identity, _UNKNOWN):
            return True
        place = _moved_to(writer, self._identity)
        if place is not None:
            self._problems.post("file_moved", moved_file(self._what, place, self.directory), points=0)
        else:
            error = LogDirectoryError(
                f"{self._what} was deleted or replaced while the run was recording; what it held is lost, "
                "recording goes on in a new file",
                hint="close a run before you delete its directory",
                path=writer.path,
            )
            self._problems.post("file_deleted", error, points=self.unflushed)
        self._writer, self.unflushed = None, 0
        with contextlib.suppress(OSError):  # all that it was given has been written
            writer.close()
        return False


def append(path: str | os.PathLike[str], record: bytes) -> None:
    """Append a record to a file that has been closed, if it is still there and can be written."""
    with contextlib.suppress(OSError), open(path, "r+b") as file:  # noqa: PTH123
        file.seek(0, os.SEEK_END)
        file.write(record)


def directory_error(directory: str, error: OSError) -> LogDirectoryError:
    """Return the error for a directory that cannot be written now."""
    return LogDirectoryError(
        f"cannot write the run: {error.strerror or error}; training goes on and recording keeps trying, "
        "points beyond max_queue_bytes are dropped and counted",
        hint=f"{_REMEDIES.get(error.errno or 0, _REMEDY)}; what waits is then written",
        path=directory,
    )


_REMEDY = "free space or make the directory writable"
_FULL = "free space (df says how much there is, df -i how many files may be made)"
_WRITABLE = "make the directory writable"
_IN_THE_WAY = "something that is no directory is in the way: move it, or name another directory"
_HANDLES = "close files, or allow more of them with ulimit -n"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "free space, or ask for a larger quota: quota -s says how much is used",
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.EROFS: "mount the file system so that it can be written",
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.ENAMETOOLONG: "name the directory more shortly",
    errno.EMFILE: _HANDLES,
    errno.ENFILE: _HANDLES,
    errno.EIO: "look at the disk: its driver says more in dmesg",
    errno.ESTALE: "mount the file system anew, or ask who exports it",
}
"""Remedies by the number of the error."""


def full_spool(place: str, why: str) -> LogDirectoryError:
    """Return the error for a spool that has reached its limit."""
    return LogDirectoryError(
        f"{why}: what is logged now is not recorded, and counted, until the store has taken some of it; "
        "training goes on",
        hint="restore the connection to the store, or give STEPSCOPE_SPOOL_BYTES more; stepscope sync --all "
        "sends what runs that ended have left",
        path=place,
    )


def full_file(what: str, error: OSError, directory: str) -> LogDirectoryError:
    """Return the error for a file that may not grow further."""
    return LogDirectoryError(
        f"{what} may grow no further: {error.strerror or error}; it is whole, and recording goes on in a "
        "new one",
        hint="ulimit -f says what this process may write; nothing is lost",
        path=directory,
    )


def moved_file(what: str, place: str, directory: str) -> LogDirectoryError:
    """Return the error for a file that was moved while it was written."""
    return LogDirectoryError(
        f"{what} was moved while the run was recording: what was recorded until now is in {place}, and "
        "recording goes on in a new file",
        hint="move a run once it has ended; to join its parts, put the new files beside the moved ones",
        path=directory,
    )


def no_answer(place: str, *, store: bool = False) -> LogDirectoryError:
    """Return the error for a directory or a store that does not answer while files are opened."""
    if store:
        return LogDirectoryError(
            "the store has not answered yet which attempts there are; training goes on, and what is logged "
            "is recorded on this machine, whatever the store says",
            hint="check the address and the network if the run does not appear in the store",
            path=place,
        )
    return LogDirectoryError(
        "the disk does not answer; training goes on, what is logged waits in memory and is written once the "
        "disk answers, points beyond max_queue_bytes are dropped and counted",
        hint="check whether the file system hangs (ls, df, dmesg); nothing needs to be done in the training",
        path=place,
    )


def _identity(writer: LogWriter) -> tuple[int, int] | None:
    """Return device and inode of the file that has the writer's name now, None if none has.

    A file system that cannot say just now is trusted.
    """
    try:
        status = os.stat(writer.path)  # noqa: PTH116  no Path object per flush
    except FileNotFoundError:
        return None
    except OSError:
        return _UNKNOWN
    return (status.st_dev, status.st_ino)


_HIDDEN = (".nfs", ".fuse_hidden")
"""Beginnings of the names that file systems give to a deleted file which is still open."""


def _moved_to(writer: LogWriter, identity: tuple[int, int] | None) -> str | None:
    """Return the name that an open file has now; None if it has none, or the system does not tell it."""
    try:
        place = os.readlink(f"/proc/self/fd/{writer.fileno()}")  # noqa: PTH115  text
        status = os.stat(place)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    is_it = (status.st_dev, status.st_ino) == identity
    return place if is_it and not os.path.basename(place).startswith(_HIDDEN) else None  # noqa: PTH119
