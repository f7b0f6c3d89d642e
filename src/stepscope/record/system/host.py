"""The machine, and this process with those it started. In a container too, the numbers are the machine's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from stepscope.record.system import files
from stepscope.record.system.files import CounterRates

CPU_CORES = "system/process/cpu_cores"
PROCESS_CPU_RATIO = "system/process/cpu_ratio"
PROCESS_MEMORY = "system/process/memory_bytes"
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
        self._rates = CounterRates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings; what the system does not tell of a process is left out."""
        process = self._process
        counts: dict[str, float] = {CPU_CORES: time.process_time()}
        with suppress(psutil.Error, AttributeError, NotImplementedError, OSError):
            traffic = process.io_counters()
            counts |= {READ: traffic.read_bytes, WRITTEN: traffic.write_bytes}
        found = dict(self._rates(counts, now))
        if CPU_CORES in found:
            found[PROCESS_CPU_RATIO] = found[CPU_CORES] / self._cpus()
        found[PROCESS_MEMORY] = float(process.memory_info().rss)
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
        self._rates: dict[psutil.Process, CounterRates] = {}
        """By process, of which psutil compares number and time of start: numbers are used again."""

    def read(self, now: float) -> dict[str, float]:
        """Return the readings; none where there are no children."""
        children = self._parent.children(recursive=True) if len(psutil.pids()) <= MAX_PROCESSES else []
        rates, cores, memory = {}, 0.0, 0
        for child in children:
            with suppress(psutil.Error):  # it ended meanwhile
                used, resident = child.cpu_times(), child.memory_info().rss
                rate = rates[child] = self._rates.get(child) or CounterRates()
                cores += sum(value for _, value in rate({"cpu": used.user + used.system}, now))
                memory += resident
        known, self._rates = bool(self._rates), rates
        if not rates:
            return {}
        found = {CHILDREN: float(len(rates)), CHILDREN_MEMORY: float(memory)}
        return found | ({CHILDREN_CPU: cores} if known else {})


CPU_RATIO, IOWAIT_RATIO = "system/host/cpu_ratio", "system/host/cpu_iowait_ratio"
STEAL_RATIO = "system/host/cpu_steal_ratio"
MEMORY, MEMORY_RATIO = "system/host/memory_used_bytes", "system/host/memory_used_ratio"
SWAP = "system/host/swap_used_bytes"
DISK_FREE, DISK_RATIO = "system/disk/free_bytes", "system/disk/used_ratio"
DISK_READ, DISK_WRITTEN = "system/disk/read_bytes_per_second", "system/disk/written_bytes_per_second"
DISK_BUSY = "system/disk/busy_ratio"
RECEIVED, SENT = "system/network/received_bytes_per_second", "system/network/sent_bytes_per_second"
FABRIC_RECEIVED = "system/fabric/received_bytes_per_second"
FABRIC_SENT = "system/fabric/sent_bytes_per_second"
WORD_BYTES = 4  # of InfiniBand's counters port_rcv_data and port_xmit_data
_GUESTS = ("guest", "guest_nice")  # which user and nice hold already
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")  # or made of others, which are counted


class Cpu:
    """Share of the processors' time that is used, waits for disks, or is taken by other virtual machines."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        times = {name: s for name, s in psutil.cpu_times()._asdict().items() if name not in _GUESTS}
        before, self._before = self._before, times
        passed = {name: later - before.get(name, later) for name, later in times.items()}
        total = sum(passed.values())
        if total <= 0 or min(passed.values()) < 0:
            return {}
        found = {CPU_RATIO: 1 - (passed["idle"] + passed.get("iowait", 0.0)) / total}
        for tag, name in ((IOWAIT_RATIO, "iowait"), (STEAL_RATIO, "steal")):
            if name in passed:
                found[tag] = passed[name] / total
        return found


class HostMemory:
    """Memory that is in use and could not be freed, and swap."""

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        used = memory.total - memory.available
        found = {MEMORY: float(used), MEMORY_RATIO: used / memory.total}
        return found | ({SWAP: float(swap.used)} if swap.total else {})


class Disk:
    """Room where the run is written, and traffic of the machine's disks.

    Args:
        directory: The run's.
        sys: Where the kernel's files are.
    """

    def __init__(self, directory: str, sys: str = "/sys") -> None:
        self._directory = directory
        self._disks = {name for name in files.names(f"{sys}/block") if not name.startswith(_NO_DISKS)}
        self._rates = CounterRates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        found: dict[str, float] = {}
        try:
            room = psutil.disk_usage(self._directory)
        except OSError:
            room = None
        if room and room.total:
            # As df does: what is kept for root is neither used nor free.
            found = {DISK_FREE: float(room.free), DISK_RATIO: room.used / max(room.used + room.free, 1)}
        return found | self._traffic(now)

    def _traffic(self, now: float) -> dict[str, float]:
        counts: dict[str, float] = {}
        for name, disk in _disks().items():
            if name in self._disks or not self._disks:
                add(counts, DISK_READ, disk.read_bytes)
                add(counts, DISK_WRITTEN, disk.write_bytes)
                add(counts, f"busy {name}", getattr(disk, "busy_time", None), 1e-3)
        found = dict(self._rates(counts, now))
        busy = [found.pop(name) for name in list(found) if name.startswith("busy ")]
        return found | ({DISK_BUSY: min(max(busy), 1.0)} if busy else {})


def _disks() -> dict[str, Any]:
    try:
        found: dict[str, Any] = psutil.disk_io_counters(perdisk=True, nowrap=False)
    except NotImplementedError:  # the system counts nothing
        return {}
    return found


class Network:
    """Traffic of the machine's network cards, and of its InfiniBand or similar ports.

    Bridges, tunnels and bonds repeat what cards carry, so only cards count; in a container, which has none,
    everything but the loopback does.

    Args:
        sys: Where the kernel's files are.
    """

    def __init__(self, sys: str = "/sys") -> None:
        self._rates = CounterRates()
        cards = f"{sys}/class/net"
        self._cards = {name for name in files.names(cards) if os.path.exists(f"{cards}/{name}/device")}  # noqa: PTH110
        fabric = f"{sys}/class/infiniband"
        self._ports = [
            f"{fabric}/{card}/ports/{port}/counters"
            for card in files.names(fabric)
            for port in files.names(f"{fabric}/{card}/ports")
        ]

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        counts: dict[str, float] = {}
        for name, card in psutil.net_io_counters(pernic=True, nowrap=False).items():
            if name in self._cards if self._cards else not name.startswith("lo"):
                add(counts, RECEIVED, card.bytes_recv)
                add(counts, SENT, card.bytes_sent)
        for port in self._ports:
            add(counts, FABRIC_RECEIVED, files.integer(f"{port}/port_rcv_data"), WORD_BYTES)
            add(counts, FABRIC_SENT, files.integer(f"{port}/port_xmit_data"), WORD_BYTES)
        return dict(self._rates(counts, now))


def add(counts: dict[str, float], tag: str, number: float | None, unit: float = 1) -> None:
    """Add a number that was read to a sum."""
    if number is not None:
        counts[tag] = counts.get(tag, 0.0) + unit * number
