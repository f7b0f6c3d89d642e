"""The whole machine: processors, memory, disks, network. Containers see the machine's here, not their own."""

from __future__ import annotations

import os

from stepscope.record.system import files
from stepscope.record.system.files import Rates

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
SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own are
WORD_BYTES = 4  # of InfiniBand's counters port_rcv_data and port_xmit_data
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")  # or made of others, which are counted


class Cpu:
    """Share of the processors' time that is used, waits for disks, or is taken by other virtual machines."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = f"{proc}/stat"
        self._before: list[int] | None = None

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        line = (files.text(self._path) or "").partition("\n")[0].split()
        # user nice system idle iowait irq softirq steal; guests' time is part of user's
        times = [int(field) for field in line[1:9]]
        before, self._before = self._before, times
        if before is None or len(times) < 8 or len(before) < 8:
            return {}
        passed = [later - earlier for later, earlier in zip(times, before, strict=True)]
        total = sum(passed)
        if total <= 0 or min(passed) < 0:
            return {}
        return {
            CPU_RATIO: 1 - (passed[3] + passed[4]) / total,
            IOWAIT_RATIO: passed[4] / total,
            STEAL_RATIO: passed[7] / total,
        }


class Memory:
    """Memory that is in use and could not be freed, and swap."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = f"{proc}/meminfo"

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        found: dict[str, float] = {}
        kib = files.table(self._path, separator=":")
        total, available = kib.get("MemTotal"), kib.get("MemAvailable")
        if total and available is not None:
            found = {MEMORY: 1024.0 * (total - available), MEMORY_RATIO: 1 - available / total}
        if kib.get("SwapTotal") and "SwapFree" in kib:
            found[SWAP] = 1024.0 * (kib["SwapTotal"] - kib["SwapFree"])
        return found


class Disk:
    """Room where the run is written, and traffic of the machine's disks.

    Args:
        directory: The run's.
        proc: Where the kernel's files are.
        sys: Likewise.
    """

    def __init__(self, directory: str, proc: str = "/proc", sys: str = "/sys") -> None:
        self._directory, self._path = directory, f"{proc}/diskstats"
        self._disks = {name for name in files.names(f"{sys}/block") if not name.startswith(_NO_DISKS)}
        self._rates = Rates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        found: dict[str, float] = {}
        try:
            system = os.statvfs(self._directory)
        except OSError:
            system = None
        if system and system.f_blocks:
            # As df does: what is kept for root is neither used nor free.
            used, free = system.f_blocks - system.f_bfree, system.f_bavail
            found = {DISK_FREE: float(free * system.f_frsize), DISK_RATIO: used / max(used + free, 1)}
        return found | self._traffic(now)

    def _traffic(self, now: float) -> dict[str, float]:
        counts: dict[str, float] = {}
        for line in (files.text(self._path) or "").splitlines():
            fields = line.split()
            if len(fields) > 12 and fields[2] in self._disks:
                for tag, column in ((DISK_READ, 5), (DISK_WRITTEN, 9)):
                    counts[tag] = counts.get(tag, 0) + SECTOR_BYTES * int(fields[column])
                counts[f"busy {fields[2]}"] = int(fields[12]) / 1e3
        found = dict(self._rates(counts, now))
        busy = [value for name, value in found.items() if name.startswith("busy ")]
        traffic = {tag: found[tag] for tag in (DISK_READ, DISK_WRITTEN) if tag in found}
        return traffic | ({DISK_BUSY: min(max(busy), 1.0)} if busy else {})


class Network:
    """Traffic of the machine's network cards, and of its InfiniBand or similar ports.

    Bridges, tunnels and bonds repeat what cards carry, so only cards count; in a container, which has none,
    everything but the loopback does.
    """

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._path, self._sys = f"{proc}/net/dev", sys
        self._rates = Rates()
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
        for line in (files.text(self._path) or "").splitlines()[2:]:
            name, _, values = line.partition(":")
            fields = values.split()
            if len(fields) > 8 and (name.strip() in self._cards if self._cards else name.strip() != "lo"):
                add(counts, RECEIVED, int(fields[0]))
                add(counts, SENT, int(fields[8]))
        for port in self._ports:
            add(counts, FABRIC_RECEIVED, files.integer(f"{port}/port_rcv_data"), WORD_BYTES)
            add(counts, FABRIC_SENT, files.integer(f"{port}/port_xmit_data"), WORD_BYTES)
        return dict(self._rates(counts, now))


def add(counts: dict[str, float], tag: str, number: float | None, unit: float = 1) -> None:
    """Add a number that was read to a sum."""
    if number is not None:
        counts[tag] = counts.get(tag, 0.0) + unit * number
