"""Snapshots of the CUDA allocator: on request, and when the device is out of memory.

A snapshot says which blocks there are; with a history, also which line of Python allocated each. The history
is recorded only while a capture asked for it runs. When memory runs out there is no history unless the
program records one, but the blocks show the use of the memory. ``stepscope profile memory FILE`` reads both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ENTRIES = 100_000
"""Number of allocations and frees kept in the history."""
ENDING = ".memory.pickle"


def record_history(on: bool) -> None:
    """Begin or end the history of allocations."""
    memory: Any = torch.cuda.memory
    if on:
        memory._record_memory_history(max_entries=ENTRIES)
    else:
        memory._record_memory_history(enabled=None)


def dump(path: Path) -> Path:
    """Write a snapshot.

    Raises:
        OSError: It cannot be written.
    """
    memory: Any = torch.cuda.memory
    memory._dump_snapshot(str(path))
    return path


class OutOfMemory:
    """Writes a snapshot whenever a CUDA device runs out of memory.

    PyTorch's observer cannot be removed again, so there is one for the process, which asks who still wants
    it.
    """

    def __init__(self) -> None:
        self._wanted: dict[object, tuple[Callable[[], Path], Callable[[Path], object]]] = {}
        self._attached = False

    def watch(self, who: object, place: Callable[[], Path], listener: Callable[[Path], object]) -> bool:
        """Begin for somebody; return False if this version of PyTorch cannot.

        Args:
            who: Whom to stop for.
            place: Returns the path of the next snapshot.
            listener: Called with the written path.
        """
        internals: Any = torch._C
        attach = getattr(internals, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return False
        self._wanted[who] = place, listener
        if not self._attached:
            attach(self._happened)
            self._attached = True
        return True

    def forget(self, who: object) -> None:
        """Stop for somebody."""
        self._wanted.pop(who, None)

    def _happened(self, device: int, allocated: int, total: int, free: int) -> None:
        for place, value in tuple(self._wanted.values()):
            with contextlib.suppress(Exception):  # the user's own error is the one that matters now
                value(dump(place()))


out_of_memory = OutOfMemory()
