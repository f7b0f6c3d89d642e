"""Assigns files to the processes that wrote them and to attempts of the run.

A file that begins after another ended continues it: the process was started again, the same writer, the next
attempt. Files that overlap in time come from processes that ran side by side: different writers. A session
start inside a file begins an attempt too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from stepscope.events.writer import is_own_name, own_name
from stepscope.store.kinds import ABOUT_THE_RUN
from stepscope.store.points import SeriesPoints
from stepscope.store.source import AttemptPart, FollowedFile

NAME = re.compile(
    r"tfevents\.(?P<stamp>\d+)\.(?P<host>.+?)(?:\.(?P<pid>\d+)\.(?P<uid>\d+)(?P<suffix>\D.*)?)?$"
)


@dataclass(slots=True)
class Attempt:
    """One uninterrupted stretch of one writer; numbers count from 1."""

    number: int
    source: FollowedFile
    part: AttemptPart


@dataclass(slots=True)
class Writer:
    """One process of a run, through all its restarts.

    Attributes:
        id: "rank 3" if a run of several ranks says so; else host and process number of its first file, or
            that file's name. Unique within the run.
        rank: As recorded by Stepscope, else None.
        attempts: Oldest first.
        beside: The content of Stepscope's own files of attempts that also have an event file's points.
        joined: Points that were joined of the files of one attempt, by tag and attempt, with their sources.
    """

    id: str
    rank: int | None
    sources: list[FollowedFile]
    attempts: list[Attempt] = field(default_factory=list)
    beside: list[Attempt] = field(default_factory=list)
    joined: dict[tuple[str, int], tuple[object, SeriesPoints]] = field(default_factory=dict)

    @property
    def every_attempt(self) -> list[Attempt]:
        """Its attempts, before each the part from Stepscope's own file."""
        return sorted([*self.beside, *self.attempts], key=lambda attempt: attempt.number)

    @property
    def attempt(self) -> int:
        """Number of the newest attempt; 0 before the first point."""
        return self.attempts[-1].number if self.attempts else 0

    @property
    def files(self) -> list[str]:
        """Its files, oldest first."""
        return [source.path for source in self.every_source]

    @property
    def every_source(self) -> list[FollowedFile]:
        """Its files, each with the one beside it."""
        return [file for source in self.sources for file in (source, source.beside) if file is not None]

    @property
    def last_wall(self) -> float:
        """Wall time of its newest event."""
        return self.sources[-1].last_wall


def assign(sources: list[FollowedFile]) -> list[Writer]:
    """Return the writers of a run; files without any event belong to none."""
    writers: list[Writer] = []
    sources = paired(sources)
    begun = [source for source in sources if source.first_wall == source.first_wall or holds(source)]
    for source in sorted(begun, key=lambda source: (finite(source.first_wall, 0.0), source.name)):
        previous = predecessor(source, writers)
        if previous is None:
            writers.append(Writer(writer_id(source, writers), rank_of(source), [source]))
        else:
            previous.sources.append(source)
            previous.rank = previous.rank if previous.rank is not None else rank_of(source)
    for writer in writers:
        number_attempts(writer)
    return writers


def parts_of(writer: Writer) -> Iterator[tuple[int, FollowedFile, AttemptPart]]:
    """Yield the number of the attempt, the file and the part of all that a writer wrote.

    A part without any point, as a run's own facts before the first, belongs to the attempt that
    follows in its file, else to the one before.
    """
    numbers = {id(attempt.part): attempt.number for attempt in writer.every_attempt}
    for source in writer.sources:
        files = [source] if source.beside is None else [source, source.beside]
        every = [numbers[id(part)] for file in files for part in file.parts if id(part) in numbers]
        before = max(every, default=writer.attempt or 1)
        for file in files:
            known = [numbers.get(id(part)) for part in file.parts]
            for at, part in enumerate(file.parts):
                yield next((number for number in known[at:] if number is not None), before), file, part


def paired(sources: list[FollowedFile]) -> list[FollowedFile]:
    """Return event files, each with Stepscope's own beside it; one that is alone counts as an event file."""
    beside = {source.path: source for source in sources if is_own_name(source.name)}
    logs = [source for source in sources if source.path not in beside]
    for source in logs:
        folder = source.path.removesuffix(source.name)
        source.beside = beside.pop(folder + own_name(source.name), None)
    for source in beside.values():
        source.beside = None
    return [*logs, *beside.values()]


def holds(source: FollowedFile) -> bool:
    """Return whether there is anything in a file; its events may have no time at all."""
    return any(part.tags or part.records for part in source.parts)


def finite(wall: float, otherwise: float) -> float:
    """Return a wall time, or something else if it is NaN."""
    return wall if wall == wall else otherwise


def still_holds(writers: list[Writer]) -> bool:
    """Return whether every file still begins after the one it continues ended, now that files have grown."""
    return all(
        later.first_wall > earlier.last_wall or same_attempt(earlier, later)
        for writer in writers
        for earlier, later in zip(writer.sources, writer.sources[1:], strict=False)
    )


def predecessor(source: FollowedFile, writers: list[Writer]) -> Writer | None:
    """Return the writer that a file continues.

    That is the one that wrote the same attempt. Of several others, the one of the same rank, else with the
    most tags in common, else on the same host, else the first.
    """
    for writer in writers:
        if same_attempt(writer.sources[-1], source):
            return writer
    rank, suffix = rank_of(source), part_of_name(source, "suffix")
    free = [
        writer
        for writer in writers
        if writer.last_wall < source.first_wall
        and (rank is None or writer.rank is None or rank == writer.rank)
        and suffix == part_of_name(writer.sources[0], "suffix")
    ]
    if len(free) < 2:
        return free[0] if free else None
    tags, host = tags_of(source), part_of_name(source, "host")

    def likeness(writer: Writer) -> tuple[bool, int, bool]:
        last = writer.sources[-1]
        return writer.rank == rank, len(tags & tags_of(last)), host == part_of_name(last, "host")

    return max(free, key=likeness)


def number_attempts(writer: Writer) -> None:
    """Number the attempts of a writer, by its recorded number if that is higher than the count."""
    number, before = 0, None
    for source in writer.sources:
        recorded = source.said.attempt if source.said and source.said.attempt else 0
        goes_on = number > 0 and before is not None and same_attempt(before, source)
        first, before = max(number + (not goes_on), recorded), source
        parts = [part for part in source.parts if part.tags or has_results(part)]
        for at, part in enumerate(parts):
            number = number + 1 if at else first
            writer.attempts.append(Attempt(number, source, part))
        if source.beside is None:
            continue
        for part in source.beside.parts:
            if part.tags or has_results(part):
                number = max(number, first)
                into = writer.beside if parts else writer.attempts
                into.append(Attempt(first, source.beside, part))


def same_attempt(before: FollowedFile, source: FollowedFile) -> bool:
    """Return whether a file holds more of the attempt of another one, that took no more."""
    one, other = before.said, source.said
    if one is None or other is None or one.started is None or one.pid is None:
        return _named_alike(before, source)
    return (one.host, one.pid, one.started, one.attempt) == (
        other.host,
        other.pid,
        other.started,
        other.attempt,
    )


def _named_alike(before: FollowedFile, source: FollowedFile) -> bool:
    """Return whether Stepscope's names of two files are of one process and moment.

    A file that was full at once may have been left before the facts of its run were written beside it. Other
    writers' files may bear such names and be written side by side: those say nothing.
    """
    if before.beside is None or source.beside is None:
        return False
    one, other = (
        [part_of_name(file, part) for part in ("stamp", "host", "pid")] for file in (before, source)
    )
    return one == other and all(one)


def has_results(part: AttemptPart) -> bool:
    """Return whether a part holds results that are not scalars, and not only facts of the run."""
    return any(records.about.kind not in ABOUT_THE_RUN for records in part.records.values())


def rank_of(source: FollowedFile) -> int | None:
    """Return the rank that Stepscope recorded."""
    return source.said.rank if source.said else None


def rank_name(source: FollowedFile) -> str:
    """Return the name of a rank of a job of several, empty if the file does not say."""
    info = source.said
    if info is None or info.rank is None or (info.world_size or 1) < 2:
        return ""
    return info.role if info.role == "evaluator" else f"rank {info.rank}"


def tags_of(source: FollowedFile) -> set[str]:
    """Return all tags of a file."""
    return {tag for part in source.parts for tag in part.tags}


def part_of_name(source: FollowedFile, part: str) -> str:
    """Return ``stamp host pid uid`` or ``suffix`` of an event file's name, empty if it has none."""
    match = NAME.search(source.name)
    return (match[part] or "") if match else ""


def writer_id(source: FollowedFile, taken: list[Writer]) -> str:
    """Return a name for the process that wrote a file, unlike those already taken."""
    host, pid = part_of_name(source, "host"), part_of_name(source, "pid")
    name = rank_name(source) or (f"{host}.{pid}" if pid else host or source.name)
    names = {writer.id for writer in taken}
    unique, number = name, 2
    while unique in names:
        unique, number = f"{name}#{number}", number + 1
    return unique
