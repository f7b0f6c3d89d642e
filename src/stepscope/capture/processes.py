"""Spans of worker processes, which a capture of their parent joins: when each fetched and collated batches.

A worker keeps its last spans in a file of fixed size, a ring that it maps into memory: a span costs a
microsecond, whether or not anybody captures, and nothing has to be asked of a worker that is busy or dead.
The parent reads the rings once a capture is written. Times are Unix nanoseconds, the clock of the profilers.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from stepscope.capture.stacks import Flag, read_stacks
from stepscope.scratch import Scratch

SPANS = 4096
"""Spans kept of each worker; the oldest goes first."""
_HEAD = struct.Struct("<q48s")
_SPAN = struct.Struct("<qqi28s")
_ENDING = ".spans"


@dataclass(frozen=True)
class Span:
    """One stretch of work of a process.

    Attributes:
        name: What it did.
        begun_ns: Unix time.
        ended_ns: Likewise.
        number: Of the batch, counted by the worker from 0; -1 if it has none.
    """

    name: str
    begun_ns: int
    ended_ns: int
    number: int = -1


@dataclass(frozen=True)
class ProcessSpans:
    """The spans of one process, in order of their ends."""

    pid: int
    name: str
    spans: tuple[Span, ...]


class SpanRing:
    """The spans of this process; made by a worker.

    Args:
        folder: Of its parent.
        name: Of the worker, at most 48 bytes.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{os.getpid()}{_ENDING}"
        size = _HEAD.size + SPANS * _SPAN.size
        with path.open("w+b") as file:
            file.truncate(size)
            self._memory = mmap.mmap(file.fileno(), size)
        self._name, self._count = name.encode()[:48], 0
        _HEAD.pack_into(self._memory, 0, 0, self._name)

    def add(self, name: bytes, begun_ns: int, ended_ns: int, number: int) -> None:
        """Keep a span, with up to 28 bytes of its name."""
        at = _HEAD.size + self._count % SPANS * _SPAN.size
        _SPAN.pack_into(self._memory, at, begun_ns, ended_ns, number, name)
        self._count += 1
        _HEAD.pack_into(self._memory, 0, self._count, self._name)


def read_ring(path: Path, since_ns: int, until_ns: int) -> ProcessSpans:
    """Return what a process did between two times.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a ring.
    """
    data = path.read_bytes()
    if len(data) != _HEAD.size + SPANS * _SPAN.size:
        raise ValueError(f"{path.name}: {len(data)} bytes")
    count, name = _HEAD.unpack_from(data)
    found = []
    # A ring that is full may lose its oldest span while it is read.
    for number in range(max(count - SPANS + 1, 0), count):
        begun, ended, batch, what = _SPAN.unpack_from(data, _HEAD.size + number % SPANS * _SPAN.size)
        if begun < until_ns and ended > since_ns:
            found.append(Span(what.rstrip(b"\0").decode("utf-8", "replace"), begun, ended, batch))
    return ProcessSpans(
        int(path.name.removesuffix(_ENDING)), name.rstrip(b"\0").decode("utf-8", "replace"), tuple(found)
    )


class Processes:
    """The workers of this process; they share one folder, which exists while somebody needs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted = 0
        self._owner = 0
        self._flag: Flag | None = None
        self._captures = 0
        self._place: Scratch | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the workers' rings; None while nobody wants them."""
        place = self._place
        return None if place is None else place.path

    def open(self) -> Path:
        """Return the folder for the workers' rings; once for each ``close``.

        Raises:
            OSError: There is no place for it.
        """
        with self._lock:
            if self._place is None or self._owner != os.getpid():
                self._place, self._wanted = Scratch("workers"), 0
                self._owner = os.getpid()
                self._flag = Flag(self._place.path)
            self._wanted += 1
            return self._place.path

    def close(self) -> None:
        """Release the folder; the last user deletes it."""
        with self._lock:
            if self._owner != os.getpid():
                return  # a forked child: the folder is the parent's
            self._wanted -= 1
            if self._wanted <= 0 and self._place is not None:
                self._place.remove()
                self._place, self._flag, self._wanted = None, None, 0

    def want_stacks(self) -> int:
        """Make workers sample their stacks; return the number of this capture, 0 if none can."""
        with self._lock:
            if self._flag is None or self._owner != os.getpid():
                return 0
            self._captures += 1
            self._flag.number = self._captures
            return self._captures

    def want_no_stacks(self) -> None:
        """Have workers sample no more."""
        with self._lock:
            if self._flag is not None and self._owner == os.getpid():
                self._flag.number = 0

    def stacks(self, capture: int, shift_ns: int) -> list[dict[str, object]]:
        """Return what workers sampled in a capture, their Unix times shifted; never raises."""
        folder = self.folder
        return read_stacks(folder, capture, shift_ns) if folder is not None and capture else []

    def during(self, since_ns: int, until_ns: int | None = None) -> list[ProcessSpans]:
        """Return what workers did between two times, without those that did nothing; never raises."""
        folder, until = self.folder, time.time_ns() if until_ns is None else until_ns
        if folder is None or self._owner != os.getpid():
            return []
        found = []
        for path in sorted(folder.glob(f"*{_ENDING}")):
            with contextlib.suppress(OSError, ValueError):  # a worker that begins just now
                process = read_ring(path, since_ns, until)
                if process.spans:
                    found.append(process)
        return found


processes = Processes()
"""Of this process."""


def trace_events(found: Iterable[ProcessSpans], base_ns: int) -> list[dict[str, object]]:
    """Return the spans as events of Chrome's JSON, with the names of their processes.

    Args:
        found: The processes.
        base_ns: Unix time at which the file's times, in µs, begin.
    """
    events: list[dict[str, object]] = []
    for process in found:
        place = {"pid": process.pid, "tid": process.pid}
        named = {"ph": "M", "ts": 0, **place, "args": {"name": process.name}}
        events += [{**named, "name": what} for what in ("process_name", "thread_name")]
        for span in process.spans:
            begun, length = span.begun_ns - base_ns, span.ended_ns - span.begun_ns
            event = {"ph": "X", "cat": "user_annotation", "name": span.name, **place}
            event |= {"ts": begun / 1e3, "dur": length / 1e3, "args": {"batch": span.number}}
            events.append(event)
    return events
