"""The files of a profile: its record beside it, the run's reference to it, and the disk space of all.

The run's event file holds one tensor of this JSON per profile (plugin ``stepscope``, tag
``stepscope/profile``); every rank also leaves it beside the profile, as ``NAME.profile.json``, because only
the chief has an event file.

The oldest profile goes first, never one that something refers to: one that was asked for (by a request, a
signal, an alert), and one whose summary holds advice that no newer profile repeats. This does not hold for
one of a slow step: a run may have any number of these.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepscope.capture.sampler import ENDING as STACKS
from stepscope.errors import LogDirectoryError
from stepscope.events.messages import Tensor, Value
from stepscope.files import inside, json_object
from stepscope.text import utf8

TAG = "stepscope/profile"
ENDING = ".profile.json"
SUMMARY = ".summary.json"
SCHEMA = 1


@dataclass
class CaptureRecord:
    """Facts of one capture; ``path`` is None if it failed, and ``failure`` then says why.

    Attributes:
        name: Of the profile, without ending.
        path: From the run's directory, with forward slashes; absolute if it lies elsewhere.
        summary: Likewise, of the summary that the side process writes.
        steps: Numbers of the steps in it.
        cause: "schedule", "predicate", "request", "signal", "slow step" or "alert".
        reason: The cause in words, "" if there is nothing to add.
        request: Id of the request that asked for it.
        cost: Its cost: see ``docs/guides/capture.md``.
        dropped: Events that were not kept, by reason.
        memory: Memory in use at the end of each step.
        before: Steps before the capture: number, seconds, seconds waited for data.
        facts: The alert's facts.
        failure: Why there is no profile.
        not_analysed: Why there is no summary of it.
    """

    name: str
    rank: int
    world_size: int
    role: str
    backend: str
    format: str
    steps: list[int]
    cause: str
    reason: str = ""
    request: str | None = None
    path: str | None = None
    summary: str | None = None
    bytes: int | None = None
    wall: float = 0.0
    cost: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)
    before: list[tuple[int, float, float | None]] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None
    not_analysed: str | None = None

    def as_json(self) -> str:
        """Return the facts as JSON; values that JSON cannot hold become text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, ensure_ascii=False, default=str)


def value_of(text: str) -> Value:
    """Return the summary value that points to a profile, given the pointer's JSON."""
    return Value.of(TAG, "stepscope", Tensor.of_texts(utf8(text)))


def relative(path: Path, log_dir: str) -> str:
    """Return a path in the form that the run's pointers use."""
    try:
        return path.resolve().relative_to(Path(log_dir).resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


_ODD = re.compile(r"[^A-Za-z0-9-]+")
FOLDER = "profiles"
"""Directory of a run's profiles, unless another is given."""


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


ASKED_FOR = ("request", "signal", "alert", "out of memory")
MOST_BYTES = 16 << 20
"""Of a request, or of a profile's facts: whoever may write to the log directory may leave one."""


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
    """Return the profiles to delete, oldest first.

    At most ``max_profiles`` are left that nothing refers to. There are fewer of these, but never none, if all
    together would be more than twice as many.
    """
    known = list(profiles)
    free = unreferenced(known)
    room = 2 * max_profiles - (len(known) - len(free))
    return free[max(1, min(max_profiles, room)) :][::-1]


def unreferenced(profiles: Iterable[KeptProfile]) -> list[KeptProfile]:
    """Return the profiles that nothing refers to, newest first."""
    newest_first = sorted(profiles, key=lambda profile: (profile.wall, profile.name), reverse=True)
    seen: set[str] = set()
    free: list[KeptProfile] = []
    for profile in newest_first:
        if not profile.asked_for and not profile.rules - seen:
            free.append(profile)
        seen |= profile.rules
    return free


def find(folder: Path, log_dir: Path, rank: int) -> list[KeptProfile]:
    """Return the profiles of one rank in a folder; their paths count from the run's directory."""
    profiles = []
    for path in folder.glob(f"*{ENDING}"):
        facts = read_json(path)
        if facts.get("rank") != rank or not facts.get("path"):
            continue
        name = path.name.removesuffix(ENDING)
        advice = read_json(folder / f"{name}{SUMMARY}").get("advice") or ()
        rules = frozenset(str(finding.get("rule")) for finding in advice if isinstance(finding, dict))
        wall = facts.get("wall")
        at = float(wall) if isinstance(wall, int | float) else 0.0
        asked_for = facts.get("cause") in ASKED_FOR
        profiles.append(
            KeptProfile(name, at, asked_for, rules, _within(folder, log_dir / str(facts["path"])))
        )
    return profiles


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
    """Delete the profiles above the limit; return how many profiles of the rank something refers to."""
    profiles = find(folder, log_dir, rank)
    for profile in to_delete(profiles, max_profiles):
        delete(folder, profile)
    return len(profiles) - len(unreferenced(profiles))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of a file, empty if there is none."""
    return json_object(path, MOST_BYTES) or {}
