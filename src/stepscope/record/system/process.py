"""This process and the processes it has started, such as the workers of a data loader."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from stepscope.record.system.files import Rates

CPU_CORES = "system/process/cpu_cores"
CPU_RATIO = "system/process/cpu_ratio"
MEMORY = "system/process/memory_bytes"
THREADS = "system/process/thread_count"
OPEN_FILES = "system/process/open_file_count"
READ, WRITTEN = "system/process/read_bytes_per_second", "system/process/written_bytes_per_second"
CHILDREN, CHILDREN_CPU = "system/children/process_count", "system/children/cpu_cores"
CHILDREN_MEMORY = "system/children/memory_bytes"
MAX_PROCESSES = 4_096
"""On a machine with more, children are not looked for, as that means to look at each process."""


class Process:
    """CPU, memory, files and storage traffic of this process.

    Args:
        cpus: Returns how many CPUs this process may use.
    """

    def __init__(self, cpus: Callable[[], float]) -> None:
        self._cpus, self._process = cpus, psutil.Process()
        self._rates = Rates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings; what the system does not tell of a process is left out."""
        process = self._process
        counts: dict[str, float] = {CPU_CORES: time.process_time()}
        with suppress(psutil.Error, AttributeError, NotImplementedError, OSError):
            traffic = process.io_counters()
            counts |= {READ: traffic.read_bytes, WRITTEN: traffic.write_bytes}
        found = dict(self._rates(counts, now))
        if CPU_CORES in found:
            found[CPU_RATIO] = found[CPU_CORES] / self._cpus()
        found[MEMORY] = float(process.memory_info().rss)
        found[THREADS] = float(process.num_threads())
        with suppress(psutil.Error, AttributeError, OSError):
            found[OPEN_FILES] = float(process.num_fds())
        return found


class Children:
    """The processes below this one. Memory that several share is counted in each of them.

    Args:
        parent: Number of the process whose descendants are meant; None for this one.
    """

    def __init__(self, parent: int | None = None) -> None:
        self._parent = psutil.Process(parent)
        self._rates: dict[psutil.Process, Rates] = {}
        """By process, of which psutil compares number and time of start: numbers are used again."""

    def read(self, now: float) -> dict[str, float]:
        """Return the readings; none where there are no children."""
        children = self._parent.children(recursive=True) if len(psutil.pids()) <= MAX_PROCESSES else []
        rates, cores, memory = {}, 0.0, 0
        for child in children:
            with suppress(psutil.Error):  # it ended meanwhile
                used, resident = child.cpu_times(), child.memory_info().rss
                rate = rates[child] = self._rates.get(child) or Rates()
                cores += sum(value for _, value in rate({"cpu": used.user + used.system}, now))
                memory += resident
        known, self._rates = bool(self._rates), rates
        if not rates:
            return {}
        found = {CHILDREN: float(len(rates)), CHILDREN_MEMORY: float(memory)}
        return found | ({CHILDREN_CPU: cores} if known else {})
