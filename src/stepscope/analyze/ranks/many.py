"""The ranks of a large job, file by file, keeping only the parts that the ranks share.

Each file is read twice, by whichever process or machine is free: first to bring its collectives and steps
together with those of the other ranks, then to find its rank's work while others waited for it. So
memory grows with ranks and collectives, and not with events.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stepscope.analyze.parameter_server import TaskStep, task_steps
from stepscope.analyze.ranks.blame import Answers, Asked, Doings, OwnStretches, asked_of, told_by
from stepscope.analyze.ranks.job import HowRead, Job, JobParts, job_of
from stepscope.analyze.ranks.own_work import Excess, OwnWork, joined, own_work
from stepscope.analyze.ranks.waits import Waits
from stepscope.child import processors
from stepscope.errors import EmptyTraceError, StepscopeError, TraceError
from stepscope.trace.distinct import distinct
from stepscope.trace.load import load_file, load_trace
from stepscope.trace.model import COLUMNS, Kind, Trace, among
from stepscope.trace.names import Paths, Strings
from stepscope.trace.ranks import load_directory, with_rank_of
from stepscope.trace.tables import TABLES
from stepscope.urls import join
from stepscope.workers import spread

Columns = TypeVar("Columns", Asked, OwnStretches)


@dataclass(frozen=True, slots=True)
class _RankFile:
    number: int
    path: str
    url: str
    cache: bool


@dataclass(frozen=True, slots=True)
class _Digest:
    """The part of a file that is kept, see :func:`reduced`; or why there is none."""

    number: int
    trace: Trace | None = None
    own: OwnWork | None = None
    tasks: tuple[TaskStep, ...] = ()
    error: tuple[str, str, bool] = ("", "", False)


@dataclass(frozen=True, slots=True)
class _Question:
    file: _RankFile
    rank: int
    asked: Asked
    stretches: OwnStretches | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    answers: Answers
    doings: Doings
    error: str = ""


def job_of_files(place: Path, where: HowRead, *, url: str = "") -> tuple[Job, Trace]:
    """Return a job as the profiles in a directory show it, and their kept parts.

    Args:
        place: The directory.
        where: How they are read.
        url: The source of the directory, from which other machines can fetch its files too.

    Raises:
        TraceError: No profile in it, or none that can be read.
        EmptyTraceError: One rank alone, or no collective that ranks share.
        UsageError: Ray is not installed, or cannot be reached.
    """
    read = _Files(place, where, url)
    trace = load_directory(place, read.digests)
    parts = JobParts(read.tasks, lambda: read.own(trace), lambda *args: read.causes(trace, *args))
    job = job_of(trace, parts, network_bytes_per_s=where.network_bytes_per_s)
    return replace(job, notes=(*job.notes, *read.notes)), trace


class _Files:
    """The files of a job."""

    def __init__(self, place: Path, where: HowRead, url: str) -> None:
        self._place, self._where, self._url = place, where, url
        self._files: list[_RankFile] = []
        self._own: dict[int, OwnWork] = {}
        self.tasks: list[TaskStep] = []
        self.notes: list[str] = []

    def digests(self, paths: Sequence[Path]) -> Iterator[Trace | TraceError]:
        """Yield the kept part of each file in order, or why it cannot be read."""
        self._files = [
            _RankFile(number, str(path.resolve()), self._url_of(path), self._where.cache)
            for number, path in enumerate(paths)
        ]
        waiting: dict[int, Trace | TraceError] = {}
        for digest in self._spread("read", digest_of, self._files, _undigested):
            path = paths[digest.number]
            if digest.trace is None:
                message, hint, empty = digest.error
                waiting[digest.number] = (EmptyTraceError if empty else TraceError)(
                    message, hint=hint, path=path
                )
                continue
            sources = tuple(replace(source, path=str(path)) for source in digest.trace.sources)
            waiting[digest.number] = replace(digest.trace, sources=sources)
            self.tasks += digest.tasks
            if digest.own is not None:
                self._own[digest.number] = digest.own
        for number in range(len(paths)):
            yield waiting.pop(number)

    def own(self, trace: Trace) -> dict[int, OwnWork]:
        """Return the own work of each rank, in rows of the kept parts of all files together."""
        row_of = {key: row for row, key in enumerate(zip(*_places(trace), strict=True))}
        parts: dict[int, list[OwnWork]] = defaultdict(list)
        rank_of = dict(zip(trace.flops.tolist(), trace.rank.tolist(), strict=True))
        for number, own in self._own.items():
            if number in rank_of:
                rows = np.array([row_of[number, row] for row in own.row.tolist()], np.int64)
                parts[rank_of[number]].append(replace(own, row=rows))
        return {rank: joined(of) for rank, of in parts.items()}

    def causes(
        self, trace: Trace, waits: Waits, excess: Excess, stretches: Mapping[int, OwnStretches]
    ) -> tuple[Answers, Doings]:
        """Ask files for their ranks' work instead of arriving, and in stretches of their time."""
        files, rows = (np.array(column) for column in _places(trace))
        questions = []
        for at, rank in enumerate(waits.joint.ranks):
            asked, mine = asked_of(waits, at, excess), stretches.get(rank)
            for file in distinct(files[asked.row]).tolist():
                here = files[asked.row] == file
                of_mine = files[mine.row] == file if mine is not None else np.zeros(0, bool)
                some = _some(mine, of_mine, rows) if mine is not None and of_mine.any() else None
                if some is not None or (asked.kept_ns[here] > 0).any():
                    question = _some(asked, here, rows)
                    questions.append(_Question(self._files[file], rank, question, some))
        answers: Answers = {}
        doings: Doings = {}
        for answer in self._spread("ask", answer_of, questions, _unanswered):
            answers |= answer.answers
            doings |= answer.doings
            if answer.error:
                self.notes.append(answer.error)
        return answers, doings

    def _spread(self, what: str, call: Any, tasks: Sequence[Any], failed: Any) -> Iterator[Any]:
        where, begun = self._where, time.monotonic()
        processes = where.processes or processors()
        done = spread(call, tasks, processes=processes, ray=where.ray, failed=failed)
        for count, digest in enumerate(done, 1):
            if where.progress is not None:
                where.progress(what, count, len(tasks), time.monotonic() - begun)
            yield digest

    def _url_of(self, path: Path) -> str:
        return join(self._url, path.relative_to(self._place).as_posix()) if self._url else ""


def _places(trace: Trace) -> tuple[list[int], list[int]]:
    """Return the file of each kept row, and its row there."""
    return trace.flops.tolist(), trace.correlation.tolist()


def _some(columns: Columns, here: Any, rows: Any) -> Columns:
    """Return some rows of questions about collectives, in rows of their file."""
    some = {field.name: getattr(columns, field.name)[here] for field in fields(columns)}
    return type(columns)(**some | {"row": rows[some["row"]]})


def _undigested(file: _RankFile, why: str) -> _Digest:
    return _Digest(file.number, error=(why, "if memory ran out, record fewer steps, or give it more", False))


def _unanswered(question: _Question, why: str) -> _Answer:
    return _Answer({}, {}, f"{Path(question.file.path).name}: what its rank did is not known: {why}")


def digest_of(file: _RankFile) -> _Digest:
    """Read a file, and keep the parts that the ranks share."""
    try:
        trace = _loaded(file)
    except StepscopeError as error:
        return _Digest(file.number, error=(error.message, error.hint, isinstance(error, EmptyTraceError)))
    if trace.format == "flight_recorder":
        return _Digest(file.number, trace)
    own = own_work(trace, trace.ranks[0]) if len(trace.ranks) == 1 else None
    return _Digest(file.number, reduced(trace, file.number), own, tuple(task_steps(trace)))


def answer_of(question: _Question) -> _Answer:
    """Read a file again, and return its rank's work instead of arriving."""
    try:
        trace = _loaded(question.file)
    except StepscopeError as error:
        return _unanswered(question, error.message)
    ranks = trace.ranks
    # The rank of a file that does not name it follows from all files together.
    rank = question.rank if question.rank in ranks else ranks[0]
    return _Answer(*told_by(trace, rank, question.asked, question.stretches))


def _loaded(file: _RankFile) -> Trace:
    path = Path(file.path)
    if not path.exists() and file.url:  # on another machine
        return load_trace(file.url, cache=file.cache)
    return with_rank_of(load_file(path, cache=file.cache), path)


def reduced(trace: Trace, number: int) -> Trace:
    """Return the collectives and steps of a file.

    The columns ``correlation`` and ``flops``, which are not needed here, hold the number of each row in its
    file and the number of the file.
    """
    keep = np.zeros(len(trace), bool)
    keep[trace.collectives.row] = True
    keep[among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind]] = True
    if len(trace):  # how long it was recorded
        keep[[int(trace.start_ns.argmin()), int(trace.end_ns.argmax())]] = True
    rows = np.flatnonzero(keep)
    place = np.full(len(trace) + 1, -1, np.int64)  # the last is that of -1
    place[rows] = np.arange(len(rows))
    columns: dict[str, Any] = {name: getattr(trace, name)[rows] for name in COLUMNS}
    nowhere = np.full(len(rows), -1)
    for name in ("parent", "launch", "forward", "scope", "stack"):
        columns[name] = nowhere.astype(COLUMNS[name])
    columns["correlation"], columns["flops"] = rows, np.full(len(rows), number, np.int64)
    columns["depth"] = np.zeros(len(rows), COLUMNS["depth"])
    tables = {name: TABLES[name].empty() for name in TABLES}
    tables["steps"] = replace(trace.steps, row=np.full(len(trace.steps), -1, np.int32))
    tables["collectives"] = replace(trace.collectives, row=place[trace.collectives.row].astype(np.int32))
    strings, columns["name"], tables["collectives"] = _used(trace, columns["name"], tables["collectives"])
    none = Paths(np.zeros(0, np.int32), np.zeros(0, np.int32), Strings.of([]))
    return replace(trace, **columns, **tables, strings=strings, scopes=none, stacks=none)


def _used(trace: Trace, name: Any, collectives: Any) -> tuple[Strings, Any, Any]:
    """Return the names that are in use, and the columns with their numbers."""
    fields = {field: getattr(collectives, field) for field in collectives.names}
    used = distinct(np.concatenate([name, *fields.values()]))
    used = used[used >= 0]
    number = np.full(len(trace.strings) + 1, -1, np.int32)
    number[used] = np.arange(len(used))
    strings = Strings.of([str(trace.strings[string]) for string in used.tolist()])
    return strings, number[name], replace(collectives, **{field: number[of] for field, of in fields.items()})
