"""The profiles that all ranks took of the same step, where those of other steps lie beside them.

Such a set has a path of its own: ``runs/a/profiles/rank*_step00000500.json`` stands for
``chief_rank0_step00000500.json``, ``worker_rank1_step00000500.json`` and so on.
"""

from __future__ import annotations

import re
from pathlib import Path

_MEMBER = re.compile(r"[A-Za-z0-9-]+_rank(\d+)(_step\d{8,}.*)")
_SET = re.compile(r"rank\*(_step\d{8,}.*)")


def set_name(name: str) -> str | None:
    """Return the name of the set that a file belongs to, None for a name that captures do not have."""
    match = _MEMBER.fullmatch(name)
    return f"rank*{match[2]}" if match else None


def set_files(place: Path) -> list[Path]:
    """Return the files of a set by rank; none where a path is not that of a set."""
    if not _SET.fullmatch(place.name) or place.exists():
        return []
    try:
        found = [path for path in place.parent.iterdir() if set_name(path.name) == place.name]
    except OSError:
        return []
    return sorted(found, key=_rank)


def _rank(path: Path) -> tuple[int, str]:
    match = _MEMBER.fullmatch(path.name)
    return (int(match[1]) if match else 0, path.name)
