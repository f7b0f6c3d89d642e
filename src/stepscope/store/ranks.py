"""The ranks of a run: who they are, how far each has come, and rank by step for any fact.

Each rank writes a file of its own under ``ranks/`` (``events/telemetry.py``). Listing costs a look at each
file's name and size; a file is read when its steps are asked for, and then only its new rows.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.events.rank_file import Digest, Fact, Outline, RankFile, RecordedSteps
from stepscope.events.telemetry import FOLDER, HANG, MAX_RANKS, SUFFIX, Name, hung_at, parse_name
from stepscope.files import fitting, json_object
from stepscope.health.worth import WORTH
from stepscope.store.info import QUIET_SECONDS, RunInfo, State, last_sign, process_alive
from stepscope.store.lines import apart, windows_of

FACTS = tuple(name for name in RecordedSteps._fields if name not in ("step", "wall"))
"""Facts that exist for each rank and step."""
STAGE = "stage/"
"""Prefix of the facts of stages."""
VALUE = "value/"
"""Prefix of the facts of values that each rank keeps of its own."""
STAGES = ("data", "rest")
"""Stages that every rank records."""
NEWEST = 50
"""Steps whose stages stand for what a step takes now."""
THREADS = 4
MAX_COLUMNS = 4096
GONE = "its process is gone"
"""The reason of a rank that did not write how it ended."""
FEWEST_TIMED = 20
"""Steps that the devices of all ranks must have timed, for the stages to be theirs."""
MOST_HANG_BYTES = 64 << 20
"""Most bytes of a rank's report when its step does not end: all stacks of all its threads."""
TURNED = 16
"""Ranks whose stages are put side by side at once: 64 bytes of each step."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a run, in its newest attempt.

    Attributes:
        label: Its name: "rank 3", "ps 0".
        kind: "rank" or "ps".
        role: "chief", "worker", "ps"; None if nothing could be read yet.
        attempts: Numbers of the attempts that it took part in.
        state: As of a run; "stalled" is one that wrote nothing for a minute and is not known to live.
        is_gone: Whether its process is gone and did not write how it ended.
        written: When its file was last written, seconds since the epoch.
        skipped: Records that could not be read.
        facts: Everything it says about itself.
    """

    label: str
    kind: str
    rank: int
    role: str | None
    attempts: tuple[int, ...]
    host: str | None
    pid: int | None
    state: State
    reason: str | None
    is_gone: bool
    written: float
    digest: Digest
    skipped: int
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class FactGrid:
    """One fact rank by step, some steps to a column.

    Attributes:
        labels: Of the rows.
        ranks: Number of each row's rank.
        steps: First step of each column.
        end: Step after the last column.
        maximum: float32 [rows, columns]: the largest finite value; NaN if nothing was recorded.
        mean: float32 [rows, columns], of the finite values.
        count: uint32 [rows, columns]: steps of which something was recorded.
        nonfinite: uint32 [rows, columns]: recorded values that are not finite numbers.
    """

    fact: str
    attempt: int
    labels: list[str]
    ranks: NDArray[np.int64]
    steps: NDArray[np.int64]
    end: int
    maximum: NDArray[np.float32]
    mean: NDArray[np.float32]
    count: NDArray[np.uint32]
    nonfinite: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class RankValue:
    """The newest values of a series of which each rank keeps its own.

    Attributes:
        tag: The series.
        step: The newest step that all of its ranks have recorded; of any, if they have none in common.
        ranks: How many ranks have a value there.
        mean: Of the finite values there; None if none is finite, like those below.
        minimum: The least of them.
        minimum_rank: Label of the rank that has it.
        maximum: The largest of them.
        maximum_rank: Label of the rank that has it.
        nonfinite: How many values there are not finite.
    """

    tag: str
    step: int
    ranks: int
    mean: float | None
    minimum: float | None
    minimum_rank: str | None
    maximum: float | None
    maximum_rank: str | None
    nonfinite: int


@dataclass(frozen=True, slots=True, eq=False)
class StageTable:
    """How long each stage of each step took each rank.

    Attributes:
        ranks: Number of each rank.
        hosts: Host of each rank; None if it did not say.
        stages: Names, in the order in which they run.
        steps: Number of each step that any rank recorded.
        durations_s: float32 [steps, ranks, stages], a stage after the other in memory; NaN if not
            recorded. They sum to the rank's step.
        groups: The parts that ranks work on, if they named them.
        doubled: Ranks that recorded a step more than once; the newest counts.
        clock: "device" if the stages end when the ranks' devices come to their end, else "host". Steps
            that a device has not timed are not recorded then.
        devices: Whether ranks computed on devices, which work behind their hosts.
        own_steps: Whether the ranks count their steps together, as workers with parameter servers do. The
            steps are then numbered by each rank's own order.
        lines: For each rank the line of the program in which it spends most more than the others do, and that
            in a sentence; none of a rank that spends its time as the others do, or did not record lines.
    """

    attempt: int
    ranks: list[int]
    hosts: Sequence[str | None]
    stages: list[str]
    steps: NDArray[np.int64]
    durations_s: NDArray[np.float32]
    groups: dict[int, str]
    doubled: list[int]
    clock: str = "host"
    devices: bool = False
    own_steps: bool = False
    lines: Mapping[int, tuple[str, str]] = field(default_factory=dict)


class Ranks:
    """The ranks of one run; every answer is of that moment's files. Safe for threads.

    Args:
        directory: The run's directory.
        keep: Keep read rows for the next question. Without it a file is read when it is asked about, and only
            its steps and its brief answers are kept, as of the first question.
    """

    def __init__(self, directory: str, *, keep: bool = True) -> None:
        self._keep = keep
        self.folder = f"{directory}/{FOLDER}"
        self._files: dict[str, RankFile] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<ranks {self.folder!r}: {self.count()}>"

    def __len__(self) -> int:
        return self.count()

    def names(self) -> dict[str, Name]:
        """Return the files and the facts in their names, at the cost of one listing."""
        try:
            by_name = {name: parse_name(name) for name in os.listdir(self.folder)}  # noqa: PTH208  names only
        except OSError:
            return {}
        return {text: name for text, name in by_name.items() if name is not None}

    @property
    def several(self) -> bool:
        """True if they are the ranks of a job; the only process of a training writes a file, too."""
        return any(name.size > 1 or name.rank or name.kind == "ps" for name in self.names().values())

    def count(self) -> int:
        """Return how many ranks the newest attempt has so far."""
        return len({name.label for name in newest(self.names())})

    def size(self) -> int | None:
        """Return how many ranks the newest attempt was started with; None if there are none."""
        return max((name.size for name in newest(self.names()) if name.kind == "rank"), default=None)

    def sizes(self) -> dict[int, list[int]]:
        """Return of each attempt how many ranks its ranks said there are: several if they disagree."""
        by_attempt: dict[int, set[int]] = {}
        for name in self.names().values():
            if name.kind == "rank":
                by_attempt.setdefault(name.attempt, set()).add(name.size)
        return {attempt: sorted(by_attempt[attempt]) for attempt in sorted(by_attempt)}

    def notes(self) -> list[str]:
        """Return which files of ranks are left out because of their names."""
        try:
            names = [name for name in os.listdir(self.folder) if name.endswith(SUFFIX)]  # noqa: PTH208
        except OSError:
            return []
        strange = sorted(name for name in names if parse_name(name) is None)
        if not strange:
            return []
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        return [
            f"left out: {strange[0][:80]!a}{more}, not named as a rank's file, or as one of more than "
            f"{MAX_RANKS:,} ranks"
        ]

    def attempts(self) -> list[int]:
        """Return the numbers of the attempts, in order."""
        return sorted({name.attempt for name in self.names().values()})

    def members(self, *, now: float | None = None) -> list[Rank]:
        """Return every rank with its newest attempt in brief, parameter servers last."""
        now = time.time() if now is None else now
        with self._lock:
            files = self._read()
            groups: dict[tuple[bool, str, int], list[RankFile]] = {}
            for file in files:
                key = file.name.kind == "ps", file.name.kind, file.name.rank
                groups.setdefault(key, []).append(file)
            return [rank_of(groups[key], now) for key in sorted(groups)]

    def steps(self, rank: int, *, attempt: int | None = None, kind: str = "rank") -> RecordedSteps:
        """Return the columns of one rank: step, wall and every fact.

        Args:
            rank: Its number.
            attempt: By default the newest of the run.
            kind: "ps" for a parameter server.

        Raises:
            UsageError: There is no such rank in that attempt.
        """
        with self._lock:
            _, rows = self._rows(attempt, self._read())
            files = rows.get((kind, rank))
            if not files:
                raise UsageError(
                    f"no {kind} {rank} in attempt {attempt or 'the newest'}",
                    hint=f"{len(rows)} are there",
                    path=self.folder,
                )
            return joined(files, RankFile.steps)

    def grid(
        self,
        fact: str,
        *,
        columns: int | None = None,
        attempt: int | None = None,
        begin: int | None = None,
        end: int | None = None,
    ) -> FactGrid:
        """Return a fact rank by step.

        Args:
            fact: One of ``FACTS``, ``stage/`` and the name of a stage, or ``value/`` and the tag of a
                series of which each rank keeps its own values.
            columns: The most columns; several steps then share one, of which maximum and mean are given. By
                default one per step.
            attempt: By default the newest.
            begin: First step; by default the first there is.
            end: Step after the last.

        Raises:
            UsageError: No such fact.
        """
        if fact not in FACTS and not fact.startswith((STAGE, VALUE)):
            raise UsageError(
                f"no fact {fact!r:.40} of ranks",
                hint=f"one of {', '.join(FACTS)}, {STAGE}forward, or {VALUE}loss",
            )
        with self._lock:
            number, rows = self._rows(attempt, self._read())
            keys = sorted(rows, key=lambda key: (key[0] == "ps", key[1]))
            device = fact.startswith(STAGE) and timed_by_devices([rows[key] for key in keys], begin, end)
            parts = [fact_of(rows[key], fact, device=device) for key in keys]
        return grid_of(fact, number, keys, parts, edges_of(parts, columns, begin, end))

    def stages(
        self, *, attempt: int | None = None, begin: int | None = None, end: int | None = None
    ) -> StageTable:
        """Return the durations of stages of every rank, parameter servers left out.

        Args:
            attempt: By default the newest.
            begin: First step; by default the first there is.
            end: Step after the last.
        """
        with self._lock:
            number, rows = self._rows(attempt, self._read())
            ranks = sorted(rank for kind, rank in rows if kind == "rank")
            files = [max(rows["rank", rank], key=lambda file: file.name.number) for rank in ranks]
            names = stage_order(files)
            device = timed_by_devices([rows["rank", rank] for rank in ranks], begin, end)

            def parts(some: slice) -> list[Staged]:
                return [
                    staged(again(rows["rank", rank]), names, begin, end, device=device)
                    for rank in ranks[some]
                ]

            whole = parts(slice(None)) if self._keep else None
            numbers = (
                [outline_of(rows["rank", rank], begin, end) for rank in ranks]
                if whole is None
                else [steps for steps, _ in whole]
            )
            own_steps = count_together(numbers)

            def rows_of(some: slice) -> list[Staged]:
                pairs = parts(some) if whole is None else whole[some]
                return [in_own_order(*part) for part in pairs] if own_steps else pairs

            if own_steps:
                numbers = [np.arange(len(np.unique(own))) for own in numbers]
            steps, durations, late = side_by_side(numbers, rows_of, len(names))
        hosts = [str(file.facts["host"]) if "host" in file.facts else file.name.host for file in files]
        doubled = [ranks[at] for at in late]
        if len(steps) and np.isnan(durations[:, :, 0]).all():  # no rank knows when it asked for data
            durations, names = durations[:, :, 1:], names[1:]
        groups = {
            rank: group
            for rank, file in zip(ranks, files, strict=True)
            if isinstance(group := file.facts.get("group"), str)
        }
        return StageTable(
            number, ranks, hosts, names, steps, durations, groups, doubled, "device" if device else "host",
            any(isinstance(gpus := file.facts.get("devices"), list) and gpus for file in files), own_steps,
            apart({rank: windows_of(file.facts) for rank, file in zip(ranks, files, strict=True)}),
        )  # fmt: skip

    def newest_stages(self) -> tuple[dict[str, float], int]:
        """Return the mean seconds of each stage over the newest steps of the first rank, and their number.

        Without a mark of any stage there are none: then all of a step but its wait for data is one.
        """
        last = max((rank.digest.last_step or 0 for rank in self.members()), default=0)
        table = self.stages(begin=last - NEWEST + 1)
        taken = table.durations_s[:, 0] if table.ranks else np.zeros((0, 0), np.float32)
        taken = taken[~np.isnan(taken).any(axis=1)]
        if not len(taken) or not set(table.stages) - set(STAGES):
            return {}, 0
        means = taken.mean(axis=0, dtype=np.float64)
        return dict(zip(table.stages, means.tolist(), strict=True)), len(taken)

    def values(self) -> list[RankValue]:
        """Return the newest values of each series of which the ranks of the newest attempt keep their own."""
        with self._lock:
            _, rows = self._rows(None, self._read())
            files = {f"{kind} {rank}": again(own) for (kind, rank), own in sorted(rows.items())}
        tags = [tag for group in files.values() for file in group for tag in file.value_names]
        values = [
            value_of(tag, {label: own_of(own, tag) for label, own in files.items()})
            for tag in dict.fromkeys(tags)
        ]
        return [value for value in values if value is not None]

    def stalled(self) -> list[dict[str, Any]]:
        """Return the reports of the newest attempt's ranks about stalled steps.

        Unreadable files are left out, and so are those of processes of earlier attempts.
        """
        now = {f"{name.rank} {name.pid}" for name in newest(self.names())}
        reports = []
        for path in sorted(Path(self.folder).glob(f"{HANG}*.json")):
            facts = json_object(path, MOST_HANG_BYTES)
            if facts is not None and f"{facts.get('rank')} {facts.get('pid')}" in now:
                reports.append(facts)
        return reports

    def stalled_at(self) -> float | None:
        """Return when a rank last wrote that its step does not end, in seconds since the epoch, else None."""
        return max(hung_at(self.folder), default=None)

    def release(self) -> None:
        """Release read rows; they are read again when needed."""
        with self._lock:
            self._files = {}

    def _read(self) -> list[RankFile]:
        """Read the new rows of every file."""
        if not self._keep and self._files:
            return list(self._files.values())
        names = self.names()
        self._files = {
            text: self._files.get(text) or RankFile(f"{self.folder}/{text}", name)
            for text, name in names.items()
        }
        files = list(self._files.values())
        read = RankFile.follow if self._keep else outline
        if len(files) > THREADS:
            with ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-ranks") as pool:
                share_steps(zip(files, pool.map(read, files), strict=True))
        else:
            share_steps((file, read(file)) for file in files)
        return files

    def _rows(
        self, attempt: int | None, files: list[RankFile]
    ) -> tuple[int, dict[tuple[str, int], list[RankFile]]]:
        """Return the files of an attempt by rank."""
        number = max((file.name.attempt for file in files), default=0) if attempt is None else attempt
        rows: dict[tuple[str, int], list[RankFile]] = {}
        for file in files:
            if file.name.attempt == number:
                rows.setdefault((file.name.kind, file.name.rank), []).append(file)
        return number, rows


def outline(file: RankFile) -> None:
    """Read a file, and keep only its steps and its brief answers."""
    file.follow()
    file.outlined()


def share_steps(read: Iterable[tuple[RankFile, object]]) -> None:
    """Let files that have the same steps keep them once: most ranks of a job do."""
    first: Outline | None = None
    for file, _ in read:
        if (mine := file.outline) is None:
            continue
        first = first or mine
        file.outline = Outline(
            first.steps if same(first.steps, mine.steps) else mine.steps,
            first.timed if same(first.timed, mine.timed) else mine.timed,
        )


def same(one: NDArray[np.int64] | None, other: NDArray[np.int64] | None) -> bool:
    """Return whether steps are equal."""
    return one is not None and other is not None and np.array_equal(one, other)


def again(files: list[RankFile]) -> list[RankFile]:
    """Return files with their rows: those that forgot them are read again."""
    merged = []
    for file in files:
        if file.outline is not None:
            file = RankFile(file.path, file.name)
            file.follow()
        merged.append(file)
    return merged


def outline_of(files: list[RankFile], begin: int | None, end: int | None) -> NDArray[np.int64]:
    """Return the steps of one rank as :func:`staged` does, of files that forgot their rows."""
    steps = np.concatenate(
        [file.outlined().steps for file in sorted(files, key=lambda file: file.name.number)]
    )
    shown: NDArray[np.int64] = steps[in_range(steps, begin, end)]
    return shown


def in_range(steps: NDArray[np.int64], begin: int | None, end: int | None) -> NDArray[np.bool_]:
    """Return which steps lie between two, the end left out; None for the first there is, and all after."""
    chosen = np.ones(len(steps), bool)
    if begin is not None:
        chosen &= steps >= begin
    if end is not None:
        chosen &= steps < end
    return chosen


def newest(names: dict[str, Name]) -> list[Name]:
    """Return the files of the newest attempt."""
    last = max((name.attempt for name in names.values()), default=0)
    return [name for name in names.values() if name.attempt == last]


def rank_of(files: list[RankFile], now: float) -> Rank:
    """Return a rank in brief, given all its files."""
    file = max(files, key=lambda file: (file.name.attempt, written_of(file)))
    state, reason = state_of(file, now)
    facts, name = file.facts, file.name
    role = facts.get("role")
    return Rank(
        label=name.label,
        kind=name.kind,
        rank=name.rank,
        role=role if isinstance(role, str) else None,
        attempts=tuple(sorted({file.name.attempt for file in files})),
        host=str(facts["host"]) if "host" in facts else name.host,
        pid=name.pid,
        state=state,
        reason=reason,
        is_gone=reason == GONE,
        written=written_of(file),
        digest=file.digest(),
        skipped=sum(file.skipped for file in files),
        facts=facts,
    )


def written_of(file: RankFile) -> float:
    """Return when a rank last recorded something, seconds since the epoch; 0 if its file cannot be read."""
    return 0.0 if file.modified is None else last_sign(file.digest().last_wall, file.modified)


def state_of(file: RankFile, now: float) -> tuple[State, str | None]:
    """Return a rank's state and the reason, as far as its file and, on this host, its process show it."""
    ended = file.ended
    if ended is not None and ended.get("status") in get_args(State):
        reason = ended.get("reason")
        return ended["status"], reason if isinstance(reason, str) else None
    quiet = now - written_of(file)
    info = RunInfo(**fitting(RunInfo, {**file.facts, "pid": file.name.pid}))
    alive = process_alive(info) if "host" in file.facts else None
    if alive is False:
        return "stalled", GONE
    if alive or quiet < QUIET_SECONDS:
        return "running", None
    return "stalled", "silent for more than a minute"


def stage_order(files: Sequence[RankFile]) -> list[str]:
    """Return the stages of all ranks in order: those of the rank with the most, then those of others.

    The rest stands in the place that most of it had, and at the end if it is little: a delay is seen before
    the waiting for it only in the order in which they happened.
    """
    names: list[str] = []
    for stages in sorted((file.stage_names for file in files), key=len, reverse=True):
        names += [name for name in stages if name not in names and name not in STAGES]
    rested, whole = Counter[str](), 0.0
    for file in files:
        seconds, took = file.rested_s
        rested.update(seconds)
        whole += took
    at = len(names)
    if whole > 0 and rested.total() >= WORTH * whole:
        before = max(rested, key=rested.__getitem__)
        at = names.index(before) + 1 if before in names else 0
    return [STAGES[0], *names[:at], STAGES[1], *names[at:]]


Staged = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Steps of one rank, and seconds by stage in shape (stages, steps)."""


def count_together(parts: list[NDArray[np.int64]]) -> bool:
    """Return whether ranks count their steps together: while all train, few numbers are those of all ranks.

    Ranks that each count for themselves record every number, or lost some of them; of those of the rank with
    the fewest, the others have most. Half of them is the limit.
    """
    if not parts or all(np.array_equal(numbers, parts[0]) for numbers in parts):
        return False
    parts = sorted((np.unique(numbers) for numbers in parts if len(numbers)), key=len)
    first, last = max(numbers[0] for numbers in parts), min(numbers[-1] for numbers in parts)
    parts = [numbers[(numbers >= first) & (numbers <= last)] for numbers in parts]
    common = parts[0]
    for numbers in parts:
        common = common[np.isin(common, numbers, assume_unique=True)]
    fewest = min(map(len, parts))
    return fewest >= FEWEST_TIMED and len(common) < fewest / 2


def in_own_order(
    numbers: NDArray[np.int64], taken: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the steps of a rank, numbered by their order; of those with one number the newest counts."""
    newest = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
    return np.arange(len(newest)), taken[:, newest]


def side_by_side(
    ranks: list[NDArray[np.int64]], load: Callable[[slice], list[Staged]], stages: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], list[int]]:
    """Return the steps of all ranks, their times in shape (steps, ranks, stages), and who repeats steps.

    Some ranks at a time are turned, so that neighbouring values are written together.

    Args:
        ranks: The steps of each rank.
        load: Returns some ranks; steps that came since are left out.
        stages: How many there are.
    """
    if not ranks:
        return np.zeros(0, np.int64), np.zeros((0, 0, stages), np.float32), []
    first = ranks[0]
    same = all(np.array_equal(numbers, first) for numbers in ranks) and bool((np.diff(first) > 0).all())
    steps = first
    for numbers in () if same else ranks:
        if not np.isin(numbers, steps, assume_unique=False).all():
            steps = np.union1d(steps, numbers)
    steps = steps if same else np.unique(steps)
    table = np.empty((stages, len(steps), len(ranks)), np.float32)
    doubled = []
    for begin in range(0, len(ranks), TURNED):
        some = load(slice(begin, begin + TURNED))
        block = np.full((len(some), stages, len(steps)), np.nan, np.float32)
        for at, (numbers, taken) in enumerate(some):
            if same and len(numbers) == len(steps):
                block[at] = taken
                continue
            where = np.searchsorted(steps, numbers)
            known = where < len(steps)
            known[known] = steps[where[known]] == numbers[known]
            where, taken = where[known], taken[:, known]
            block[at][:, where] = taken
            if (np.diff(where) <= 0).any() and len(np.unique(where)) < len(where):
                doubled.append(begin + at)
        table[:, :, begin : begin + TURNED] = block.transpose(1, 2, 0)
    return steps, table.transpose(1, 2, 0), doubled


def timed_by_devices(ranks: list[list[RankFile]], begin: int | None, end: int | None) -> bool:
    """Say whether the devices of all ranks have timed enough steps, and the same ones.

    Args:
        ranks: The files of each rank.
        begin: First step that is asked for; None for the first there is.
        end: Step after the last.
    """
    common: NDArray[np.int64] | None = None
    for files in ranks:
        timed = [timed_of(file) for file in files]
        if all(part is None for part in timed):
            return False
        steps = np.concatenate([part for part in timed if part is not None])
        steps = steps[in_range(steps, begin, end)]
        common = np.unique(steps) if common is None else np.intersect1d(common, steps)
        if len(common) < FEWEST_TIMED:
            return False
    return common is not None


def timed_of(file: RankFile) -> NDArray[np.int64] | None:
    """Return the steps that a device timed; None if none did."""
    if file.outline is not None:
        return file.outline.timed
    if not file.times_devices:
        return None
    steps: NDArray[np.int64] = file.fact("step_time_s").step[np.isfinite(file.lengths(device=True)[0])]
    return steps


def staged(
    files: list[RankFile],
    names: list[str],
    begin: int | None,
    end: int | None,
    *,
    device: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the steps of one rank, and seconds by stage in shape (stages, steps).

    A stage that a rank did not mark in a step of which it told others took it no time. The rest is the step
    without the others.

    Args:
        files: Of the rank.
        names: Of the stages.
        begin: First step; None for the first there is.
        end: Step after the last.
        device: By the clock of the devices; steps that they have not timed are then NaN.
    """
    numbers, parts = [], []
    marks = [name for name in names if name not in STAGES]
    rest = names.index(STAGES[1])
    order = [*range(rest), len(marks) + 1, *range(rest, len(marks) + 1)]
    for file in sorted(files, key=lambda file: file.name.number):
        step = file.fact("step_time_s").step
        seconds, waited = file.lengths(device=device)
        taken = np.empty((len(names), len(step)), np.float32)
        taken[0] = waited
        marked = taken[1:-1]
        for at, name in enumerate(marks):
            marked[at] = file.stage(name, device=device)
        missing = np.isnan(marked)
        if missing.any():
            marked[missing & ~missing.all(axis=0)] = 0.0
        spent = marked.sum(axis=0, dtype=np.float64)
        spent += np.nan_to_num(taken[0])
        taken[-1] = np.maximum(seconds - spent, 0.0)
        chosen = in_range(step, begin, end)
        if rest <= len(marks):
            taken = taken[order]
        whole = chosen.all()
        numbers.append(step if whole else step[chosen])
        parts.append(taken if whole else taken[:, chosen])
    return (numbers[0], parts[0]) if len(parts) == 1 else (np.concatenate(numbers), np.hstack(parts))


def fact_of(files: list[RankFile], name: str, *, device: bool = False) -> Fact:
    """Return one fact of the files of one rank and attempt; of stages by the devices' clock, if so wished."""
    if name.startswith(STAGE):
        return stage_of(files, name.removeprefix(STAGE), device=device)
    if name.startswith(VALUE):
        return own_of(again(files), name.removeprefix(VALUE))
    return joined(files, lambda file: file.fact(name))


def own_of(files: list[RankFile], tag: str) -> Fact:
    """Return the values of a tag that one rank has kept of its own in one attempt."""
    return joined(files, lambda file: file.value(tag))


Columns = TypeVar("Columns", RecordedSteps, Fact)


def joined(files: list[RankFile], of: Callable[[RankFile], Columns]) -> Columns:
    """Join the columns of one rank and attempt; they are in several files if one was deleted meanwhile."""
    parts = [of(file) for file in sorted(files, key=lambda file: file.name.number)]
    if len(parts) == 1:
        return parts[0]
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def value_of(tag: str, ranks: dict[str, Fact]) -> RankValue | None:
    """Return the newest values of a series; None if no rank has one.

    Args:
        tag: The series.
        ranks: Its values by the label of the rank.
    """
    ranks = {label: fact for label, fact in ranks.items() if len(fact.step)}
    if not ranks:
        return None
    common = set.intersection(*(set(fact.step.tolist()) for fact in ranks.values()))
    step = max(common) if common else max(int(fact.step.max()) for fact in ranks.values())
    values = {
        label: float(fact.values[np.flatnonzero(fact.step == step)[-1]])
        for label, fact in ranks.items()
        if (fact.step == step).any()
    }
    finite = {label: value for label, value in values.items() if np.isfinite(value)}
    least, most = (
        min(finite, key=finite.__getitem__, default=None),
        max(finite, key=finite.__getitem__, default=None),
    )
    return RankValue(
        tag,
        step,
        len(values),
        sum(finite.values()) / len(finite) if finite else None,
        None if least is None else finite[least],
        least,
        None if most is None else finite[most],
        most,
        len(values) - len(finite),
    )


def stage_of(files: list[RankFile], stage: str, *, device: bool = False) -> Fact:
    """Return how long a stage took in each step of one rank; no steps if it recorded no such stage."""
    names = stage_order(files)
    if stage not in names:
        return Fact(np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))
    steps, taken = staged(files, names, None, None, device=device)
    values = taken[names.index(stage)]
    return Fact(steps, values, ~np.isnan(values))


def table_grid(
    table: StageTable,
    fact: str,
    values: NDArray[np.float32],
    *,
    columns: int | None,
    begin: int | None,
    end: int | None,
) -> FactGrid:
    """Return the grid of a fact that was worked out from all stages: ``values`` is of steps by ranks."""
    parts = [Fact(table.steps, own, ~np.isnan(own)) for own in values.T]
    keys = [("rank", rank) for rank in table.ranks]
    return grid_of(fact, table.attempt, keys, parts, edges_of(parts, columns, begin, end))


def grid_of(
    fact: str,
    attempt: int,
    keys: Sequence[tuple[str, int]],
    parts: Sequence[Fact],
    edges: NDArray[np.int64],
) -> FactGrid:
    """Return the grid of one fact: of each rank, by its kind and number, its values by step."""
    cells = [reduce(*part, edges) for part in parts]
    shape = len(keys), max(len(edges) - 1, 0)

    def stacked(at: int, kind: type[np.generic]) -> Any:
        return np.array([cell[at] for cell in cells], kind).reshape(shape)

    return FactGrid(
        fact,
        attempt,
        [f"{kind} {rank}" for kind, rank in keys],
        np.array([rank for _, rank in keys], np.int64),
        steps=edges[:-1],
        end=int(edges[-1]) if len(edges) else 0,
        maximum=stacked(0, np.float32),
        mean=stacked(1, np.float32),
        count=stacked(2, np.uint32),
        nonfinite=stacked(3, np.uint32),
    )


def edges_of(parts: list[Fact], columns: int | None, begin: int | None, end: int | None) -> NDArray[np.int64]:
    """Return the steps at which columns begin, and the end of the last; empty if there is no step."""
    steps_of_parts = [part.step for part in parts if len(part.step)]
    if not steps_of_parts:
        return np.zeros(0, np.int64)
    first = min(int(steps.min()) for steps in steps_of_parts) if begin is None else begin
    after = max(int(steps.max()) for steps in steps_of_parts) + 1 if end is None else end
    span = max(after - first, 0)
    if columns is None:
        if span > 2 * max(map(len, steps_of_parts)) + MAX_COLUMNS:
            steps = np.unique(np.concatenate(steps_of_parts))
            steps = steps[(steps >= first) & (steps < after)]
            return np.append(steps, after)
        columns = span
    return cut(first, span, max(min(columns, span), 1))


def edges_between(steps: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """Return the steps at which at most the given number of columns begin, and the end of the last."""
    if not len(steps):
        return np.zeros(0, np.int64)
    first, span = int(steps[0]), int(steps[-1]) + 1 - int(steps[0])
    return cut(first, span, min(columns, span))


def cut(first: int, span: int, parts: int) -> NDArray[np.int64]:
    """Return the edges of parts of a range, all about as long."""
    if span * parts < 1 << 62:
        return first + (np.arange(parts + 1, dtype=np.int64) * span) // parts
    edges = [first + at * span // parts for at in range(parts + 1)]  # the product does not fit into 64 bits
    limits = np.iinfo(np.int64)
    return np.array([min(max(edge, limits.min), limits.max) for edge in edges], np.int64)


def reduce(
    steps: NDArray[np.int64],
    values: NDArray[np.float32],
    there: NDArray[np.bool_],
    edges: NDArray[np.int64],
) -> tuple[Any, Any, Any, Any]:
    """Return maximum, mean, count and number of non-finite values of one rank between edges."""
    if len(steps) > 1 and not (steps[1:] >= steps[:-1]).all():
        order = np.argsort(steps, kind="stable")
        steps, values, there = steps[order], values[order], there[order]
    finite = np.isfinite(values)
    if there.all() and finite.all():
        begins = np.searchsorted(steps, edges)
        count, bad = np.diff(begins), np.zeros(max(len(edges) - 1, 0), np.int64)
    else:
        count = np.diff(np.searchsorted(steps[there], edges))
        steps, values = steps[finite], values[finite]
        begins = np.searchsorted(steps, edges)
        bad = count - np.diff(begins)
    some = np.flatnonzero(np.diff(begins))
    maximum, mean = np.full((2, len(count)), np.nan, np.float32)
    if len(some):
        values = values[: begins[-1]]
        maximum[some] = np.maximum.reduceat(values, begins[some])
        total = np.add.reduceat(values, begins[some], dtype=np.float64)
        mean[some] = total / np.diff(begins)[some]
    return maximum, mean, count, bad
