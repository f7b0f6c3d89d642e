"""The one judge of whether a path lies in a directory; what writes, moves or deletes asks here first."""

from __future__ import annotations

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
