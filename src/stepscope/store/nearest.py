"""Hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def hint_nearest(name: str, known: Sequence[str], what: str) -> str:
    """Return a hint with the names that look like the requested one, or else with some that exist."""
    if not known:
        return f"there is none yet: {what} are empty"
    near = get_close_matches(name, known, n=3, cutoff=0.5) or _near_ends(name, known)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    shown = ", ".join(repr(name) for name in known[:5])
    return f"{what} are {shown}{f' and {len(known) - 5} more' if len(known) > 5 else ''}"


def _near_ends(name: str, known: Sequence[str]) -> list[str]:
    """Return the names whose last part looks like the requested one: people type the end of a path."""
    by_end: dict[str, list[str]] = {}
    for path in known:
        by_end.setdefault(path.rpartition("/")[2], []).append(path)
    ends = get_close_matches(name, by_end, n=3)
    return [path for end in ends for path in by_end[end]][:3]
