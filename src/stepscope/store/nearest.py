"""Hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def hint_nearest(name: str, known: Sequence[str], what: str) -> str:
    """Return a hint with the names that look like the requested one, or else with some that exist."""
    if not known:
        return f"there is none yet: {what} are empty"
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    shown = ", ".join(repr(name) for name in known[:5])
    return f"{what} are {shown}{f' and {len(known) - 5} more' if len(known) > 5 else ''}"
