"""Limits of this process's control group, and how much of them is used (cgroup v1 and v2).

Limits are nested: Slurm sets them for job, step and task, Kubernetes for pod and container. The tightest one
counts. Without a limit there is no reading; the machine's own then says what is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepscope.record.system import files
from stepscope.record.system.files import CounterRates

CPU_RATIO, THROTTLED = "system/container/cpu_ratio", "system/container/cpu_throttled_ratio"
MEMORY, MEMORY_RATIO = "system/container/memory_bytes", "system/container/memory_ratio"
KILLS = "system/container/oom_kill_count"
NO_LIMIT = 1 << 60
"""cgroup v1 says "no limit" by a number close to 2 to the 63."""


class ControlGroup(NamedTuple):
    """A control group's directory.

    Attributes:
        path: Where it is.
        modern: It is of cgroup v2.
    """

    path: str
    modern: bool


class Container:
    """Reads the control groups of this process.

    Args:
        proc: Where the kernel's files are.
        root: What is put before paths of mounts, in tests.
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
        stat = files.table(f"{group.path}/cpu.stat")
        counts: dict[str, float] = {
            name: stat[name] for name in ("nr_periods", "nr_throttled") if name in stat
        }
        used = stat.get("usage_usec") if group.modern else files.integer(f"{self._usage}/cpuacct.usage")
        if used is not None:
            counts["seconds"] = used / (1e6 if group.modern else 1e9)
        rates = dict(self._rates(counts, now))
        found = {CPU_RATIO: rates["seconds"] / cpus} if "seconds" in rates else {}
        if rates.get("nr_periods") and "nr_throttled" in rates:
            found[THROTTLED] = rates["nr_throttled"] / rates["nr_periods"]
        return found

    def _read_memory(self) -> dict[str, float]:
        group = self._memory
        limit = memory_limit(group) if group else None
        if not group or not limit:
            return {}
        name = "memory.current" if group.modern else "memory.usage_in_bytes"
        used = files.integer(f"{group.path}/{name}")
        if used is None:
            return {}
        stat = files.table(f"{group.path}/memory.stat")
        # Files that were read once and not again are given back before the limit is felt.
        used -= min(stat.get("inactive_file" if group.modern else "total_inactive_file", 0), used)
        found = {MEMORY: float(used), MEMORY_RATIO: used / limit}
        events = files.table(f"{group.path}/{'memory.events' if group.modern else 'memory.oom_control'}")
        if "oom_kill" in events:
            found[KILLS] = float(events["oom_kill"])
        return found


def groups(controller: str, proc: str = "/proc", root: str = "") -> list[ControlGroup]:
    """Return the group of this process for a controller and all groups that it lies in, the innermost first.

    Args:
        controller: "cpu", "cpuacct" or "memory".
        proc: Where the kernel's files are.
        root: What is put before paths of mounts, in tests.
    """
    own = {}
    for line in (files.text(f"{proc}/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            own[name] = path
    modern: list[ControlGroup] = []
    for mount in _mounts(proc):
        if mount.kind == "cgroup" and controller in mount.options and controller in own:
            return list(_up(f"{root}{mount.point}", _inside(own[controller], mount.root), False))
        if mount.kind == "cgroup2" and "" in own:
            modern = list(_up(f"{root}{mount.point}", _inside(own[""], mount.root), True))
    return modern


class GroupMount(NamedTuple):
    """A line of ``mountinfo``.

    Attributes:
        root: Which directory of the file system is seen.
        point: Where it is seen.
        kind: Type of the file system.
        options: Of the file system.
    """

    root: str
    point: str
    kind: str
    options: list[str]


def _mounts(proc: str) -> Iterator[GroupMount]:
    for line in (files.text(f"{proc}/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, system = left.split(), right.split()
        if len(fields) > 4 and len(system) > 2:
            yield GroupMount(fields[3], fields[4], system[0], system[2].split(","))


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
        allowed, _, period = (files.text(f"{group.path}/cpu.max") or "max").strip().partition(" ")
        return int(allowed) / int(period or 100_000) if allowed.isdigit() else None
    microseconds = files.integer(f"{group.path}/cpu.cfs_quota_us")
    period_us = files.integer(f"{group.path}/cpu.cfs_period_us")
    return microseconds / period_us if microseconds and microseconds > 0 and period_us else None


def memory_limit(group: ControlGroup) -> float | None:
    """Return how many bytes a group may use; None without a limit."""
    name = "memory.max" if group.modern else "memory.limit_in_bytes"
    limit = files.integer(f"{group.path}/{name}")
    return limit if limit is not None and 0 < limit < NO_LIMIT else None


def usage_directory(group: ControlGroup, proc: str, root: str) -> str:
    """Return where cgroup v1 accounts for the processor time of a group that limits it."""
    if group.modern:
        return group.path
    level = [other.path for other in groups("cpu", proc, root)].index(group.path)
    accounts = groups("cpuacct", proc, root)
    return accounts[min(level, len(accounts) - 1)].path if accounts else group.path


def tightest(found: list[ControlGroup], limit: Callable[[ControlGroup], float | None]) -> ControlGroup | None:
    """Return the group with the smallest limit; None if there is no limit."""
    limits = [(value, group) for group in found if (value := limit(group)) is not None]
    return min(limits)[1] if limits else None
