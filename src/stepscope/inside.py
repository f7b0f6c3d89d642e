"""Paths below a log directory: whether one lies in it, and where a run of some name does.

What writes, moves or deletes asks here first.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stepscope.errors import LogDirectoryError


def inside(root: Path, path: str | Path) -> Path:
    """Return a path below a directory, after links and ``..`` have been followed.

    The last part of the path may itself be a link: what is moved or deleted is then the link, not what it
    points to. Nothing on the way to it may lead out.

    Args:
        root: The directory.
        path: Below it, or relative to it. It need not exist.

    Raises:
        LogDirectoryError: It lies elsewhere, or is the directory itself.
    """
    home = root.resolve()
    whole = root / path
    real = whole.parent.resolve() / whole.name
    if whole.name in ("", ".", "..") or "\0" in str(path) or not real.is_relative_to(home) or real == home:
        raise LogDirectoryError(
            f"refused: {str(path)!r} lies outside of the directory",
            hint="a link or a planted file leads out of it; use the place that it leads to",
            path=root,
        )
    return real


def run_directory(root: Path, run: str) -> Path:
    r"""Return the directory of a run.

    Args:
        root: The log directory.
        run: Its name, in which bytes that are no UTF-8 are written as ``\xff``.
    """
    place = root / run
    if "\\x" not in run or place.exists():
        return place
    raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda found: bytes.fromhex(found[1].decode()), os.fsencode(run))
    return root / os.fsdecode(raw)
