"""Readings of the machine and this process: one module per source, each a few files or one library.

A source's ``read`` returns readings by tag. What cannot be read is left out: it is not 0. Nothing here is
called by a training thread.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

from stepscope.record.system.container import Container
from stepscope.record.system.gpus import amd, nvidia
from stepscope.record.system.host import Children, Cpu, Disk, HostMemory, Network, Process


class ReadingSource(Protocol):
    """A source of readings."""

    def read(self, now: float) -> dict[str, float]:
        """Return readings by tag; what cannot be read is left out.

        Args:
            now: Steady time in seconds, for rates.
        """


def sources(directory: str, *, all_gpus: bool = False) -> tuple[list[ReadingSource], dict[str, str]]:
    """Return the sources of this machine, and the name of each GPU by group of tags.

    Args:
        directory: The run's.
        all_gpus: Also read the GPUs that this process may not use.
    """
    container = Container() if sys.platform == "linux" else None

    def cpus() -> float:
        return min(_cpus(), (container and container.cpus) or float("inf"))

    found: list[ReadingSource] = [Process(cpus), Children(), Cpu(), HostMemory(), Disk(directory), Network()]
    if container is not None:
        found.append(container)
    names: dict[str, str] = {}
    for gpus in (nvidia(every=all_gpus), amd(every=all_gpus)):
        if gpus is not None:
            found.append(gpus)
            names |= gpus.names()
    return found, names


def _cpus() -> float:
    """Return how many processors the scheduler may give this process."""
    try:
        return float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        return float(os.cpu_count() or 1)
