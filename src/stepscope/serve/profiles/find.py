"""Finds the profiles under a log directory, by names and then by how a file begins."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import LogDirectoryError, TraceError
from stepscope.scratch import scratch
from stepscope.serve.profiles.types import ProfileEntry, ProfileList
from stepscope.serve.routes import Backend, get
from stepscope.store import Log
from stepscope.store.captures import ENDING, MOST_STEPS, read
from stepscope.trace.formats import find_format
from stepscope.trace.rank_set import set_name
from stepscope.trace.ranks import natural, rank_in_name, without_rank

if TYPE_CHECKING:
    from stepscope.mirror import Mirror

NAME = re.compile(
    r"\.(json|json\.gz|pb|pb\.gz|pickle|pkl|sqlite|context|trace)$|^profile_\d+$|^profile_\d+\.\w+$|^timeline-\d+",
    re.IGNORECASE,
)
"""Names of profiles; event files, which may also hold a profile, are not among them."""
SESSION = re.compile(r"_rank\d+_step\d+(_\d+)?\.tfprof$")
"""Folders that captures of TensorFlow's sessions leave, and the folder that those of all processes lie in."""
TASK = re.compile(r"(chief|master|worker|ps|evaluator)_\d+$")
"""Folders of the tasks of a TensorFlow job."""
ROUND = re.compile(r"(^|/)step\d{8,}$")
NOT_PROFILES = {"config.json", "metrics.json", "state.json", "tokenizer.json", "package.json"}
DEEPEST = 8
HEAD_BYTES = 256 << 10
"""Bytes of a file in a store that show its format, compressed or not."""
AT_ONCE = 16


@dataclass(frozen=True)
class CaptureSteps:
    """The profile of a capture, relative to the log directory, and its steps, as its record says."""

    path: str
    steps: list[int]


@dataclass(frozen=True)
class KnownFile:
    """Facts of a file, valid while it keeps this size and time."""

    size_bytes: int
    modified_ns: int
    format: str | None
    capture: CaptureSteps | None = None


class Finder:
    """Finds profiles, looking into each file once.

    Args:
        directory: The log directory.
        log: Gives the log, of which some files may be in a store alone; None while it is not open.
    """

    def __init__(self, directory: Path, log: Callable[[], Log | None] = lambda: None) -> None:
        self.directory, self._log = directory, log
        self._known: dict[str, KnownFile] = {}

    @classmethod
    def of_backend(cls, backend: Backend) -> Finder:
        """Return that of a server."""
        return cls(backend.directory, backend.read)

    @get("profiles")
    def listing(self, log: Log | None) -> ProfileList:
        """Return the profiles of a log directory."""
        return ProfileList(*self.find([run.name for run in log.runs()] if log is not None else []))

    def find(self, runs: list[str]) -> tuple[list[ProfileEntry], int]:
        """Return the profiles, newest first, and how many files could have been some.

        Args:
            runs: Names of the runs, which are directories below the log directory.
        """
        ordered = sorted((run for run in runs if run not in ("", ".")), key=len, reverse=True)
        entries = []
        here = {
            path.relative_to(self.directory).as_posix(): path for path in candidates(self.directory, runs)
        }
        found = {name: self._look(path) for name, path in here.items()}
        found |= {name: known for name, known in self._look_elsewhere().items() if name not in found}
        captured = {each.capture.path: each.capture.steps for each in found.values() if each and each.capture}
        for relative, known in found.items():
            if known is None or known.format is None:
                continue
            entries.append(
                ProfileEntry(
                    path=relative,
                    run=run_of(relative, ordered, "." if "." in runs else None),
                    format=known.format,
                    size_bytes=known.size_bytes,
                    modified=known.modified_ns / 1e9,
                    rank=rank_in_name(Path(relative)),
                    files=1,
                    steps=captured.get(relative) or captured.get(relative.rpartition("/")[0], []),
                )
            )
        entries = captures_of_sessions(entries)
        sets = groups(entries)
        folders = {entry.path for entry in sets}
        sets += [one for one in captures_of_ranks(entries) if one.path.rpartition("/")[0] not in folders]
        sets += jobs_of_tasks(entries)
        entries += sets
        entries.sort(key=lambda entry: (-entry.modified, -entry.files, natural(entry.path)))
        return entries, len(found)

    def _look_elsewhere(self) -> dict[str, KnownFile | None]:
        """Return what is known of the files that are in a store alone: their beginnings are read, once."""
        log = self._log()
        if log is None or log.mirror is None:
            return {}
        mirror = log.mirror
        there = {name: each for name, each in mirror.elsewhere.items() if is_candidate(name)}
        new = {
            name: each
            for name, each in there.items()
            if (known := self._known.get(name)) is None
            or (known.size_bytes, known.modified_ns) != (each.size, each.modified_ns)
        }
        if new:
            with scratch("heads") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
                formats = pool.map(lambda name: format_of_head(mirror, name, folder), new)
                for (name, each), (came, format_) in zip(new.items(), formats, strict=True):
                    if came:
                        self._known[name] = KnownFile(each.size, each.modified_ns, format_)
        return {name: self._known.get(name) for name in there}

    def _look(self, path: Path) -> KnownFile | None:
        try:
            stat = path.stat()
        except OSError:
            return None
        known = self._known.get(str(path))
        if known is None or (known.size_bytes, known.modified_ns) != (stat.st_size, stat.st_mtime_ns):
            facts = self._capture(path) if path.name.endswith(ENDING) else None
            known = KnownFile(stat.st_size, stat.st_mtime_ns, None if facts else format_of(path), facts)
            self._known[str(path)] = known
        return known

    def _capture(self, record: Path) -> CaptureSteps | None:
        """Return what a capture's record says of its profile; None where it is none, or names none here."""
        facts = read(record) or {}
        path, steps = facts.get("path"), facts.get("steps")
        if not isinstance(path, str) or not isinstance(steps, list):
            return None
        place = Path(os.path.normpath(record.parent.parent / path))
        if not place.is_relative_to(self.directory):
            return None
        numbers = sorted({step for step in steps if type(step) is int and step >= 0})
        return CaptureSteps(place.relative_to(self.directory).as_posix(), numbers[:MOST_STEPS])


def captures_of_sessions(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Return what there is, the files of each capture of TensorFlow's sessions as one entry.

    A process leaves a folder with a timeline of each step and a ``profile.context``. Those of all processes
    that were due at one step lie in one folder, which is then the profile.
    """
    rest: list[ProfileEntry] = []
    found: dict[str, dict[str, list[ProfileEntry]]] = {}
    for entry in entries:
        folder = entry.path.rpartition("/")[0]
        if not SESSION.search(folder):
            rest.append(entry)
            continue
        round_, _, name = folder.rpartition("/")
        whole = round_ if ROUND.search(round_) else folder
        found.setdefault(whole, {}).setdefault(name, []).append(entry)
    return rest + [whole_of(path, processes) for path, processes in found.items()]


def whole_of(path: str, processes: dict[str, list[ProfileEntry]]) -> ProfileEntry:
    """Return the profile of a folder, given the files of each process in it."""
    members = [entry for files in processes.values() for entry in files]
    rank = rank_in_name(Path(next(iter(processes)))) if len(processes) == 1 else None
    return msgspec.structs.replace(whole(path, members), format="step_stats", rank=rank, files=len(processes))


def groups(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Return directories that hold nothing but one profile of several ranks, each as one profile."""
    folders: dict[str, list[ProfileEntry]] = {}
    for entry in entries:
        folders.setdefault(entry.path.rpartition("/")[0], []).append(entry)
    return [
        whole(folder, members)
        for folder, members in folders.items()
        if folder and len(members) > 1 and len({without_rank(member.path) for member in members}) == 1
    ]


def whole(path: str, members: list[ProfileEntry]) -> ProfileEntry:
    """Return the profiles of several ranks as one."""
    return ProfileEntry(
        path=path,
        run=members[0].run,
        format=members[0].format,
        size_bytes=sum(member.size_bytes for member in members),
        modified=max(member.modified for member in members),
        rank=None,
        files=len(members),
        steps=sorted({step for member in members for step in member.steps}),
    )


def captures_of_ranks(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Return what all ranks captured of each step as one profile, where other steps lie beside it."""
    sets: dict[str, list[ProfileEntry]] = {}
    for entry in entries:
        folder, _, file = entry.path.rpartition("/")
        if entry.files == 1 and (name := set_name(file)):
            sets.setdefault(f"{folder}/{name}" if folder else name, []).append(entry)
    return [
        whole(path, members) for path, members in sets.items() if len({member.rank for member in members}) > 1
    ]


def jobs_of_tasks(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Return directories with a folder of profiles for each task of a TensorFlow job, each as one profile."""
    jobs: dict[str, dict[str, list[ProfileEntry]]] = {}
    for entry in entries:
        folder = entry.path.rpartition("/")[0]
        job, _, task = folder.rpartition("/")
        if job and TASK.match(task):
            jobs.setdefault(job, {}).setdefault(task, []).append(entry)
    return [
        msgspec.structs.replace(
            whole(job, [each for files in tasks.values() for each in files]), files=len(tasks)
        )
        for job, tasks in jobs.items()
        if len(tasks) > 1
    ]


def format_of(path: Path) -> str | None:
    """Return the format of a file, None if it is not a profile or cannot be read."""
    try:
        found = find_format(path)
    except (TraceError, OSError, ValueError):
        return None
    return None if found is None else found.name


def format_of_head(mirror: Mirror, name: str, folder: Path) -> tuple[bool, str | None]:
    """Return whether the store gave the beginning of a file, and the format that it tells."""
    try:
        head = mirror.read(name, 0, HEAD_BYTES)
    except LogDirectoryError:
        return False, None
    place = folder / hashlib.sha256(os.fsencode(name)).hexdigest()[:16] / Path(name).name
    place.parent.mkdir()
    place.write_bytes(head)
    return True, format_of(place)


def is_candidate(name: str) -> bool:
    """Return whether a file of a store may be a profile, by its path from the log directory."""
    *folders, last = name.split("/")
    hidden = any(part.startswith(".") for part in (*folders, last))
    return not hidden and len(folders) <= DEEPEST and bool(NAME.search(last)) and last not in NOT_PROFILES


def candidates(directory: Path, runs: Iterable[str] = ()) -> Iterator[Path]:
    """Iterate over the files that may be profiles.

    Links to other folders are followed where the log does so: where they are a run, or lead to one.

    Args:
        directory: The log directory.
        runs: Names of the runs.
    """
    ways = {directory}
    for run in runs:
        place = directory
        for part in run.split("/") if run not in ("", ".") else ():
            place /= part
            if place not in ways and place.is_symlink():
                ways.add(place)
    for way in sorted(ways):
        for folder, folders, files in os.walk(way):
            depth = len(Path(folder).relative_to(directory).parts)
            shown = sorted(name for name in folders if not name.startswith("."))
            folders[:] = shown if depth < DEEPEST else []
            for name in files:
                if not name.startswith(".") and NAME.search(name) and name not in NOT_PROFILES:
                    yield Path(folder, name)


def run_of(path: str, runs: list[str], root: str | None) -> str | None:
    """Return the run whose directory holds a path, the innermost; ``runs`` has the longest names first."""
    for run in runs:
        if path.startswith(f"{run}/"):
            return run
    return root
