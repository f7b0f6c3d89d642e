"""Memory in use: the process's resident set and, where one is in use, the CUDA allocator's account."""

from __future__ import annotations

from typing import Any

import torch

from stepscope.capture.backend import resident_facts


def cuda_in_use() -> bool:
    """Return whether the program uses a CUDA device; asking does not begin to."""
    cuda: Any = torch.cuda
    return bool(cuda.is_available() and cuda.is_initialized())


def memory_facts() -> dict[str, int]:
    """Return bytes by name: ``resident_bytes`` and, of the current device, what the allocator holds.

    The peak is the program's own: it is not reset here, for the program may be watching it.
    """
    facts = resident_facts()
    if cuda_in_use():
        facts["allocated_bytes"] = int(torch.cuda.memory_allocated())
        facts["reserved_bytes"] = int(torch.cuda.memory_reserved())
        facts["peak_allocated_bytes"] = int(torch.cuda.max_memory_allocated())
    return facts
