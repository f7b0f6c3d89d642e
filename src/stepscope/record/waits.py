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
FIRST_SECS, DENSE = 0.25, 8
"""Readings are at most an eighth of the time so far apart, so that a run of seconds has some, too; the first
comes with the second turn of the writer."""
LAST_SECS = 0.05
"""The end of a run is read if the last reading is older: a share of less would be of few of its steps."""
MAX_THREADS = 1_024
"""With more threads nothing is recorded: reading so many files takes a hundredth of a processor."""


def waited_s(values: Iterable[float], walls: Iterable[float], since: float) -> float:
    """Return the seconds that threads waited, from readings and their times.

    Args:
        values: Readings of ``CPU_WAIT``.
        walls: When they were taken, in seconds since the epoch.
        since: When the reading before them was taken, or the run began.
    """
    total = 0.0
    for value, wall in zip(values, walls, strict=True):
        total += value * max(wall - since, 0.0)
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
        self._begun, self._since = math.inf, -math.inf

    def read(self, now: float, *, trains: bool, last: bool = False) -> dict[str, float]:
        """Return a reading by its tag if one is due; nothing at the first call, from which the first begins.

        Args:
            now: Steady time in seconds.
            trains: The run has steps. Without, readings are not made closer for the sake of short runs.
            last: No later one comes.
        """
        self._begun = min(self._begun, now)
        elapsed_s = now - self._since
        apart_s = min(max(FIRST_SECS, (now - self._begun) / DENSE), REPORT_SECS) if trains else REPORT_SECS
        if elapsed_s < (LAST_SECS if last and trains else apart_s):
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
