"""Which files form one profile, and which one job: by their names and places, before any is read.

A profile's path stands for one of:

* a file;
* a folder: all profiles in it and below, side by side as ranks, or one after another as steps;
* the captures that all ranks took of one step, if those of other steps lie beside them. Such a set has a
  path of its own: ``runs/a/profiles/rank*_step00000500.json`` stands for ``chief_rank0_step00000500.json``,
  ``worker_rank1_step00000500.json`` and so on.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stepscope.trace.sampled import ENDING as STACKS

DEEPEST = 5
"""Folders below the given one that are looked into; ``plugins/profile/<session>/`` are three."""
DEEPEST_OF_LOG = 8
"""Folders below a log directory that are looked into."""

_MEMBER = re.compile(r"[A-Za-z0-9-]+_rank(\d+)(_step\d{8,}.*)")
_SET = re.compile(r"rank\*(_step\d{8,}.*)")
_RANK = re.compile(r"rank[-_ .]?(\d+)|(?:dump|worker|process|proc|gpu|node)[-_ .]?(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"^[a-z]+[-_ .]?(\d+)$", re.IGNORECASE)
_ROLE = re.compile(r"^(chief|master|worker|ps|evaluator)[-_]?(\d+)$", re.IGNORECASE)
_ROLES = ("chief", "master", "worker", "ps", "evaluator")
_TIMELINE = re.compile(r"timeline-(\d+)\.json")
_XPLANE, _RENDERED = ".xplane.pb", ".trace.json"
_METADATA = "run_meta_"
_CONTEXT = "profile.context"
_SESSION = re.compile(r"_rank\d+_step\d+(_\d+)?\.tfprof$")
"""Folders that captures of TensorFlow's sessions leave."""
_ROUND = re.compile(r"(^|/)step\d{8,}$")
"""The folder that the sessions of all processes lie in."""
_TASK = re.compile(r"(chief|master|worker|ps|evaluator)_\d+$")
"""Folders of the tasks of a TensorFlow job."""
_NO_PROFILES = (STACKS, ".tmp", ".txt", ".log", ".md", ".py")
_NAME = re.compile(
    r"\.(json|json\.gz|pb|pb\.gz|pickle|pkl|sqlite|context|trace)$|^profile_\d+$|^profile_\d+\.\w+$|^timeline-\d+",
    re.IGNORECASE,
)
"""Names of profiles in a log directory; event files, which may also hold a profile, are not among them."""
_OTHERS = {"config.json", "metrics.json", "state.json", "tokenizer.json", "package.json"}


# --- the files of a path ------------------------------------------------------------------------------


def exists(place: Path) -> bool:
    """Return whether a path stands for anything."""
    return place.exists() or bool(set_files(place))


def files_of(place: Path) -> list[Path]:
    """Return the files that a path stands for: all that may be profiles, those of ranks in their order."""
    if place.is_dir():
        return list(profile_files(place))
    return set_files(place) or [place]


def stamp(place: Path) -> int:
    """Return a stamp that distinguishes one version of the files of a path from the next.

    Raises:
        OSError: A file has gone.
    """
    files = set(files_of(place))
    if place.is_dir():
        files.update(
            path for path in place.iterdir() if path.is_file()
        )  # samples of stacks, which come later
    status = ((path, path.stat()) for path in sorted(files))
    return hash(tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in status))


def size_of(place: Path) -> int:
    """Return the bytes of the files of a path; 0 if not known."""
    try:
        return sum(path.stat().st_size for path in files_of(place))
    except OSError:
        return 0


def set_name(name: str) -> str | None:
    """Return the name of the set that a file belongs to, None for a name that captures do not have."""
    match = _MEMBER.fullmatch(name)
    return f"rank*{match[2]}" if match else None


def set_files(place: Path) -> list[Path]:
    """Return the files of a set by rank; none if a path is not that of a set."""
    if not _SET.fullmatch(place.name) or place.exists():
        return []
    try:
        members = [path for path in place.parent.iterdir() if set_name(path.name) == place.name]
    except OSError:
        return []
    return sorted(members, key=lambda path: (_captured_rank(path.name), path.name))


def _captured_rank(name: str) -> int:
    match = re.search(r"_rank(\d+)_step", name)
    return int(match[1]) if match else 0


def profile_files(directory: Path) -> Iterator[Path]:
    """Iterate over the files that may be profiles, in natural order."""
    for folder, folders, files in os.walk(directory):
        depth = len(Path(folder).relative_to(directory).parts)
        folders[:] = (
            sorted((name for name in folders if not name.startswith(".")), key=natural)
            if depth < DEEPEST
            else []
        )
        for name in sorted(files, key=natural):
            if not name.startswith(".") and not name.endswith(_NO_PROFILES):
                yield Path(folder, name)


def distinct_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files without those that were made of others among them, of which they leave something out.

    JAX and TensorFlow render Chrome traces of an XPlane; timelines and ``profile.context`` are made of
    RunMetadata.
    """
    planes = {
        path.with_name(path.name.removesuffix(_XPLANE)) for path in paths if path.name.endswith(_XPLANE)
    }
    metadata = {path for path in paths if path.name.startswith(_METADATA)}
    folders = {path.parent for path in metadata}
    for path in paths:
        rendered = _RENDERED in path.name and path.with_name(path.name.split(_RENDERED)[0]) in planes
        derived = path.name == _CONTEXT and path.parent in folders
        timeline = _TIMELINE.match(path.name)
        behind = timeline and path.with_name(f"run_meta_{timeline[1]}") in metadata
        if not rendered and not derived and not behind:
            yield path


def step_files(directory: Path) -> list[Path]:
    """RunMetadata files of a directory in step order: ``run_metadata*`` and ``run_meta_<step>``."""
    files = [
        path
        for pattern in ("run_metadata*", f"{_METADATA}*")
        for path in directory.glob(pattern)
        if path.is_file()
    ]
    return sorted(files, key=lambda path: ([int(part) for part in re.findall(r"\d+", path.name)], path.name))


def context_file(path: Path) -> Path:
    """Return the path of tfprof's own profile: the file itself, or in a folder, that of its first rank."""
    if not path.is_dir():
        return path
    ranks = path.glob(f"*_rank[0-9]*_step*.tfprof/{_CONTEXT}")
    return min(ranks, key=lambda file: _captured_rank(file.parent.name), default=path / _CONTEXT)


def has_metadata(path: Path) -> bool:
    """Return whether RunMetadata lies below, which has the transfers that ``profile.context`` leaves out."""
    return path.is_dir() and any(path.rglob(f"{_METADATA}*"))


def parts_of(path: str, names: Iterable[str]) -> list[str]:
    """Return the files that a profile is made of: itself, those below it or of its set, and those beside it.

    Args:
        path: Of a file, a folder or a set of ranks, from the log directory.
        names: Paths of the files that there are.
    """
    folder, _, last = path.rpartition("/")
    names = list(names)
    siblings = {name: own for name in names for up, _, own in [name.rpartition("/")] if up == folder}
    parts = {path, *(name for name in names if name.startswith(f"{path}/"))}
    parts |= {name for name, own in siblings.items() if set_name(own) == last}
    if any(own.startswith(_METADATA) or own == "graph.pbtxt" for own in siblings.values()):
        parts |= siblings.keys()  # tfprof's own data, which belong together
    beside = {name for name in siblings if any(name.startswith(f"{part}.") for part in parts)}
    return sorted((parts | beside).intersection(names))


# --- the profiles of a log directory -------------------------------------------------------------------


def is_candidate(name: str) -> bool:
    """Return whether a file may be a profile, by its path from the log directory."""
    *folders, last = name.split("/")
    hidden = any(part.startswith(".") for part in (*folders, last))
    return not hidden and len(folders) <= DEEPEST_OF_LOG and bool(_NAME.search(last)) and last not in _OTHERS


def sessions(paths: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return the captures of TensorFlow's sessions: by path the files of each process.

    A process leaves a folder with a timeline of each step and a ``profile.context``. Those of all processes
    that were due at one step lie in one folder, which is then the profile.
    """
    captures: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        if _SESSION.search(folder):
            round_, _, process = folder.rpartition("/")
            whole = round_ if _ROUND.search(round_) else folder
            captures.setdefault(whole, {}).setdefault(process, []).append(path)
    return captures


def sets(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the profiles of several ranks: by the path of each its members, the folders first.

    These are folders that hold nothing but one profile of several ranks, and all ranks' captures of each step
    if other steps lie beside it.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    captures: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folder, _, file = path.rpartition("/")
        folders[folder].append(path)
        if name := set_name(file):
            captures[f"{folder}/{name}" if folder else name].append(path)
    whole = {
        folder: members
        for folder, members in folders.items()
        if folder and len(members) > 1 and len({_RANK.sub("", member) for member in members}) == 1
    }
    return whole | {
        path: members
        for path, members in captures.items()
        if path.rpartition("/")[0] not in whole and len({rank_in_name(Path(one)) for one in members}) > 1
    }


def jobs(paths: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return the directories with a folder of profiles for each task of a TensorFlow job, and their files."""
    tasks: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        job, _, task = path.rpartition("/")[0].rpartition("/")
        if job and _TASK.match(task):
            tasks.setdefault(job, {}).setdefault(task, []).append(path)
    return {job: members for job, members in tasks.items() if len(members) > 1}


# --- ranks in names -----------------------------------------------------------------------------------


def rank_in_name(path: Path) -> int | None:
    """Return the rank in a file's name, None if there is none."""
    match = _RANK.search(path.name)
    return int(match[1] or match[2]) if match else None


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts ``rank10`` after ``rank9``."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part
    ]


def role_in_path(path: Path) -> str | None:
    """Return the part of a path that tells ranks apart, None if no part does."""
    for part in reversed(path.parts):
        if match := _RANK.search(part) or _ROLE.match(part):
            return match[0].lower()
    return None


def ranks_of_roles(roles: Iterable[str]) -> dict[str, int]:
    """Return a rank for each role: its number if that tells all of them apart, else its place."""
    ordered = sorted(set(roles), key=_role_order)
    numbers = {role: int(match[1]) for role in ordered if (match := _NUMBERED.match(role))}
    mixed = len({re.sub(r"\d+", "", role) for role in ordered}) > 1  # as chief_0 and worker_0 are
    if len(numbers) == len(ordered) == len(set(numbers.values())) and not mixed:
        return numbers
    return {role: rank for rank, role in enumerate(ordered)}


def _role_order(role: str) -> tuple[int, list[tuple[int, int, str]]]:
    match = _ROLE.match(role)
    return (_ROLES.index(match[1].lower()) if match else len(_ROLES), natural(role))
