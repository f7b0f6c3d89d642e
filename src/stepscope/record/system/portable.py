"""Process and machine where there is no ``/proc``: through psutil, if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from stepscope.record.system import host, process
from stepscope.record.system.files import Rates


class Portable:
    """Reads what psutil knows on every system.

    Args:
        psutil: The library.
        directory: The run's.
        cpus: Returns how many CPUs this process may use.
    """

    def __init__(self, psutil: Any, directory: str, cpus: Callable[[], float]) -> None:
        self._psutil, self._directory, self._cpus = psutil, directory, cpus
        self._process = psutil.Process()
        self._rates = Rates()
        self._busy: tuple[float, float] | None = None

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        psutil = self._psutil
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(self._directory)
        found = {
            process.MEMORY: float(self._process.memory_info().rss),
            process.THREADS: float(self._process.num_threads()),
            host.MEMORY: float(memory.total - memory.available),
            host.MEMORY_RATIO: 1 - memory.available / memory.total,
            host.DISK_FREE: float(disk.free),
            host.DISK_RATIO: disk.used / max(disk.used + disk.free, 1),
        }
        found |= dict(self._rates(self._counts(), now))
        if process.CPU_CORES in found:
            found[process.CPU_RATIO] = found[process.CPU_CORES] / self._cpus()
        return found | self._cpu()

    def _counts(self) -> dict[str, float]:
        psutil, times = self._psutil, self._process.cpu_times()
        counts = {process.CPU_CORES: times.user + times.system}
        if traffic := psutil.disk_io_counters():
            counts |= {host.DISK_READ: traffic.read_bytes, host.DISK_WRITTEN: traffic.write_bytes}
        if traffic := psutil.net_io_counters():
            counts |= {host.RECEIVED: traffic.bytes_recv, host.SENT: traffic.bytes_sent}
        return counts

    def _cpu(self) -> dict[str, float]:
        times = self._psutil.cpu_times()
        total, idle = sum(times), times.idle
        before, self._busy = self._busy, (total, idle)
        if before is None or total <= before[0]:
            return {}
        return {host.CPU_RATIO: 1 - (idle - before[1]) / (total - before[0])}


def portable(directory: str, cpus: Callable[[], float]) -> Portable | None:
    """Return what psutil reads; None where it is not installed."""
    if importlib.util.find_spec("psutil") is None:
        return None
    return Portable(importlib.import_module("psutil"), directory, cpus)
