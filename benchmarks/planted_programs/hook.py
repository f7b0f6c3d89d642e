"""The recorder of the planted programs."""

from __future__ import annotations

import stepscope as ss


def profiler_hook(**options: object) -> ss.ProfilerHook:
    """Record three steps after the fourth, whatever they cost, and judge nothing meanwhile."""
    return ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False, **options
    )
