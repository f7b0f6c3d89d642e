"""Names: of profiles, with role, rank and step, so that no two files ever have the same; of signals."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

_ODD = re.compile(r"[^A-Za-z0-9-]+")
FOLDER = "profiles"
"""Where a run keeps its profiles, unless told otherwise."""


def stem(role: str, rank: int, first_step: int, world_size: int = 1) -> str:
    """Return the beginning of a profile's name, as ``chief_rank0_step500``.

    Numbers are padded so that names sort as the steps do.
    """
    word = _ODD.sub("-", role).strip("-") or "process"
    width = len(str(max(world_size - 1, 0)))
    return f"{word}_rank{rank:0{width}d}_step{first_step:08d}"


def claim(folder: Path, name: str, ending: str, *, exists: Callable[[Path], bool] = os.path.lexists) -> Path:
    """Return a path in ``folder`` that was free and is now taken by an empty file.

    Another attempt at the same step, in this process or another, gets a number after the name.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        path = folder / f"{name}{f'_{number}' if number > 1 else ''}{ending}"
        if exists(path):
            continue
        try:
            with path.open("xb"):
                return path
        except FileExistsError:
            continue
    raise FileExistsError(f"{name}: ten thousand profiles of one step")


def signal_name(number: int) -> str:
    """Return the name of a signal; only the first and last real-time one have one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
