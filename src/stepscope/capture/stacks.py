"""Stacks as text, also of worker processes that load data, so that a capture names the data set's line.

The parent raises a flag in a file that its workers map into memory: the number of a capture, 0 while there is
none. In each worker a thread checks it ten times a second and at every batch. While it is raised, the thread
notes every few milliseconds where the worker is in its batch, in a separate file that the parent reads once
the profile is written. Nothing is asked of a worker that is busy or dead, and nobody waits for one.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import IO

from stepscope.kernels.frames import Call, line_of
from stepscope.kernels.frames import stack as stack_of

INTERVAL_SECS, IDLE_SECS = 0.005, 0.1
MOST_SAMPLES = 20_000
"""Most samples of one worker in one capture: enough for a hundred seconds."""
MOST_BYTES = 64 << 20
"""Most bytes that are read of a worker's file."""
_FLAG = struct.Struct("<q")
_ENDING = ".samples"
_PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"


class Flag:
    """The number of the capture that wants stacks, shared with the workers; 0: none.

    Args:
        folder: Of the parent.

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
        folder: Of the parent.
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
        """Note where the worker is; return whether a capture wants that.

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
            path = self._folder / f"{os.getpid()}-{number}{_ENDING}"
            self._file = path.open("w", encoding="utf-8")


def _texts(calls: list[Call]) -> tuple[str, ...]:
    return tuple(frame_text(code, instruction) for code, instruction in reversed(calls))


def read_stacks(folder: Path, number: int, shift_ns: int = 0) -> list[dict[str, object]]:
    """Return what the workers noted in one capture, as JSON types; never raises.

    Args:
        folder: Of the parent.
        number: Of the capture.
        shift_ns: Is added to their Unix times.
    """
    found = []
    for path in sorted(folder.glob(f"*-{number}{_ENDING}")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            worker = _read(path, shift_ns)
            if worker["samples"]:
                found.append({"pid": int(path.name.partition("-")[0]), **worker})
    return found


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
