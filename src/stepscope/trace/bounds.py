"""How much memory a process may take that reads profiles, so that it fails before the machine does."""

from __future__ import annotations

import contextlib
import os

from stepscope.errors import TraceError

LEAST_BYTES = 2 << 30


def memory_bound() -> int:
    """Return how much memory a profile may take: what the environment says, else half of the machine's."""
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
    """Have this process, and those that it starts, fail where they ask for more memory; 0 for no bound."""
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if most_bytes:
            allowed = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
