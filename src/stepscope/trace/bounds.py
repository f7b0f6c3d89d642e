"""The memory limit of a process that reads profiles, so that it fails before the machine does."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys

from stepscope.errors import TraceError

LEAST_BYTES = 2 << 30


def memory_bound() -> int:
    """Return how much memory a profile may take: the environment's limit, else half of the machine's."""
    text = os.environ.get("STEPSCOPE_READ_BYTES", "")
    if text:
        try:
            return max(int(float(text)), 0)
        except (ValueError, OverflowError):
            raise TraceError(
                f"STEPSCOPE_READ_BYTES is {text!r:.40}: expected a number of bytes", hint="8e9, or 0 for all"
            ) from None
    try:
        return max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2, LEAST_BYTES)
    except (AttributeError, ValueError, OSError):
        return 0


def limit_data(most_bytes: int) -> None:
    """Make this process, and those that it starts, fail if they need more memory; 0 for no bound."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if most_bytes:
            allowed = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def hold_polars() -> None:
    """Lift this process's bound before Polars works, which waits for ever if its threads get no memory.

    The parent process watches its memory: :mod:`stepscope.cli.guarded`.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


_LACK = re.compile(r"allocat|out of memory|start new thread", re.IGNORECASE)


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, in whatever words a library has for that."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    panic = (
        type(error).__name__ == "PanicException"
    )  # Rust's, which also stumbles over what was not allocated
    if not panic and not isinstance(error, (RuntimeError, SystemError, ImportError)):
        return False
    return bool(_LACK.search(str(error))) or _near_bound()


def _near_bound() -> bool:
    """Return whether this process has used the greater part of its limit."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return soft != resource.RLIM_INFINITY and peak > soft / 2
    return False
