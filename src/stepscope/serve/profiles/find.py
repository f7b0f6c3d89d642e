"""Finds the profiles under a log directory, by names and then by how a file begins."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from stepscope.trace.set import DEEPEST_OF_LOG, is_candidate, jobs, natural, rank_in_name, sessions, sets

if TYPE_CHECKING:
    from stepscope.mirror import Mirror

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
        """Return the finder of one server."""
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
        files = {name: self._look(path) for name, path in here.items()}
        files |= {name: known for name, known in self._look_elsewhere().items() if name not in files}
        captured = {file.capture.path: file.capture.steps for file in files.values() if file and file.capture}
        for relative, known in files.items():
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
        entries = wholes(entries)
        entries.sort(key=lambda entry: (-entry.modified, -entry.files, natural(entry.path)))
        return entries, len(files)

    def _look_elsewhere(self) -> dict[str, KnownFile | None]:
        """Return the facts about files that are in a store alone: their beginnings are read, once."""
        log = self._log()
        if log is None or log.mirror is None:
            return {}
        mirror = log.mirror
        there = {name: file for name, file in mirror.elsewhere.items() if is_candidate(name)}
        new = {
            name: file
            for name, file in there.items()
            if (known := self._known.get(name)) is None
            or (known.size_bytes, known.modified_ns) != (file.size, file.modified_ns)
        }
        if new:
            with scratch("heads") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
                formats = pool.map(lambda name: format_of_head(mirror, name, folder), new)
                for (name, remote), (came, format_) in zip(new.items(), formats, strict=True):
                    if came:
                        self._known[name] = KnownFile(remote.size, remote.modified_ns, format_)
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
        """Return a profile's facts from a capture's record; None if it is none, or names none here."""
        facts = read(record) or {}
        path, steps = facts.get("path"), facts.get("steps")
        if not isinstance(path, str) or not isinstance(steps, list):
            return None
        place = Path(os.path.normpath(record.parent.parent / path))
        if not place.is_relative_to(self.directory):
            return None
        numbers = sorted({step for step in steps if type(step) is int and step >= 0})
        return CaptureSteps(place.relative_to(self.directory).as_posix(), numbers[:MOST_STEPS])


def wholes(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Return single profiles, and those that several files form."""
    one = {entry.path: entry for entry in entries}
    for path, processes in sessions(list(one)).items():
        members = [one.pop(name) for files in processes.values() for name in files]
        rank = rank_in_name(Path(next(iter(processes)))) if len(processes) == 1 else None
        count = len(processes)
        one[path] = msgspec.structs.replace(whole(path, members), format="step_stats", rank=rank, files=count)
    several = [whole(path, [one[name] for name in members]) for path, members in sets(one).items()]
    for path, tasks in jobs(one).items():
        members = [one[name] for files in tasks.values() for name in files]
        several.append(msgspec.structs.replace(whole(path, members), files=len(tasks)))
    return [*one.values(), *several]


def whole(path: str, members: Sequence[ProfileEntry]) -> ProfileEntry:
    """Return the profiles of several ranks or steps as one."""
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


def format_of(path: Path) -> str | None:
    """Return the format of a file, None if it is not a profile or cannot be read."""
    try:
        kind = find_format(path)
    except (TraceError, OSError, ValueError):
        return None
    return None if kind is None else kind.name


def format_of_head(mirror: Mirror, name: str, folder: Path) -> tuple[bool, str | None]:
    """Return whether the store gave the beginning of a file, and the format that it tells."""
    try:
        head = mirror.head(name, HEAD_BYTES)
    except LogDirectoryError:
        return False, None
    place = folder / hashlib.sha256(os.fsencode(name)).hexdigest()[:16] / Path(name).name
    place.parent.mkdir()
    place.write_bytes(head)
    return True, format_of(place)


def candidates(directory: Path, runs: Iterable[str] = ()) -> Iterator[Path]:
    """Iterate over the files that may be profiles.

    Links to other folders are followed as the log follows them: if they are a run, or lead to one.

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
            folders[:] = shown if depth < DEEPEST_OF_LOG else []
            for name in files:
                if is_candidate(name):
                    yield Path(folder, name)


def run_of(path: str, runs: list[str], root: str | None) -> str | None:
    """Return the run whose directory holds a path, the innermost; ``runs`` has the longest names first."""
    for run in runs:
        if path.startswith(f"{run}/"):
            return run
    return root
