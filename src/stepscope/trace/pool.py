"""Many profiles at once, each file a task for one of several processes: reading is all the machine's work."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from stepscope.child import Child
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.scratch import scratch
from stepscope.trace.cache import read as read_columns
from stepscope.trace.model import Trace

MIN_FILES = 4
"""Files below which starting processes is not worth it."""
LEAST_BYTES = 256 << 20
"""Bytes of JSON together: one process reads some 200 MiB a second, and others hand their results over."""
UNPACKED = 8
"""Usual ratio of a gzipped profile's content to its size on disk."""
LEAST_PROCESSORS = 3


def worth(paths: Sequence[Path]) -> bool:
    """Return whether reading files in several processes is worth starting them.

    A process whose memory is bounded reads alone: each of several would have the bound to itself.
    """
    return large(paths) and processors() >= LEAST_PROCESSORS and not bounded()


def large(paths: Sequence[Path]) -> bool:
    """Return whether files are so many and so large that reading them one by one is better."""
    return len(paths) >= MIN_FILES and sum(map(_size, paths)) >= LEAST_BYTES


def bounded() -> bool:
    """Return whether the memory of this process is bounded."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    return resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY


def processors() -> int:
    """Return how many processors this process may use."""
    with contextlib.suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_many(
    paths: Sequence[Path], *, cache: bool, processes: int | None = None
) -> Iterator[Trace | TraceError]:
    """Yield the result of each file, in their order; the reason, if it cannot be read.

    If a process dies, for instance because memory runs out, its file gets that as the reason, and another
    process goes on.

    Args:
        paths: The files.
        cache: Keep the columns in cache files.
        processes: By default one for each processor.
    """
    count = max(1, min(processes or processors(), len(paths)))
    idle: SimpleQueue[_ReadingProcess] = SimpleQueue()
    readers = [_ReadingProcess() for _ in range(count)]
    for reader in readers:
        idle.put(reader)

    def task(path: Path) -> Trace | TraceError:
        reader = idle.get()
        try:
            return reader.read(path, folder, cache=cache)
        except TraceError as error:
            return error
        finally:
            idle.put(reader)

    with scratch("read") as folder:
        pool = ThreadPoolExecutor(count, thread_name_prefix="stepscope-read")
        try:
            yield from pool.map(task, paths)
        finally:
            pool.shutdown(cancel_futures=True)
            for reader in readers:
                reader.child.end()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size * (UNPACKED if path.suffix == ".gz" else 1)
    except OSError:
        return 0


class _ReadingProcess:
    """One process, started when it is first asked."""

    def __init__(self) -> None:
        self.child = Child("stepscope.trace.worker", "0")

    def read(self, path: Path, folder: Path, *, cache: bool) -> Trace:
        """Return a profile.

        Raises:
            TraceError: It is not one, is damaged, or the process has died of it.
        """
        out = folder / f"{id(self)}.columns"
        request = {"path": os.fsencode(path).hex(), "kind": "file", "out": str(out), "cache": cache}
        answer = self._ask(path, request)
        if answer:
            kind = EmptyTraceError if answer.get("empty") else TraceError
            raise kind(answer["error"], hint=answer["hint"], path=path)
        trace = read_columns(out, {})
        out.unlink(missing_ok=True)
        if trace is None:
            raise TraceError("what was read is damaged", hint="free space for temporary files", path=path)
        return trace

    def _ask(self, path: Path, request: dict[str, Any]) -> dict[str, Any]:
        try:
            line = self.child.ask(json.dumps(request).encode())
        except OSError as error:
            raise TraceError(
                f"no process can be started to read it: {error.strerror or error}",
                hint="end other programs, or see the limits of this user",
                path=path,
            ) from None
        if line is None:
            self.child.end()
            raise TraceError(
                "the process that read it died",
                hint="if memory ran out, record fewer steps, or read fewer files at once",
                path=path,
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
