"""Reads and follows event files, whatever damage they have.

Bytes that are no record wait, are left out, or are read later:

- An incomplete record at the end waits for the rest.
- A stretch without records is a hole if it has many zeros: network file systems show bytes as zeros
  that are yet to arrive. Reading goes on behind it at once, and the missing bytes are read when they come.
- Without zeros it is broken for good: skipped and counted. If only the checksum of a payload is wrong,
  that record is skipped alone.
- A file that was replaced, cut, or rewritten in place is read from its beginning again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from stepscope.errors import EventFileError
from stepscope.events.columns import BLOCK_BYTES, Batch, TagColumns, Workspace, workspace
from stepscope.events.damage import MOST_WAITING, Effort, Stretch, next_record, survey
from stepscope.events.framing import HEADER_BYTES, OVERHEAD_BYTES, payload_length, unframe
from stepscope.events.messages import Event, decode_event
from stepscope.events.source import EventSource, aligned, stamp
from stepscope.events.status import FileStatus
from stepscope.kernels import records

MARK_BYTES = 64
"""So much of the first and of the last record is compared, to see that the file is still the same."""
LARGE_BYTES = 32 << 20
"""Records from this size on are read one at a time, whatever the number of files that are read at once."""
_one_at_a_time = threading.Lock()


def _turn(nbytes: int) -> AbstractContextManager[object]:
    return _one_at_a_time if nbytes > LARGE_BYTES else nullcontext()


class EventFile:
    """One event file, read on from the last read.

    Not safe for threads; each file can be read by a thread of its own.

    Args:
        path: The file. It may be empty, or vanish later: ``status`` says so.
        packed: Tags whose values are texts of packed numbers: batches hold these as ``packed``.

    Attributes:
        path: The file.
        status: The counts and the problems so far; look at it after each read.
        position: The position of the next read, in bytes.
        modified: When it was changed, as of the last read, in seconds since the epoch; None before one.

    Raises:
        EventFileError: There is no such file.
    """

    def __init__(self, path: str | os.PathLike[str], *, packed: Sequence[str] = ()) -> None:
        self.path, self._packed = Path(path), packed
        try:
            is_folder = S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116  Path costs three times as much
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise EventFileError("no such event file", hint="check the path", path=path) from None
        if is_folder:
            raise EventFileError("not an event file but a directory", hint="name a file in it", path=path)
        self._identity: tuple[int, int] | None = None
        self.modified: float | None = None
        self._start_over(FileStatus())

    def _start_over(self, status: FileStatus) -> None:
        self.status = status
        self.position = self._cursor = 0
        self._columns = TagColumns(self._packed)
        self._holes: list[Stretch] = []
        self._tail: Stretch | None = None
        self._marks: list[tuple[int, bytes]] = []
        self._stamp: tuple[int, ...] = ()
        self._effort = Effort()

    def state(self) -> dict[str, Any]:
        """Return the state for ``resume``: plain numbers, text, bytes and lists of them."""
        return {
            "position": int(self.position),
            "status": {
                name: value if isinstance(value, str | None) else int(value)
                for name, value in asdict(self.status).items()
            },
            "holes": [(int(hole.start), int(hole.end), list(hole.sums), hole.zeros) for hole in self._holes],
            "marks": [(int(at), mark) for at, mark in self._marks],
            "plugins": self._columns.plugins(),
        }

    @classmethod
    def resume(cls, path: str | os.PathLike[str], state: dict[str, Any]) -> EventFile:
        """Return a file whose next ``read`` goes on from this state.

        That the file was replaced or cut since is noticed as it always is.

        Raises:
            EventFileError: There is no such file.
        """
        file = cls(path)
        file.status = FileStatus(**state["status"])
        file.position = state["position"]
        file._holes = [Stretch(start, end, tuple(sums), zeros) for start, end, sums, zeros in state["holes"]]
        file._marks = [(at, bytes(mark)) for at, mark in state["marks"]]
        with workspace() as work:
            file._columns.learn(state["plugins"], work)
        return file

    def read(self, max_bytes: int | None = None) -> Batch:
        """Return every complete record since the last call.

        Damage to the file is not an error: it is in ``status``. If the file did not change, this
        costs one look at its size and time.

        Args:
            max_bytes: Stop after about this many, and go on there at the next call.
        """
        try:
            if self._stamp and stamp(self.path.stat()) == self._stamp and not self.status.zero_bytes:
                return Batch()
            with EventSource(self.path) as source, workspace() as work:
                return self._read(source, work, max_bytes)
        except OSError as error:
            self._stamp = ()
            self.status.describe(error=error.strerror or str(error))
            return Batch()

    def event_at(self, position: int) -> Event:
        """Return the event whose record is at a position, as columns give it.

        Raises:
            EventFileError: There is no record, or the file cannot be read.
        """
        try:
            with EventSource(self.path) as source:
                length = payload_length(source.bytes(position, HEADER_BYTES))
                with _turn(length or 0):
                    return self._event(source, position, length)
        except OSError as error:
            raise EventFileError(
                f"the file cannot be read: {error.strerror}",
                path=self.path,
                hint="let this user read the file, and check that its disk or network is available",
            ) from error

    def _event(self, source: EventSource, position: int, length: int | None) -> Event:
        record = b"" if length is None else source.bytes(position, OVERHEAD_BYTES + length)
        try:
            return decode_event(unframe(record))
        except EventFileError as error:
            raise EventFileError(
                f"no event at byte {position}: {error.message}",
                hint="the file was replaced since its positions were read: read it again",
                path=self.path,
            ) from error

    # --- one read -----------------------------------------------------------------------------------

    def _read(self, source: EventSource, work: Workspace, max_bytes: int | None) -> Batch:
        replaced, self.modified = self._see_replaced(source), source.stamp[3] / 1e9
        stop = source.size if max_bytes is None else min(source.size, self.position + max_bytes)
        late, error, self._stamp, self._tail = False, "", (), None
        try:
            late = self._read_holes(source, work)
            self._cursor = self.position
            if self._read_range(source, work, source.size, stop, portions=max_bytes is not None):
                self._stamp = source.stamp
        except OSError as problem:
            error = problem.strerror or str(problem)
        batch = self._columns.batch(work, self.status, replaced=replaced, late=late)
        self._take_stock(source, error)
        return batch

    def _see_replaced(self, source: EventSource) -> bool:
        """Start over if this is not the file, or not the content, that was read before."""
        replaced, truncated = self.status.replaced, self.status.truncated
        same, self._identity = self._identity in (None, source.identity), source.identity
        if same and source.size < self.position:
            truncated += 1
        elif not same or any(source.bytes(at, len(mark)) != mark for at, mark in self._marks):
            replaced += 1
        else:
            return False
        self._start_over(FileStatus(replaced=replaced, truncated=truncated))
        return True

    def _read_holes(self, source: EventSource, work: Workspace) -> bool:
        """Read the filled holes; return whether there was a record."""
        before, waiting, self._holes = self.status.records, self._holes, []
        try:
            while waiting:
                hole = waiting.pop(0)
                self._cursor = hole.start
                if survey(source, hole.start, hole.end).sums == hole.sums:
                    self._holes.append(hole)
                else:
                    self._read_range(source, work, hole.end, hole.end, closed=True)
        except OSError:
            self._holes += [Stretch(self._cursor, hole.end, (), True), *waiting]
            raise
        return self.status.records > before

    def _read_range(
        self,
        source: EventSource,
        work: Workspace,
        end: int,
        stop: int,
        *,
        closed: bool = False,
        portions: bool = False,
    ) -> bool:
        """Read records from the cursor on.

        Args:
            source: The file.
            work: Buffers.
            end: End of the bytes.
            stop: No record is read that begins here or later.
            closed: Nothing that begins before the end goes beyond it.
            portions: Stop even if the rows take much memory, whatever its bytes in the file.

        Returns:
            Whether there is nothing more to read before the end.
        """
        usual = min(BLOCK_BYTES, stop - self._cursor)
        size = usual
        while (at := self._cursor) < stop:
            if portions and self._columns.is_full:
                return False
            with _turn(size):
                buffer = work.buffer if size <= BLOCK_BYTES else aligned(size)
                block = source.block(buffer, at, min(end, at + size))
                count, read, status = records.scan(block, work.starts, work.lengths)
                if count:
                    self._columns.add(block, count, at, work, self.status)
                    self._mark(block, at, work.starts[count - 1] - HEADER_BYTES, read)
                needed, had = _needed(block), len(block)
                del block, buffer
            if count:
                self._advance(at + read, closed)
                size = usual
                continue
            if needed is None:
                status = records.BAD_HEADER
            elif status == records.INCOMPLETE and had < needed <= end - at:
                if had < size:
                    return False  # it was cut just now
                size = needed
                continue
            size = usual
            if (status == records.INCOMPLETE and not closed) or not self._pass(source, end, closed):
                return True
        return self._cursor >= end

    def _advance(self, at: int, closed: bool) -> None:
        self._cursor = at
        if not closed:
            self.position = at

    def _mark(self, block: memoryview, at: int, last: int, read: int) -> None:
        """Remember bytes of the first and of the last good record."""
        if not self._marks:
            self._marks = [(at, bytes(block[: min(MARK_BYTES, read)]))]
        first = max(last, read - MARK_BYTES)
        self._marks[1:] = [(at + first, bytes(block[first:read]))]

    def _pass(self, source: EventSource, end: int, closed: bool) -> bool:
        """Go to the next record behind other bytes; return False if all that is left has to wait."""
        length = payload_length(source.bytes(self._cursor, HEADER_BYTES)) or 0
        after = None
        if self._effort.allows(length, source.size):
            after = next_record(source, self._cursor, end, self._effort)
        if after is None and self._effort.is_spent and not closed:
            self._tail = Stretch(self._cursor, end, (), False)
            return False
        if after is None and closed:
            after = end
        stretch = survey(source, self._cursor, end if after is None else after)
        if after is None:
            return self._pass_tail(source, stretch)
        if stretch.zeros:
            self._holes.append(stretch)
        else:
            self._count_skipped(source, stretch)
        self._advance(after, closed)
        return True

    def _pass_tail(self, source: EventSource, stretch: Stretch) -> bool:
        """Skip a record at the end whose payload is wrong; anything else there may still be written."""
        length = payload_length(source.bytes(stretch.start, HEADER_BYTES))
        long = stretch.end - stretch.start > MOST_WAITING
        zeros = not long and (stretch.zeros or source.bytes(stretch.end - 1, 1) == b"\0")
        if zeros or length is None:
            self._tail = Stretch(stretch.start, stretch.end, stretch.sums, zeros)
            return False
        after = stretch.start + OVERHEAD_BYTES + length
        self._count_skipped(source, Stretch(stretch.start, after, (), False))
        self._advance(after, False)
        return True

    def _count_skipped(self, source: EventSource, stretch: Stretch) -> None:
        length = payload_length(source.bytes(stretch.start, HEADER_BYTES))
        if length is not None and stretch.start + OVERHEAD_BYTES + length == stretch.end:
            self.status.skipped_records += 1
        else:
            self.status.resyncs += 1
        self.status.skipped_bytes += stretch.end - stretch.start

    def _take_stock(self, source: EventSource, error: str) -> None:
        status, rest = self.status, source.size - self.position
        waits_for_zeros = self._tail is not None and self._tail.zeros
        status.bytes = source.size
        status.zero_bytes = sum(hole.end - hole.start for hole in self._holes) + rest * waits_for_zeros
        status.torn_bytes = rest if self._stamp and not waits_for_zeros else 0
        head = b"" if status.records or error else source.bytes(0, MARK_BYTES)
        broken = self._tail is not None and not waits_for_zeros
        status.describe(broken_tail=broken, error=error, head=head)


def _needed(block: memoryview) -> int | None:
    """Return the bytes that the first record needs, as far as they are known; None if none begins."""
    if len(block) < HEADER_BYTES:
        return HEADER_BYTES
    length = payload_length(bytes(block[:HEADER_BYTES]))
    return None if length is None else OVERHEAD_BYTES + length
