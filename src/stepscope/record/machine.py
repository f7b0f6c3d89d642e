"""The machine, this process with those it started, and its control group (cgroup v1 and v2).

In a container too, the numbers of the machine are the machine's. Limits of control groups are nested: Slurm
sets them for job, step and task, Kubernetes for pod and container. The tightest one counts. Without a limit
there is no reading; the machine's own then tells the rest. Unreadable values are left out: they are not 0.
Nothing here is called by a training thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import psutil

from stepscope.record.mounts import mounts

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
        """Return the readings that the system gives of a process."""
        process = self._process
        counts: dict[str, float] = {CPU_CORES: time.process_time()}
        with suppress(psutil.Error, AttributeError, NotImplementedError, OSError):
            traffic = process.io_counters()
            counts |= {READ: traffic.read_bytes, WRITTEN: traffic.write_bytes}
        readings = dict(self._rates(counts, now))
        if CPU_CORES in readings:
            readings[PROCESS_CPU_RATIO] = readings[CPU_CORES] / self._cpus()
        readings[PROCESS_MEMORY] = float(process.memory_info().rss)
        readings[THREADS] = float(process.num_threads())
        with suppress(psutil.Error, AttributeError, OSError):
            readings[OPEN_FILES] = float(process.num_fds())
        return readings


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
        """Return the readings; none if there are no children."""
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
        readings = {CHILDREN: float(len(rates)), CHILDREN_MEMORY: float(memory)}
        return readings | ({CHILDREN_CPU: cores} if known else {})


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
        readings = {CPU_RATIO: 1 - (passed["idle"] + passed.get("iowait", 0.0)) / total}
        for tag, name in ((IOWAIT_RATIO, "iowait"), (STEAL_RATIO, "steal")):
            if name in passed:
                readings[tag] = passed[name] / total
        return readings


class HostMemory:
    """Memory that is in use and could not be freed, and swap."""

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        used = memory.total - memory.available
        readings = {MEMORY: float(used), MEMORY_RATIO: used / memory.total}
        return readings | ({SWAP: float(swap.used)} if swap.total else {})


class Disk:
    """Free space of the run's disk, and traffic of the machine's disks.

    Args:
        directory: The run's.
        sys: Directory of the kernel's files.
    """

    def __init__(self, directory: str, sys: str = "/sys") -> None:
        self._directory = directory
        self._disks = {name for name in file_names(f"{sys}/block") if not name.startswith(_NO_DISKS)}
        self._rates = CounterRates()

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        readings: dict[str, float] = {}
        try:
            room = psutil.disk_usage(self._directory)
        except OSError:
            room = None
        if room and room.total:
            # As df does: what is kept for root is neither used nor free.
            readings = {DISK_FREE: float(room.free), DISK_RATIO: room.used / max(room.used + room.free, 1)}
        return readings | self._traffic(now)

    def _traffic(self, now: float) -> dict[str, float]:
        counts: dict[str, float] = {}
        for name, disk in _disks().items():
            if name in self._disks or not self._disks:
                add(counts, DISK_READ, disk.read_bytes)
                add(counts, DISK_WRITTEN, disk.write_bytes)
                add(counts, f"busy {name}", getattr(disk, "busy_time", None), 1e-3)
        readings = dict(self._rates(counts, now))
        busy = [readings.pop(name) for name in list(readings) if name.startswith("busy ")]
        return readings | ({DISK_BUSY: min(max(busy), 1.0)} if busy else {})


def _disks() -> dict[str, Any]:
    try:
        counters: dict[str, Any] = psutil.disk_io_counters(perdisk=True, nowrap=False)
    except NotImplementedError:  # the system counts nothing
        return {}
    return counters


class Network:
    """Traffic of the machine's network cards, and of its InfiniBand or similar ports.

    Bridges, tunnels and bonds repeat the traffic of cards, so only cards count; in a container, which has
    none, everything but the loopback does.

    Args:
        sys: Directory of the kernel's files.
    """

    def __init__(self, sys: str = "/sys") -> None:
        self._rates = CounterRates()
        cards = f"{sys}/class/net"
        self._cards = {name for name in file_names(cards) if os.path.exists(f"{cards}/{name}/device")}  # noqa: PTH110
        fabric = f"{sys}/class/infiniband"
        self._ports = [
            f"{fabric}/{card}/ports/{port}/counters"
            for card in file_names(fabric)
            for port in file_names(f"{fabric}/{card}/ports")
        ]

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        counts: dict[str, float] = {}
        for name, card in psutil.net_io_counters(pernic=True, nowrap=False).items():
            if name in self._cards if self._cards else not name.startswith("lo"):
                add(counts, RECEIVED, card.bytes_recv)
                add(counts, SENT, card.bytes_sent)
        for port in self._ports:
            add(counts, FABRIC_RECEIVED, file_integer(f"{port}/port_rcv_data"), WORD_BYTES)
            add(counts, FABRIC_SENT, file_integer(f"{port}/port_xmit_data"), WORD_BYTES)
        return dict(self._rates(counts, now))


def add(counts: dict[str, float], tag: str, number: float | None, unit: float = 1) -> None:
    """Add a number that was read to a sum."""
    if number is not None:
        counts[tag] = counts.get(tag, 0.0) + unit * number


# --- small files of the kernel's, and the counters in them ------------------------------------------


def file_text(path: str) -> str | None:
    """Return the content of a file; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  no Path object per reading
            return file.read()
    except OSError:
        return None


def file_integer(path: str) -> int | None:
    """Return the number that a file holds; None if it holds none, such as ``max``."""
    text = file_text(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def file_table(path: str) -> dict[str, int]:
    """Return a file of lines of a name and a number, as ``memory.stat`` is."""
    table = {}
    for line in (file_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        with suppress(ValueError, IndexError):
            table[name.strip()] = int(value.split()[0])
    return table


def file_names(path: str) -> list[str]:
    """Return the names in a directory, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208
    except OSError:
        return []


class CounterRates:
    """How fast counters grow between two readings."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def __call__(self, counts: dict[str, float], now: float) -> Iterator[tuple[str, float]]:
        """Return the growth per second of each counter.

        A counter that is new or was reset has none this time.

        Args:
            counts: Counters by name.
            now: Steady time in seconds.
        """
        for name, value in counts.items():
            earlier, since = self._before.get(name, (value, now))
            self._before[name] = (value, now)
            if now > since and value >= earlier:
                yield name, (value - earlier) / (now - since)


# --- this process's control group -------------------------------------------------------------------


CONTAINER_CPU_RATIO = "system/container/cpu_ratio"
CONTAINER_THROTTLED = "system/container/cpu_throttled_ratio"
CONTAINER_MEMORY, CONTAINER_MEMORY_RATIO = "system/container/memory_bytes", "system/container/memory_ratio"
CONTAINER_KILLS = "system/container/oom_kill_count"
NO_LIMIT = 1 << 60
"""cgroup v1 says "no limit" by a number close to 2 to the 63."""


class ControlGroup(NamedTuple):
    """A control group's directory.

    Attributes:
        path: Its path.
        modern: It is of cgroup v2.
    """

    path: str
    modern: bool


class Container:
    """Reads the control groups of this process.

    Args:
        proc: Directory of the kernel's files.
        root: Prefix of the mounts' paths, for tests.
    """

    def __init__(self, proc: str = "/proc", root: str = "") -> None:
        self._cpu = tightest(groups("cpu", proc, root), quota)
        self._memory = tightest(groups("memory", proc, root), memory_limit)
        self._usage = self._cpu and usage_directory(self._cpu, proc, root)
        self._rates = CounterRates()

    @property
    def cpus(self) -> float | None:
        """Processors that the group may use; None without a limit."""
        return quota(self._cpu) if self._cpu else None

    def read(self, now: float) -> dict[str, float]:
        """Return the readings."""
        return self._read_cpu(now) | self._read_memory()

    def _read_cpu(self, now: float) -> dict[str, float]:
        group = self._cpu
        cpus = quota(group) if group else None
        if not group or not cpus:
            return {}
        stat = file_table(f"{group.path}/cpu.stat")
        counts: dict[str, float] = {
            name: stat[name] for name in ("nr_periods", "nr_throttled") if name in stat
        }
        used = stat.get("usage_usec") if group.modern else file_integer(f"{self._usage}/cpuacct.usage")
        if used is not None:
            counts["seconds"] = used / (1e6 if group.modern else 1e9)
        rates = dict(self._rates(counts, now))
        readings = {CONTAINER_CPU_RATIO: rates["seconds"] / cpus} if "seconds" in rates else {}
        if rates.get("nr_periods") and "nr_throttled" in rates:
            readings[CONTAINER_THROTTLED] = rates["nr_throttled"] / rates["nr_periods"]
        return readings

    def _read_memory(self) -> dict[str, float]:
        group = self._memory
        limit = memory_limit(group) if group else None
        if not group or not limit:
            return {}
        name = "memory.current" if group.modern else "memory.usage_in_bytes"
        used = file_integer(f"{group.path}/{name}")
        if used is None:
            return {}
        stat = file_table(f"{group.path}/memory.stat")
        # Files that were read once and not again are given back before the limit is felt.
        used -= min(stat.get("inactive_file" if group.modern else "total_inactive_file", 0), used)
        readings = {CONTAINER_MEMORY: float(used), CONTAINER_MEMORY_RATIO: used / limit}
        events = file_table(f"{group.path}/{'memory.events' if group.modern else 'memory.oom_control'}")
        if "oom_kill" in events:
            readings[CONTAINER_KILLS] = float(events["oom_kill"])
        return readings


def groups(controller: str, proc: str = "/proc", root: str = "") -> list[ControlGroup]:
    """Return the group of this process for a controller and all groups that it lies in, the innermost first.

    Args:
        controller: "cpu", "cpuacct" or "memory".
        proc: Directory of the kernel's files.
        root: Prefix of the mounts' paths, for tests.
    """
    own = {}
    for line in (file_text(f"{proc}/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            own[name] = path
    modern: list[ControlGroup] = []
    for mount in mounts(file_text(f"{proc}/self/mountinfo") or ""):
        if mount.kind == "cgroup" and controller in mount.options and controller in own:
            return list(_up(f"{root}{mount.place}", _inside(own[controller], mount.root), False))
        if mount.kind == "cgroup2" and "" in own:
            modern = list(_up(f"{root}{mount.place}", _inside(own[""], mount.root), True))
    return modern


def _inside(path: str, root: str) -> str:
    """Return a group's path below a mount, which may show only a part of the hierarchy."""
    if root == "/":
        return path
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else "/"


def _up(point: str, path: str, modern: bool) -> Iterator[ControlGroup]:
    # In a container the path may be the host's: then what is mounted is the container's own group.
    inner = path.strip("/") if os.path.isdir(f"{point}/{path.strip('/')}") else ""  # noqa: PTH112
    while inner:
        yield ControlGroup(f"{point}/{inner}", modern)
        inner = inner.rpartition("/")[0]
    yield ControlGroup(point, modern)


def quota(group: ControlGroup) -> float | None:
    """Return how many processors a group may use; None without a limit."""
    if group.modern:
        allowed, _, period = (file_text(f"{group.path}/cpu.max") or "max").strip().partition(" ")
        return int(allowed) / int(period or 100_000) if allowed.isdigit() else None
    microseconds = file_integer(f"{group.path}/cpu.cfs_quota_us")
    period_us = file_integer(f"{group.path}/cpu.cfs_period_us")
    return microseconds / period_us if microseconds and microseconds > 0 and period_us else None


def memory_limit(group: ControlGroup) -> float | None:
    """Return how many bytes a group may use; None without a limit."""
    name = "memory.max" if group.modern else "memory.limit_in_bytes"
    limit = file_integer(f"{group.path}/{name}")
    return limit if limit is not None and 0 < limit < NO_LIMIT else None


def usage_directory(group: ControlGroup, proc: str, root: str) -> str:
    """Return the directory of cgroup v1 with the processor time of a limited group."""
    if group.modern:
        return group.path
    level = [other.path for other in groups("cpu", proc, root)].index(group.path)
    accounts = groups("cpuacct", proc, root)
    return accounts[min(level, len(accounts) - 1)].path if accounts else group.path


def tightest(
    groups: list[ControlGroup], limit: Callable[[ControlGroup], float | None]
) -> ControlGroup | None:
    """Return the group with the smallest limit; None if there is no limit."""
    limits = [(value, group) for group in groups if (value := limit(group)) is not None]
    return min(limits)[1] if limits else None
