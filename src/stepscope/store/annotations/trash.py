"""Deleted runs: moved into ``.stepscope/trash``, which can give them back."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from stepscope.errors import LogDirectoryError, UsageError
from stepscope.files import STATE_FOLDER, fitting, inside, run_directory
from stepscope.store.annotations.folder import locked, read_json, write_json, writing

EVENTS, HIDDEN = "tfevents", "tf-events"
"""In the trash, event files are renamed so that no reader of the log directory takes them for event files."""
PARTS = ("ranks", "profiles", "plugins", "capture")
"""Folders of a run that are not runs."""


@dataclass(frozen=True, slots=True)
class ThrownRun:
    """A run in the trash.

    Attributes:
        id: Its id in the trash.
        run: Its name in the log directory.
        when: Time of its deletion, seconds since the epoch.
        nbytes: Its size in bytes.
        files: Number of its files.
    """

    id: str
    run: str
    when: float
    nbytes: int
    files: int


class Trash:
    """The deleted runs of a log directory. Safe for several processes.

    Args:
        log_dir: The log directory.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir, self.folder = log_dir, log_dir / STATE_FOLDER / "trash"

    def throw(self, run: str, files: Iterable[Path], *, others: Iterable[str]) -> ThrownRun:
        """Move a run into the trash.

        Its whole directory is moved if no other run lies below it, otherwise its event files and its own
        folders. Its annotations stay, because it may be restored.

        Args:
            run: Its name.
            files: Its event files.
            others: Names of all other runs.

        Raises:
            LogDirectoryError: Something cannot be moved, or a link leads to it from outside; then everything
            stays where it was.
        """
        below = "" if run == "." else f"{run}/"
        alone = run != "." and not any(other.startswith(below) for other in others)
        home = run_directory(self.log_dir, run)
        wanted = [home] if alone else [*files, *(home / part for part in PARTS if (home / part).is_dir())]
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        place = self.folder / f"{stamp}-{secrets.token_hex(4)}"
        with locked(self.log_dir, self.folder):
            for path in wanted:
                inside(self.log_dir, path)
            moved = [path.relative_to(self.log_dir) for path in wanted]
            move_all([(self.log_dir / path, place / "files" / path) for path in moved])
            hide(place / "files", EVENTS, HIDDEN)
            nbytes, count = size_of(place / "files")
            thrown = ThrownRun(place.name, run, time.time(), nbytes, count)
            facts = {"run": run, "when": thrown.when, "nbytes": nbytes, "files": count}
            write_json(self.log_dir, place / "thrown.json", {**facts, "moved": [str(path) for path in moved]})
        return thrown

    def all(self) -> list[ThrownRun]:
        """Return the deleted runs, newest first."""
        removed = [thrown_of(path) for path in self._places()]
        return sorted((thrown for thrown in removed if thrown), key=lambda thrown: -thrown.when)

    def restore(self, id: str) -> str:  # noqa: A002  as the attribute
        """Move a run back to where it was and return its name.

        Raises:
            UsageError: It is not in the trash, or something else is in its place.
            LogDirectoryError: Something cannot be moved; then all stays where it was.
        """
        place, facts = self._place(id)
        moved = [str(path) for path in facts.get("moved", ())]
        for path in moved:  # the file that lists them may have been planted
            inside(self.log_dir, path)
            inside(place / "files", path)
        taken = [path for path in moved if (self.log_dir / path).exists()]
        if taken:
            raise UsageError(
                f"cannot restore {facts['run']!r}: {taken[0]} exists again",
                hint="move that away first",
            )
        with locked(self.log_dir, self.folder):
            hide(place / "files", HIDDEN, EVENTS)
            move_all([(place / "files" / path, self.log_dir / path) for path in moved])
            shutil.rmtree(place, ignore_errors=True)
        return str(facts["run"])

    def empty(self, id: str | None = None) -> int:  # noqa: A002  as the attribute
        """Delete one run of the trash, or all of them, for good; return the number of bytes freed.

        Raises:
            UsageError: It is not in the trash.
            LogDirectoryError: Something cannot be deleted.
        """
        places = self._places() if id is None else [self._place(id)[0]]
        freed = 0
        for place in places:
            with locked(self.log_dir, self.folder), writing(place):
                freed += size_of(place / "files")[0]
                shutil.rmtree(place)
        return freed

    def _places(self) -> list[Path]:
        try:
            inside(
                self.log_dir, self.folder / "any"
            )  # a link in its place would make others' files the trash
            return [path for path in self.folder.iterdir() if path.is_dir() and is_own(path)]
        except (OSError, LogDirectoryError):
            return []

    def _place(self, id: str) -> tuple[Path, dict[str, Any]]:  # noqa: A002  as the attribute
        place = next((path for path in self._places() if path.name == id), None)
        facts = read_json(place / "thrown.json") if place is not None else None
        if place is None or facts is None:
            known = ", ".join(f"{thrown.id} ({thrown.run})" for thrown in self.all()) or "nothing"
            raise UsageError(f"{id!r} is not in the trash", hint=f"there is: {known}")
        return place, facts


def is_own(place: Path) -> bool:
    """Return whether a folder of the trash is a folder, and not a link to another."""
    return not place.is_symlink() and not (place / "files").is_symlink()


def thrown_of(place: Path) -> ThrownRun | None:
    """Return the run in a folder of the trash; None if the folder does not name it."""
    known = fitting(ThrownRun, read_json(place / "thrown.json") or {})
    known["id"] = place.name
    return ThrownRun(**known) if len(known) == len(fields(ThrownRun)) else None


def move_all(pairs: list[tuple[Path, Path]]) -> None:
    """Move files or directories, all or none.

    Raises:
        LogDirectoryError: One cannot be moved.
    """
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in pairs:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(source, target)  # noqa: PTH104  one file system: nothing is ever half copied
            done.append((source, target))
    except OSError as error:
        for source, target in reversed(done):
            os.rename(target, source)  # noqa: PTH104  as above
        raise LogDirectoryError(
            f"cannot be moved: {error.strerror or error}; everything is where it was",
            hint="write permission for the log directory and the run is needed",
            path=error.filename,
        ) from error


def hide(folder: Path, word: str, instead: str) -> None:
    """Rename every file below a folder that has a word in its name."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if word in name:
                os.rename(f"{parent}/{name}", f"{parent}/{name.replace(word, instead)}")  # noqa: PTH104


def size_of(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files below a folder."""
    sizes = [os.lstat(f"{parent}/{name}").st_size for parent, _, names in os.walk(folder) for name in names]
    return sum(sizes), len(sizes)
