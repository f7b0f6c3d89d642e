"""A process that encodes large images, videos and embeddings, whose libraries hold the interpreter.

A thread beside the training would hold it up for as long as one call into such a library takes, and for half
of the time in between. The process is started with the first large one, ends when nothing has come for a
while, and with this one. If it cannot be started, the work is done in the thread after all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from stepscope import workers
from stepscope.record.memory import apart

LARGE_BYTES = 32 << 10
"""Below this, encoding takes some 1 ms at most."""
PIPE_BYTES = 1 << 20
APART_BYTES = 4 << 20
"""From this size on memory takes long to be let go of."""
TRIES = 2
"""Processes that try one array: if two of them died, the array may be the cause."""


def breathe() -> None:
    """Let another thread have the interpreter now; otherwise it would get it in 5 ms at the earliest."""
    time.sleep(0)


class Offload:
    """The process, and the way to it. One request is under way at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._useless = False

    def run(self, name: str, array: NDArray[Any], **facts: Any) -> bytes | None:
        """Return what a function of ``offload_worker`` makes of an array; None if it must be done here.

        Of many bytes it is a view.

        Args:
            name: The function.
            array: What it gets.
            facts: What else it gets.

        Raises:
            OSError: The function could not write its file.
        """
        if array.nbytes < LARGE_BYTES or self._useless:
            return None
        with self._lock:
            tries = 0
            while tries < TRIES:
                with contextlib.suppress(BrokenPipeError, EOFError, ValueError):
                    return self._exchange(name, np.ascontiguousarray(array), facts)
                tries += 1
                self._end()  # it died, or says what it should not
            return None

    def end(self) -> None:
        """End the process, because nothing has come for a while."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def forget(self) -> None:
        """Forget the process in a forked child, where it belongs to the parent."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            workers.close_pipes(process)
            process.returncode = 0  # not ours to wait for

    def _exchange(self, name: str, array: NDArray[Any], facts: dict[str, Any]) -> bytes | None:
        process = self._started()
        if process is None or process.stdin is None or process.stdout is None:
            return None
        head = {"name": name, "shape": array.shape, "dtype": array.dtype.str, "facts": facts}
        _write(process.stdin.fileno(), json.dumps(head).encode() + b"\n")
        _write(process.stdin.fileno(), array.reshape(-1).view(np.uint8).data)
        told = json.loads(process.stdout.readline() or b"null")
        if not isinstance(told, dict):
            raise EOFError
        if "errno" in told:
            raise OSError(told["errno"], told["strerror"])
        if "error" in told:
            return None  # done here it fails again, with its reason
        size = int(told["size"])
        data = _read(process.stdout, size)
        if len(data) != size:
            raise EOFError
        return data

    def _started(self) -> subprocess.Popen[bytes] | None:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            try:
                self._process = _start()
            except (OSError, RuntimeError, ValueError):  # no process can be had, or the interpreter ends
                self._useless = True
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            workers.end(process)


def _start() -> subprocess.Popen[bytes]:
    """Start the process: without the training's signals, and at a lower priority than the training."""
    if not sys.executable:
        raise RuntimeError("no interpreter to start")
    process = workers.start(
        "stepscope.record.offload_worker",
        stderr=subprocess.DEVNULL,
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
    )
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return process


def _write(target: int, data: bytes | memoryview) -> None:
    """Write all of it, a part at a time, without the interpreter's lock."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest[:PIPE_BYTES]) :]


def _read(source: IO[bytes], size: int) -> bytes:
    """Read so many bytes, fewer where they end; many into memory that holds up no thread."""
    if size < APART_BYTES:
        return source.read(size)
    whole = apart((size,), np.uint8).data
    at = 0
    while at < size:
        count = source.readinto(whole[at:])  # type: ignore[attr-defined]
        if not count:
            break
        at += count
    return cast("bytes", whole[:at].toreadonly())


OFFLOAD = Offload()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OFFLOAD.forget)
