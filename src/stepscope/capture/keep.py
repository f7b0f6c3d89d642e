"""Bounds the disk space of profiles: the oldest goes first, never one that something refers to.

Something refers to a profile that was asked for (by a request, a signal, an alert), and to one whose summary
holds advice that no newer profile repeats. This does not hold for one of a slow step: a run may have any
number of these.
"""

from __future__ import annotations

import contextlib
import glob
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.capture.capture_record import ENDING, SUMMARY
from stepscope.capture.sampler import ENDING as STACKS
from stepscope.errors import LogDirectoryError
from stepscope.files import inside, json_object

ASKED_FOR = ("request", "signal", "alert", "out of memory")
MOST_BYTES = 16 << 20
"""Of a request, or of what is known of a profile: whoever may write to the log directory may leave one."""


@dataclass(frozen=True)
class KeptProfile:
    """One profile on disk.

    Attributes:
        name: Its name without ending.
        wall: When it was captured.
        asked_for: Whether it was asked for.
        rules: Rules of the advice in its summary.
        path: File or directory.
    """

    name: str
    wall: float
    asked_for: bool = False
    rules: frozenset[str] = frozenset()
    path: Path | None = None


def to_delete(profiles: Iterable[KeptProfile], max_profiles: int) -> list[KeptProfile]:
    """Return what has to go, oldest first.

    At most ``max_profiles`` are left that nothing refers to. There are fewer of these, but never none, where
    all together would be more than twice as many.
    """
    known = list(profiles)
    free = unreferenced(known)
    room = 2 * max_profiles - (len(known) - len(free))
    return free[max(1, min(max_profiles, room)) :][::-1]


def unreferenced(profiles: Iterable[KeptProfile]) -> list[KeptProfile]:
    """Return the profiles that nothing refers to, newest first."""
    newest_first = sorted(profiles, key=lambda each: (each.wall, each.name), reverse=True)
    seen: set[str] = set()
    free: list[KeptProfile] = []
    for profile in newest_first:
        if not profile.asked_for and not profile.rules - seen:
            free.append(profile)
        seen |= profile.rules
    return free


def find(folder: Path, log_dir: Path, rank: int) -> list[KeptProfile]:
    """Return the profiles of one rank in a folder; their paths count from the run's directory."""
    found = []
    for path in folder.glob(f"*{ENDING}"):
        facts = read_json(path)
        if facts.get("rank") != rank or not facts.get("path"):
            continue
        name = path.name.removesuffix(ENDING)
        advice = read_json(folder / f"{name}{SUMMARY}").get("advice") or ()
        rules = frozenset(str(each.get("rule")) for each in advice if isinstance(each, dict))
        wall = facts.get("wall")
        at = float(wall) if isinstance(wall, int | float) else 0.0
        asked_for = facts.get("cause") in ASKED_FOR
        found.append(KeptProfile(name, at, asked_for, rules, _within(folder, log_dir / str(facts["path"]))))
    return found


def _within(folder: Path, path: Path) -> Path | None:
    """Return a path below the folder of profiles; None if it leads out, as a planted record might."""
    try:
        return inside(folder, path)
    except (LogDirectoryError, OSError, ValueError):
        return None


def delete(folder: Path, profile: KeptProfile) -> None:
    """Delete a profile with everything that belongs to it."""
    name = glob.escape(profile.name)
    for path in [*folder.glob(f"{name}.*"), *folder.glob(f".{name}.*")]:
        remove(path)
    if profile.path is not None:
        remove(profile.path)
        remove(profile.path.with_name(profile.path.name + STACKS))
        with contextlib.suppress(OSError):
            profile.path.parent.rmdir()  # the folder of one step, where it is empty now


def remove(path: Path) -> None:
    """Delete a file or directory, if it can be."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def bound(folder: Path, log_dir: Path, rank: int, max_profiles: int) -> int:
    """Delete what exceeds the limit; return how many profiles of the rank something refers to."""
    profiles = find(folder, log_dir, rank)
    for profile in to_delete(profiles, max_profiles):
        delete(folder, profile)
    return len(profiles) - len(unreferenced(profiles))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of a file, empty where there is none."""
    return json_object(path, MOST_BYTES) or {}
