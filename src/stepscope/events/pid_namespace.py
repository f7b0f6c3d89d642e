"""The namespace in which the number of a process names that process: a boot of a machine, a container of it.

Containers may share the name of their host and not its processes, and machines may be named alike. A run
records this beside its process number, so that readers ask for the process only where they would find it.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NAMESPACE = Path("/proc/self/ns/pid")


@lru_cache(maxsize=1)
def pid_namespace() -> str | None:
    """Return the boot of this machine and the namespace of process numbers, as text that is unlike others'.

    None where the system does not tell both, as on macOS.
    """
    try:
        return f"{BOOT_ID.read_text().strip()} {os.readlink(NAMESPACE)}"  # noqa: PTH115  text, no path
    except OSError:
        return None
