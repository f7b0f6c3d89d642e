"""Processes that record runs, known so well that a reader who asks whether one lives takes no other for it.

A process number means a process on one machine since it booted, and in one namespace of it: containers may
share the name of their host and not its processes, and machines may be named alike. A later process may get
the same number; it began at another time.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/pid")


@lru_cache(maxsize=1)
def pid_namespace() -> str | None:
    """Return the boot of this machine and the namespace of process numbers, as text that is unlike others'.

    None if the system does not tell both, as on macOS.
    """
    try:
        return f"{BOOT_ID.read_text().strip()} {os.readlink(NAMESPACE)}"  # noqa: PTH115  text, no path
    except OSError:
        return None


class ProcessStat(NamedTuple):
    """The facts that the system tells of a process.

    Attributes:
        is_dead: It has ended, and its parent has not asked how.
        start_ticks: When it started, in clock ticks since the machine booted. Unlike a time of day that stays
            the same when somebody sets the clock.
    """

    is_dead: bool
    start_ticks: int


def process_stat(pid: int) -> ProcessStat | None:
    """Return the system's facts of a process; None if there is none, or it says nothing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return ProcessStat(fields[0] in ("Z", "X"), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


@lru_cache(maxsize=1)
def own_start_ticks(pid: int) -> int | None:
    """Return when this process started, given its number, which a forked child does not share."""
    stat = process_stat(pid)
    return None if stat is None else stat.start_ticks
