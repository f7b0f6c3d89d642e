"""This process and the processes it has started, such as the workers of a data loader."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable

from stepscope.record.system import files
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
"""On a machine with more, children are not looked for where that means to look at each process."""


class Process:
    """CPU, memory, files and storage traffic of this process, from ``/proc/self``.

    Args:
        cpus: Returns how many CPUs this process may use.
        proc: Where the kernel's files are.
    """

    def __init__(self, cpus: Callable[[], float], proc: str = "/proc") -> None:
        self._cpus, self._proc = cpus, proc
        self._rates = Rates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        counts = {CPU_CORES: used.ru_utime + used.ru_stime}
        traffic = files.table(f"{self._proc}/self/io", separator=":")
        counts |= {
            tag: traffic[name]
            for tag, name in ((READ, "read_bytes"), (WRITTEN, "write_bytes"))
            if name in traffic
        }
        found = dict(self._rates(counts, now))
        if CPU_CORES in found:
            found[CPU_RATIO] = found[CPU_CORES] / self._cpus()
        pages = (files.text(f"{self._proc}/self/statm") or "").split()
        if len(pages) > 1:
            found[MEMORY] = float(int(pages[1]) * os.sysconf("SC_PAGE_SIZE"))
        for tag, directory in ((THREADS, "task"), (OPEN_FILES, "fd")):
            if entries := files.names(f"{self._proc}/self/{directory}"):
                found[tag] = float(len(entries))
        return found


class Children:
    """The processes below this one. Memory that several share is counted in each of them.

    Args:
        proc: Where the kernel's files are.
        parent: Number of the process whose descendants are meant.
    """

    def __init__(self, proc: str = "/proc", parent: int | None = None) -> None:
        self._proc, self._parent = proc, os.getpid() if parent is None else parent
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._rates: dict[tuple[int, str], Rates] = {}

    def read(self, now: float) -> dict[str, float]:
        """Return the readings; none where there are no children."""
        children = self._below()
        if not children:
            self._rates = {}
            return {}
        page = os.sysconf("SC_PAGE_SIZE")
        rates, cores, memory = {}, 0.0, 0
        for pid, fields in children.items():
            key = (pid, fields[19])  # with the time of its start, as numbers are used again
            rate = rates[key] = self._rates.get(key) or Rates()
            seconds = (int(fields[11]) + int(fields[12])) / self._ticks
            cores += sum(value for _, value in rate({"cpu": seconds}, now))
            memory += int(fields[21]) * page
        known, self._rates = bool(self._rates), rates
        found = {CHILDREN: float(len(children)), CHILDREN_MEMORY: float(memory)}
        if known:
            found[CHILDREN_CPU] = cores
        return found

    def _below(self) -> dict[int, list[str]]:
        """Return the fields of ``stat``, from the third on, of each descendant."""
        numbers = [int(name) for name in files.names(self._proc) if name.isdigit()]
        if len(numbers) > MAX_PROCESSES:
            return {}
        fields = {pid: found for pid in numbers if (found := self._stat(pid))}
        below: dict[int, list[str]] = {}
        wanted = {self._parent}
        while wanted:
            wanted = {pid for pid, found in fields.items() if int(found[1]) in wanted and pid not in below}
            below |= {pid: fields[pid] for pid in wanted}
        return below

    def _stat(self, pid: int) -> list[str] | None:
        found = files.text(f"{self._proc}/{pid}/stat")
        # The name, in parentheses, may hold anything.
        fields = found.rpartition(")")[2].split() if found else []
        return fields if len(fields) > 21 else None
