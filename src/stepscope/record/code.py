"""The code that a training runs: the commit of its repository, and a digest of each of its own files.

No program is started: the commit is in the repository's files, and the files are those that Python has
imported. So a change that nobody committed is seen, and one in files that this training does not use is not.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MAX_FILES = 512
"""Files of the user's own that are recorded; further ones are counted."""
DIGITS = 12
"""Hexadecimal digits of a digest."""
_NOT_OWN = ("site-packages", "dist-packages")
_OTHERS = tuple(
    str(Path(place)) + os.sep for place in (sys.prefix, sys.base_prefix, Path(__file__).parents[1])
)
"""Folders of Python itself and of this package."""


class RunningCode:
    """The user's own code: files below the folder of the script, or below the working directory.

    A file's digest is that of the time when it was first seen: what is edited later does not run.
    """

    def __init__(self) -> None:
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        places = {os.getcwd(), os.path.dirname(os.path.abspath(script)) if script else os.getcwd()}  # noqa: PTH100, PTH109, PTH120
        # The outermost folder first, so that names are the longest.
        self._roots = sorted(places, key=len)
        self._commit: str | None = None
        self._digests: dict[str, str] = {}
        self._seen: set[str] = set()

    def facts(self) -> dict[str, Any]:
        """Return the ``commit`` if there is one, ``files`` with digests, and how many ``more`` there are."""
        if not self._seen:
            self._commit = next((commit for root in self._roots if (commit := commit_of(Path(root)))), None)
        self._look()
        files = dict(sorted(self._digests.items())[:MAX_FILES])
        result: dict[str, Any] = {
            "commit": self._commit,
            "files": files,
            "more": len(self._digests) - len(files),
        }
        return {name: value for name, value in result.items() if value}

    def _look(self) -> None:
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or path in self._seen or not path.endswith(".py"):
                continue
            self._seen.add(path)
            root = next((root for root in self._roots if path.startswith(root + os.sep)), None)
            if root is None or path.startswith(_OTHERS) or any(part in path for part in _NOT_OWN):
                continue
            with suppress(OSError):
                digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:DIGITS]
                self._digests[os.path.relpath(path, root).replace(os.sep, "/")] = digest


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in the repository around a folder; None if there is none."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        with suppress(OSError, UnicodeDecodeError):
            if git.is_file():  # of a worktree or a submodule
                git = place / git.read_text().partition("gitdir:")[2].strip()
            if git.is_dir():
                return _commit(git)
    return None


def _commit(git: Path) -> str | None:
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.removeprefix("ref:").strip()
    common = git
    with suppress(OSError):
        common = git / (git / "commondir").read_text().strip()
    with suppress(OSError):
        return (common / name).read_text().strip()
    for line in (common / "packed-refs").read_text().splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return None
