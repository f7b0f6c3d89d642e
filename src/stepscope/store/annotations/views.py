"""Views of the page saved under a name."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.files import STATE_FOLDER, fitting
from stepscope.store.annotations.folder import file_name, read_json, remove, write_json

LONGEST_NAME = 100
LONGEST_HASH = 20_000


@dataclass(frozen=True, slots=True)
class SavedView:
    """One view.

    Attributes:
        name: Its name.
        hash: The part of the page's address from ``#`` on, which holds the whole view.
        saved: Time of saving, seconds since the epoch.
    """

    name: str
    hash: str
    saved: float


class SavedViews:
    """The saved views of a log directory. Safe for several processes.

    Args:
        log_dir: The log directory.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir, self.folder = log_dir, log_dir / STATE_FOLDER / "views"

    def all(self) -> list[SavedView]:
        """Return all views by name, skipping files that hold none."""
        try:
            files = [path for path in self.folder.iterdir() if path.suffix == ".json"]
        except OSError:
            return []
        views = [view for path in files if (view := view_of(path)) is not None]
        return sorted(views, key=lambda view: view.name.lower())

    def save(self, name: str, hash: str) -> SavedView:  # noqa: A002  that is its name in an address
        """Save a view under a name, replacing one that already has it.

        Raises:
            UsageError: No name, or no view.
            LogDirectoryError: It cannot be written.
        """
        name = " ".join(name.split())
        if not 0 < len(name) <= LONGEST_NAME:
            raise UsageError(
                f"name of {len(name)} characters: expected 1 to {LONGEST_NAME}", hint="give the view a name"
            )
        if not hash.startswith("#/") or len(hash) > LONGEST_HASH:
            raise UsageError("not a view: expected an address from # on", hint="#/scalars?f=loss")
        view = SavedView(name, hash, time.time())
        write_json(
            self.log_dir, self.folder / file_name(name), {"name": name, "hash": hash, "saved": view.saved}
        )
        return view

    def remove(self, name: str) -> None:
        """Delete a view.

        Raises:
            UsageError: There is none of this name.
            LogDirectoryError: It cannot be removed.
        """
        if not remove(self.log_dir, self.folder / file_name(name)):
            known = ", ".join(view.name for view in self.all()) or "none"
            raise UsageError(f"no saved view {name!r}", hint=f"saved are: {known}")


def view_of(path: Path) -> SavedView | None:
    """Return the view in a file; None if it holds none."""
    known = fitting(SavedView, read_json(path) or {})
    if "name" not in known or not known.get("hash", "").startswith("#/"):
        return None
    return SavedView(**{"saved": 0.0, **known})
