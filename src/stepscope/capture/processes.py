"""Worker processes that load data, as a capture of their parent sees them: their spans and their stacks.

A worker keeps its last spans in a file of fixed size, a ring that it maps into memory: a span costs a
microsecond, whether or not anybody captures. Times are Unix nanoseconds, the clock of the profilers.

For stacks the parent raises a flag in a file that its workers map into memory: the number of a capture, 0
while there is none. In each worker a thread checks it ten times a second and at every batch. While it is
raised, the thread notes the worker's stack every few milliseconds, in a separate file.

The parent reads both once a capture is written. Nothing is asked of a worker that is busy or dead, and
nobody waits for one.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import CodeType, FrameType
from typing import IO

from stepscope.kernels.frames import Call, line_of
from stepscope.kernels.frames import stack as stack_of
from stepscope.scratch import Scratch

INTERVAL_SECS, IDLE_SECS = 0.005, 0.1
MOST_SAMPLES = 20_000
"""Most samples of one worker in one capture: enough for a hundred seconds."""
MOST_BYTES = 64 << 20
"""Most bytes that are read of a worker's file."""
_FLAG = struct.Struct("<q")
_STACKS_ENDING = ".samples"
_PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


class Flag:
    """The number of the capture that wants stacks, shared with the workers; 0: none.

    Args:
        folder: Directory of files that the parent process shares.

    Raises:
        OSError: It cannot be made or mapped.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / "capture").open("a+b") as file:
            if file.tell() < _FLAG.size:
                file.truncate(_FLAG.size)
            self._memory = mmap.mmap(file.fileno(), _FLAG.size)

    @property
    def number(self) -> int:
        """The capture."""
        return int(_FLAG.unpack_from(self._memory)[0])

    @number.setter
    def number(self, value: int) -> None:
        _FLAG.pack_into(self._memory, 0, value)


class WorkerSampler:
    """Samples the thread that creates it, from beginning to end of each batch, while a capture wants it.

    Args:
        folder: Directory of files that the parent process shares.
        clock: Returns Unix ns.

    Raises:
        OSError: The flag cannot be mapped.
    """

    def __init__(self, folder: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self._folder, self._clock, self._flag = folder, clock, Flag(folder)
        self._target = threading.get_ident()
        self._around: FrameType | None = None
        """The frame in which a batch is fetched; None between batches."""
        self._wake = threading.Event()
        self._file: IO[str] | None = None
        self._number, self._samples, self._stacks = 0, 0, dict[tuple[str, ...], int]()

    def start(self) -> None:
        """Sample on a thread, as long as the folder exists.

        Raises:
            RuntimeError: No thread can be started.
        """
        threading.Thread(target=self._loop, name="stepscope-sampler", daemon=True).start()

    def begin(self, around: FrameType) -> None:
        """Note that the fetching of a batch begins within a frame."""
        self._around = around
        if self._flag.number:
            self._wake.set()

    def end(self) -> None:
        """Note that it ended."""
        self._around = None

    def _loop(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the folder went with its run, or the disk is full
            while self._folder.exists():
                if self.sample():
                    time.sleep(INTERVAL_SECS)
                else:
                    self._wake.wait(IDLE_SECS)
                    self._wake.clear()

    def sample(self) -> bool:
        """Note the worker's stack; return whether a capture wants that.

        Raises:
            OSError: It cannot be written.
        """
        number = self._flag.number
        if number != self._number:
            self._begin_file(number)
        if not number or self._samples >= MOST_SAMPLES:
            return False
        around = self._around
        stack = () if around is None else _texts(stack_of(self._target, around))
        if stack and self._file is not None:
            known = self._stacks.get(stack)
            if known is None:
                known = self._stacks[stack] = len(self._stacks)
                self._file.write(json.dumps(stack) + "\n")
            self._file.write(f"[{self._clock()},{known}]\n")
            self._file.flush()
            self._samples += 1
        return True

    def _begin_file(self, number: int) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._number, self._samples, self._stacks = number, 0, {}
        if number:
            path = self._folder / f"{os.getpid()}-{number}{_STACKS_ENDING}"
            self._file = path.open("w", encoding="utf-8")


def _texts(calls: list[Call]) -> tuple[str, ...]:
    return tuple(frame_text(code, instruction) for code, instruction in reversed(calls))


def read_stacks(folder: Path, number: int, shift_ns: int = 0) -> list[dict[str, object]]:
    """Return the workers' notes in one capture, as JSON types; never raises.

    Args:
        folder: Directory of files that the parent process shares.
        number: Of the capture.
        shift_ns: Is added to their Unix times.
    """
    stacks = []
    for path in sorted(folder.glob(f"*-{number}{_STACKS_ENDING}")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            worker = _read(path, shift_ns)
            if worker["samples"]:
                stacks.append({"pid": int(path.name.partition("-")[0]), **worker})
    return stacks


def _read(path: Path, shift_ns: int) -> dict[str, list[object]]:
    frames: dict[str, int] = {}
    stacks: list[object] = []
    times: list[object] = []
    samples: list[object] = []
    with path.open("rb") as file:
        text = file.read(MOST_BYTES)
    for line in text.splitlines(keepends=True):
        if not line.endswith(b"\n"):  # being written just now
            break
        entry = json.loads(line)
        if entry and isinstance(entry[0], str):
            stacks.append([frames.setdefault(frame, len(frames)) for frame in entry])
        else:
            when, number = entry
            times.append(when + shift_ns)
            samples.append(number)
    return {"frames": list(frames), "stacks": stacks, "times_ns": times, "samples": samples}


def frame_text(code: CodeType, instruction: int) -> str:
    """Return ``file.py(12): function``, with the line that runs."""
    return f"{_file_of(code)}({line_of(code, instruction)}): {code.co_name}"


def function_text(code: CodeType) -> str:
    """Return ``file.py(12): function``, with the line at which the function begins."""
    return f"{_file_of(code)}({code.co_firstlineno}): {code.co_name}"


def _file_of(code: CodeType) -> str:
    file = code.co_filename
    if file.startswith(_PACKAGE):  # the same wherever it is installed
        return f"stepscope/{file.removeprefix(_PACKAGE)}"
    return file


SPANS = 4096
"""Spans kept of each worker; the oldest goes first."""
_HEAD = struct.Struct("<q48s")
_SPAN = struct.Struct("<qqi28s")
_ENDING = ".spans"


@dataclass(frozen=True)
class Span:
    """One stretch of work of a process.

    Attributes:
        name: The work.
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
    """Return the spans of a process between two times.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a ring.
    """
    data = path.read_bytes()
    if len(data) != _HEAD.size + SPANS * _SPAN.size:
        raise ValueError(f"{path.name}: {len(data)} bytes")
    count, name = _HEAD.unpack_from(data)
    spans = []
    # A ring that is full may lose its oldest span while it is read.
    for number in range(max(count - SPANS + 1, 0), count):
        begun, ended, batch, what = _SPAN.unpack_from(data, _HEAD.size + number % SPANS * _SPAN.size)
        if begun < until_ns and ended > since_ns:
            spans.append(Span(what.rstrip(b"\0").decode("utf-8", "replace"), begun, ended, batch))
    return ProcessSpans(
        int(path.name.removesuffix(_ENDING)), name.rstrip(b"\0").decode("utf-8", "replace"), tuple(spans)
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
        """Return the samples of workers in a capture, their Unix times shifted; never raises."""
        folder = self.folder
        return read_stacks(folder, capture, shift_ns) if folder is not None and capture else []

    def during(self, since_ns: int, until_ns: int | None = None) -> list[ProcessSpans]:
        """Return the spans of workers between two times, without idle ones; never raises."""
        folder, until = self.folder, time.time_ns() if until_ns is None else until_ns
        if folder is None or self._owner != os.getpid():
            return []
        spans = []
        for path in sorted(folder.glob(f"*{_ENDING}")):
            with contextlib.suppress(OSError, ValueError):  # a worker that begins just now
                process = read_ring(path, since_ns, until)
                if process.spans:
                    spans.append(process)
        return spans


processes = Processes()
"""Of this process."""


def trace_events(processes: Iterable[ProcessSpans], base_ns: int) -> list[dict[str, object]]:
    """Return the spans as events of Chrome's JSON, with the names of their processes.

    Args:
        processes: The processes.
        base_ns: Unix time at which the file's times, in µs, begin.
    """
    events: list[dict[str, object]] = []
    for process in processes:
        place = {"pid": process.pid, "tid": process.pid}
        named = {"ph": "M", "ts": 0, **place, "args": {"name": process.name}}
        events += [{**named, "name": what} for what in ("process_name", "thread_name")]
        for span in process.spans:
            begun, length = span.begun_ns - base_ns, span.ended_ns - span.begun_ns
            event = {"ph": "X", "cat": "user_annotation", "name": span.name, **place}
            event |= {"ts": begun / 1e3, "dur": length / 1e3, "args": {"batch": span.number}}
            events.append(event)
    return events
