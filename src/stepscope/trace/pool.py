"""Many profiles at once, each file a task for one of several processes: reading is all the machine's work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stepscope.child import processors
from stepscope.errors import TraceError
from stepscope.scratch import scratch
from stepscope.trace.cache import read as read_columns
from stepscope.trace.cache import write as write_columns
from stepscope.trace.model import Trace
from stepscope.workers import DIED, data_bound, spread

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
    return large(paths) and processors() >= LEAST_PROCESSORS and not data_bound()


def large(paths: Sequence[Path]) -> bool:
    """Return whether files are so many and so large that reading them one by one is better."""
    return len(paths) >= MIN_FILES and sum(map(_size, paths)) >= LEAST_BYTES


Read = Callable[..., Trace]
"""Reads one file, given its path and whether its columns are kept in a cache file."""


class Task(NamedTuple):
    """A file that a process reads, and where it leaves the columns."""

    number: int
    read: Read
    path: Path
    out: Path
    cache: bool


def read_many(
    read: Read, paths: Sequence[Path], *, cache: bool, processes: int | None = None
) -> Iterator[Trace | TraceError]:
    """Yield the result of each file, in their order; the reason, if it cannot be read.

    If a process dies, for instance because memory runs out, its file gets that as the reason, and another
    process goes on.

    Args:
        read: A module-level function that reads a file.
        paths: The files.
        cache: Keep the columns in cache files.
        processes: By default one for each processor.
    """
    with scratch("read") as folder:
        tasks = [Task(number, read, path, folder / str(number), cache) for number, path in enumerate(paths)]
        done: dict[int, Trace | TraceError] = {}
        following = 0
        with contextlib.closing(
            spread(_answer, tasks, processes=processes or processors(), failed=_died)
        ) as answers:
            for number, error in answers:
                done[number] = error or _columns(tasks[number])
                while following in done:
                    yield done.pop(following)
                    following += 1


def _answer(task: Task) -> tuple[int, TraceError | None]:
    try:
        write_columns(task.out, task.read(task.path, cache=task.cache), {})
    except TraceError as error:
        return task.number, error
    return task.number, None


def _died(task: Task, why: str) -> tuple[int, TraceError]:
    return task.number, TraceError(
        "the process that read it died" if why == DIED else why,
        hint="if memory ran out, record fewer steps, or read fewer files at once",
        path=task.path,
    )


def _columns(task: Task) -> Trace | TraceError:
    trace = read_columns(task.out, {})
    task.out.unlink(missing_ok=True)
    if trace is None:
        hint = "free space for temporary files"
        return TraceError("what was read is damaged", hint=hint, path=task.path)
    return trace


def _size(path: Path) -> int:
    try:
        return path.stat().st_size * (UNPACKED if path.suffix == ".gz" else 1)
    except OSError:
        return 0
