"""How long the threads of a training wait for a processor while other work has it.

Linux counts that by thread (``schedstat``: time on a processor, time ready and not on one, times taken). Time
for which a control group of processes is held back by its limit counts, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from stepscope.record.cost import REPORT_SECS

CPU_WAIT = "system/process/cpu_wait_cores"
"""Seconds per second for which threads of this process and its children waited for a processor, summed."""
MAX_THREADS = 1_024
"""With more threads nothing is recorded: reading so many files takes a hundredth of a processor."""


def waited_s(values: Iterable[float], walls: Iterable[float], since: float | None = None) -> float:
    """Return the seconds that threads waited, from readings and their times.

    Args:
        values: Readings of ``CPU_WAIT``.
        walls: When they were taken, in seconds since the epoch.
        since: When the reading before them was taken; None if there was none.
    """
    total = 0.0
    for value, wall in zip(values, walls, strict=True):
        total += value * (REPORT_SECS if since is None else max(wall - since, 0.0))
        since = wall
    return total


class ProcessorWaits:
    """Reads the waits of this process and the processes below it; nothing if the system does not count.

    Args:
        proc: Directory of the kernel's files.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._before: dict[str, int] | None = None
        self._since = -math.inf

    def read(self, now: float) -> dict[str, float]:
        """Return a reading by its tag if one is due; nothing at the first call, from which the first begins.

        Args:
            now: Steady time in seconds.
        """
        elapsed_s = now - self._since
        if elapsed_s < REPORT_SECS:
            return {}
        self._since = now
        waits: dict[str, int] = {}
        for thread in _threads(self._proc, "self"):
            with suppress(OSError, ValueError, IndexError), open(f"{thread}/schedstat", "rb") as file:  # noqa: PTH123
                waits[thread] = int(file.read().split()[1])
            if len(waits) > MAX_THREADS:
                self._before = None
                return {}
        before, self._before = self._before, waits
        if before is None or not waits:
            return {}
        # A thread that ended takes its count along; one that began has all of it since.
        passed = sum(max(count - before.get(thread, 0), 0) for thread, count in waits.items())
        return {CPU_WAIT: 1e-9 * passed / elapsed_s}


def _threads(proc: str, process: str) -> Iterator[str]:
    """Yield the folder of each thread of a process, then those of the processes below it."""
    folder = f"{proc}/{process}/task"
    below: list[str] = []
    with suppress(OSError):
        for thread in os.listdir(folder):  # noqa: PTH208
            yield f"{folder}/{thread}"
            with suppress(OSError), open(f"{folder}/{thread}/children", "rb") as file:  # noqa: PTH123
                below += file.read().decode().split()
    for child in below:
        yield from _threads(proc, child)
