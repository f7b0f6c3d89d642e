"""A run: its writers, their attempts, and the series of all of them."""

from __future__ import annotations

import math
import posixpath
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from stepscope.cell import card_html
from stepscope.errors import UnknownTagError
from stepscope.events.kinds.text import TABLE_SUFFIX
from stepscope.health.ring import median
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.splits import WORDS, Split, split_run
from stepscope.names.telling import telling
from stepscope.names.tensors import tensor_of
from stepscope.reading import Problem
from stepscope.store import findings
from stepscope.store.files import RunFiles
from stepscope.store.findings import WrittenFinding
from stepscope.store.frame import Frame
from stepscope.store.info import ProcessWatch, RunInfo, State, state_of
from stepscope.store.nearest import hint_nearest
from stepscope.store.problems import overlap, problems_of, unrecorded
from stepscope.store.records import RecordSeries, RecordTag, joined
from stepscope.store.series import Series, series_of, superseded_from
from stepscope.store.source import AttemptPart
from stepscope.store.writers import Writer, parts_of
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.events.ending import Ending
    from stepscope.health.changes import ChangeGroup
    from stepscope.store.ranks import Ranks

RECENT = 65
"""Least number of points used: a median over 64 intervals ignores a pause for evaluation or a checkpoint."""
STEPS_RATE = "speed/steps_per_second"
"""The rate that a run records of its own steps, which it times."""


SPREAD_SECONDS, LEAST_SECONDS = 10.0, 1.0
"""Seconds that the newest points should span, and without which they tell no rate."""
RATES = 5
"""Newest values of a recorded rate of which the median counts."""
BLOCKS, T_95, STRETCHES = 8, 2.365, 1000
"""Stretches of steps by which the time that is left varies, the quantile of Student's t for so many, and the
number of places at which they are laid."""


def steps_per_second(step: NDArray[Any], wall: NDArray[Any]) -> float | None:
    """Return the rate of steps by the newest points of a series; None if they cannot tell it.

    It is the median over the intervals between points, if these make up most of the time. If not, the points
    were logged in bursts, such as all of an epoch at its end: the median from burst to burst counts, of three
    bursts or more, because of two the gap may be a pause.

    Args:
        step: Steps in recorded order.
        wall: Wall times in seconds.
    """
    timed = np.isfinite(wall)
    step, wall = step[timed].astype(np.float64), wall[timed]
    if len(wall) < 2:
        return None
    early = np.flatnonzero(wall <= wall[-1] - SPREAD_SECONDS)
    begin = min(max(0, len(wall) - RECENT), int(early[-1]) if len(early) else 0)
    steps, seconds = np.diff(step[begin:]), np.diff(wall[begin:])
    forward = (steps > 0) & (seconds > 0)
    elapsed = float(seconds[forward].sum())
    if not forward.any() or elapsed < LEAST_SECONDS:
        return None
    rate = 1 / median(seconds[forward] / steps[forward])
    if 2 * steps[forward].sum() / rate >= elapsed:
        return rate
    ends = np.append(np.flatnonzero(np.diff(wall) > seconds.max() / 2), len(wall) - 1)
    if len(ends) < 3:
        return None
    steps, seconds = np.diff(step[ends]), np.diff(wall[ends])
    forward = (steps > 0) & (seconds > 0)
    return median(steps[forward] / seconds[forward]) if forward.any() else None


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time until all steps are done, evaluations and checkpoints between them included.

    Attributes:
        seconds: Expected.
        between: Seconds between which it lies with 95 %; None if the past is too short to tell.
    """

    seconds: float
    between: tuple[float, float] | None = None


def time_left(left: int, step: NDArray[Any], wall: NDArray[Any]) -> TimeLeft | None:
    """Return the time that some more steps will take, None if the points cannot tell it.

    The newer half of the steps counts: their mean duration holds the pauses for evaluations and checkpoints
    as often as they come, and no longer what was special about the beginning. The interval is that of a sum
    of further observations by the mean of :data:`BLOCKS` observed ones (prediction interval of Student's t):
    an observation is a stretch of so many steps, and they vary as all such stretches do, wherever they begin.

    Args:
        left: The number of steps to come.
        step: Steps in recorded order.
        wall: Wall times in seconds.
    """
    timed = np.isfinite(wall)
    step, wall = step[timed].astype(np.float64), np.maximum.accumulate(wall[timed])
    first = np.flatnonzero(np.diff(np.maximum.accumulate(step), prepend=-1.0) > 0)
    step, wall = step[first], wall[first]
    if len(step) < 2:
        return None
    begin = min(int(np.searchsorted(step, (step[0] + step[-1]) / 2)), len(step) - 2)
    length = step[-1] - step[begin]
    seconds = left * float((wall[-1] - wall[begin]) / length)
    if not left or len(step) - 1 - begin < BLOCKS:
        return TimeLeft(seconds)
    block = min(float(left), length / BLOCKS)
    starts = np.linspace(step[begin], step[-1] - block, STRETCHES)
    took = np.interp(starts + block, step, wall) - np.interp(starts, step, wall)
    ahead = left / block
    error = T_95 * float(took.std()) * float(np.sqrt(ahead + ahead**2 / BLOCKS))
    return TimeLeft(seconds, (max(seconds - error, 0.0), seconds + error))


def last_ending(writers: Sequence[Writer]) -> Ending | None:
    """Return the last ending, if it is noted for every writer's newest file."""
    newest = [writer.sources[-1].ending for writer in writers]
    return (
        None
        if not newest or None in newest
        else max(filter(None, newest), key=lambda ending: ending.ended or 0.0)
    )


CARD_TAGS = 8
"""Series whose last values the card of a run shows in a notebook."""


def _place(tag: str, meanings: Meanings) -> tuple[int, ...]:
    """Return the place of a series among all, the most telling first."""
    kind = meanings.kind(tag)
    return telling(tag, [tag], kind, evaluated=False, meanings=meanings).place


class StoredRun:
    """One run of a log directory; it follows the findings of ``Log.refresh``.

    Args:
        name: Its path from the log directory.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.base = name
        """The run that it is part of: ``X`` for ``X/eval``; itself otherwise."""
        self.split: Split | None = None
        self.parent: str | None = None
        """The run that it belongs to by its own word, such as the sweep of a trial, if that is here."""
        self.meanings = NAMED
        self.files = RunFiles()
        self._relatives: list[StoredRun] = [self]
        self._settings: list[StoredRun] = []
        """Runs that hold the settings of this one and no curve."""
        self._ranks: Ranks | None = None
        self._process = ProcessWatch()
        self._info: tuple[object, RunInfo] | None = None
        """The facts, after the generations of which they were read."""
        self._usual_points = (-1, 1)
        """A generation of its family, and then its usual points."""

    @property
    def whole(self) -> StoredRun:
        """The run that stands for its family: the run of which all are parts.

        If that is no run itself, as with Keras' ``train`` and ``validation``, it is the part of the training,
        else the first by name.
        """
        family = sorted(
            self._relatives, key=lambda run: (run.name != self.base, run.split != "train", run.name)
        )
        return family[0]

    @property
    def parts(self) -> list[StoredRun]:
        """The other runs of its family, if it stands for them."""
        return [run for run in self._relatives if run is not self] if self.whole is self else []

    @property
    def generation(self) -> int:
        """Generation of the log in which this run last changed."""
        return self.files.generation

    @property
    def family_generation(self) -> int:
        """Generation of the log in which this run, its whole or a part of that last changed."""
        return max(run.generation for run in self._relatives)

    def __repr__(self) -> str:
        tags, points = counted(len(self.files.tags), "tag"), counted(self.num_points(), "point")
        return f"<run {self.name!r}: {tags}, {points}>"

    def _repr_html_(self) -> str:
        state, reason = self.condition()
        facts: list[tuple[str, str | int | float | None]] = [
            ("state", f"{state}: {reason}" if reason else state), ("last step", self.last_step),
        ]  # fmt: skip
        tags = sorted(self.tags(), key=lambda tag: _place(tag, self.meanings))
        facts += [(tag, float(self.columns(tag)[-1].last.value)) for tag in tags[:CARD_TAGS]]
        more = len(self.files.tags) - CARD_TAGS
        return card_html(self.name, facts, text=f"{more:,} more series: run.tags()" if more > 0 else "")

    def tags(self, kind: str = "scalar") -> list[str]:
        """Return the names of all scalar series, or of all series of another kind, sorted.

        Args:
            kind: As in ``RecordTag.kind``.
        """
        if kind == "scalar":
            return list(self.files.tags)
        return [series.tag for series in self.records() if series.kind == kind]

    def records(self) -> list[RecordTag]:
        """Return the tags whose values are not scalars, sorted: images, histograms, texts and others."""
        tags: dict[str, RecordTag] = {}
        for writer in self.files.writers:
            for source in writer.every_source:
                for part in source.parts:
                    for tag, records in part.records.items():
                        tags[tag] = joined(tag, records, tags.get(tag))
        tables = {tag.removesuffix(TABLE_SUFFIX) for tag, about in tags.items() if about.kind == "table"}
        for tag, about in tags.items():
            if about.kind == "histogram":
                tags[tag] = replace(about, tensor=tensor_of(tag, self.files.tags))
            elif about.kind != "table" and tag in tables:
                tags[tag] = replace(about, of_table=True)
        return [tags[tag] for tag in sorted(tags)]

    def record(self, tag: str) -> list[RecordSeries]:
        """Return the values of a tag that is not a scalar: a series per writer and attempt, oldest first.

        Indexing a series reads a value: ``histogram`` float64 [buckets, 3] of left edge, right edge and
        count; ``image`` and ``video`` an ``Images`` of encoded bytes with their MIME types; ``audio`` a tuple
        of ``Clip``; ``text`` an object array of ``str``; ``table`` a ``Table``; ``pr_curve`` float32
        [6, thresholds]; ``mesh`` and ``tensor`` an array; ``hparams`` and ``embedding`` a dictionary;
        ``layout`` a ``Layout``; ``graph`` and ``run_metadata`` serialized messages; others the array or value
        as it was written.

        Raises:
            UnknownTagError: The run has no such tag.
        """

        def steps_of(part: AttemptPart) -> tuple[int, int] | None:
            records = part.records.get(tag)
            return (
                None if records is None else (int(records.places.step.min()), int(records.places.step.max()))
            )

        series = [
            RecordSeries(
                self.name, tag, writer.id, number, source.records_path, part.records[tag], again.get(number)
            )
            for writer in self.files.writers
            for again in [superseded_from(writer, steps_of)]
            for number, source, part in parts_of(writer)
            if tag in part.records
        ]
        if not series:
            names = [tag.tag for tag in self.records()]
            raise UnknownTagError(
                f"run {self.name!r} has no tag {tag!r} that is not a scalar",
                hint=hint_nearest(tag, names, "its tags"),
            )
        return series

    @property
    def findings(self) -> list[WrittenFinding]:
        """The findings of the run about its own health while it was recorded, the newest state of each."""
        own: list[WrittenFinding] = []
        if any(findings.TAG in part.records for w in self.files.writers for _, _, part in parts_of(w)):
            for series in self.record(findings.TAG):
                own += findings.read_findings(series, series.attempt)
        return findings.newest(own)

    def changes(self) -> list[ChangeGroup]:
        """Return what changed in the run and when: groups of changes of all series, and of what it recorded.

        That is attempts, with the settings, versions and code that differ between them, checkpoints,
        captures, lost ranks and findings.
        A group holds what may have begun at the same time, causes first. Its ``text`` is a sentence, its
        ``changes`` are the facts: levels before and after, and the steps between which each began. Limits
        are those of a chance of 0.1 % for a false change in a run of plain noise.
        """
        from stepscope.store.changes import CAPTURES, CHECKPOINTS, Recorded, changes_of

        runs = [self, *self.parts]
        known = {tag.tag for tag in self.records()}
        return changes_of(
            Recorded(
                self.name,
                [column for run in runs for tag in run.tags() for column in run.columns(tag)],
                [writer for run in runs for writer in run.writers],
                self.findings,
                [series for tag in (CHECKPOINTS, CAPTURES) if tag in known for series in self.record(tag)],
                self.ranks.members(),
            )
        )

    def num_points(self) -> int:
        """Return the number of scalar points of the run, all read and verified."""
        attempts = [attempt for writer in self.files.writers for attempt in writer.every_attempt]
        return sum(points.count for attempt in attempts for points in attempt.part.tags.values())

    @property
    def usual_points(self) -> int:
        """The points of the training loss of its family, or of the densest series if it has none."""
        generation = self.family_generation
        if self._usual_points[0] != generation:
            losses: Counter[str] = Counter()
            others: Counter[str] = Counter()
            for run in self._relatives:
                trained = {
                    tag: run.meanings.is_training_loss(tag) and run.split in (None, "train")
                    for tag in run.files.tags
                    if not tag.startswith("stepscope/")
                }
                for attempt in (attempt for writer in run.files.writers for attempt in writer.every_attempt):
                    for tag, points in attempt.part.tags.items():
                        if tag in trained:
                            (losses if trained[tag] else others)[f"{run.name}/{tag}"] += points.count
            self._usual_points = generation, max((losses or others).values(), default=1)
        return self._usual_points[1]

    def series(self, tag: str) -> Frame:
        """Return every point of a tag as columns: step, wall_time, value, writer, attempt.

        Raises:
            UnknownTagError: The run has no such tag.
        """
        return Frame(self.columns(tag), Frame.COLUMNS[2:])

    def columns(self, tag: str) -> list[Series]:
        """Return the series of a tag as numpy columns: one per writer and attempt, oldest attempt first.

        Raises:
            UnknownTagError: The run has no such tag.
        """
        return self.own_columns(tag) or self._unknown(tag)

    def own_columns(self, tag: str) -> list[Series]:
        """Return what ``columns`` does, or [] if the run has no such tag.

        Most of many runs may lack a tag: only an error looks for names like it.
        """
        part, start = self.meanings.part(tag, self.split), self.start_wall or 0.0
        return [
            series
            for writer in self.files.writers
            for series in series_of(self.name, writer, tag, split=part, start_wall=start)
        ]

    def _unknown(self, tag: str) -> NoReturn:
        raise UnknownTagError(
            f"run {self.name!r} has no tag {tag!r}", hint=hint_nearest(tag, self.files.tags, "its tags")
        )

    def find(self, tag: str) -> list[Series]:
        """Return the series of a tag of this run, or else of its family.

        ``tokens`` of ``X`` is found for ``X/eval``, and ``eval/loss`` of ``X`` as the ``loss`` of ``X/eval``.

        Raises:
            UnknownTagError: No run of the family has it.
        """
        return self.search(tag) or self._unknown(tag)

    def search(self, tag: str) -> list[Series]:
        """Return what ``find`` does, or [] if no run of the family has the tag."""
        for run in [self, *self._relatives]:
            if tag in run.files.tags:
                return run.own_columns(tag)
        prefix = "" if self.base == "." else f"{self.base}/"
        for run in self._relatives:
            part = f"{run.name.removeprefix(prefix)}/"
            if run.name != self.base and tag.startswith(part) and tag.removeprefix(part) in run.files.tags:
                return run.own_columns(tag.removeprefix(part))
        return self.own_columns(tag)

    @property
    def writers(self) -> list[Writer]:
        """The processes that wrote into the run."""
        return list(self.files.writers)

    @property
    def ranks(self) -> Ranks:
        """The ranks of its job by the files that each has written: who, how far, rank by step."""
        if self._ranks is None:
            from stepscope.store.ranks import Ranks

            self._ranks = Ranks(next((path.rpartition("/")[0] for path in self.files.sources), self.name))
        return self._ranks

    @property
    def experiment(self) -> dict[str, Any]:
        """The declarations of TensorBoard's hp plugin: ``description hparams metrics``; {} for nothing."""
        return next((source.experiment for source in self.files.sources.values() if source.experiment), {})

    @property
    def info(self) -> RunInfo:
        """The facts from the newest attempt of its lowest rank; inferred for runs of other tools."""
        state = self.generation, [(run.name, run.generation) for run in self._settings]
        if self._info is None or self._info[0] != state:
            self._info = state, self._read_info()
        return self._info[1]

    def _read_info(self) -> RunInfo:
        infos = [
            source.info for writer in self.files.writers for source in writer.every_source if source.info
        ]
        if not infos:
            ended = last_ending(self.files.writers)
            status = "finished" if ended else None
            config, started = dict(self.files.hparams(None)), self.first_wall
            for run in self._settings:
                config |= run.files.hparams(None)
            return RunInfo(
                status=status, config=config, started=started, ended=ended.ended if ended else None
            )
        chief = min(info.rank or 0 for info in infos)
        info = [info for info in infos if (info.rank or 0) == chief][-1]
        config = info.config | self.files.hparams(info)
        return info if config == info.config else replace(info, config=config)

    @property
    def state(self) -> State:
        """The state of the run now."""
        return self.condition()[0]

    def condition(self, *, now: float | None = None) -> tuple[State, str | None]:
        """Return the state and the reason for it, None if none is known."""
        info = self.info
        now = time.time() if now is None else now
        alive = self._process.alive(info, now, self.written) if info.status == "running" else None
        return state_of(info, written=self.written, now=now, alive=alive)

    @property
    def written(self) -> float:
        """When it last recorded something, seconds since the epoch, as far as its records tell the time."""
        return max((source.last_sign for source in self.files.sources.values()), default=0.0)

    @property
    def problems(self) -> list[Problem]:
        """Problems of reading."""
        now = time.time()
        result = [
            problem for source in self.files.sources.values() for problem in problems_of(source, now=now)
        ]
        return result + overlap(self.files.writers) + unrecorded(self.info)

    @property
    def first_wall(self) -> float | None:
        """Wall time of the first event, None before it."""
        return self.files.first_wall

    @property
    def start_wall(self) -> float | None:
        """Wall time of the first event of the run that this is part of: the origin of its relative time."""
        return min((at for run in self._relatives if (at := run.first_wall) is not None), default=None)

    @property
    def last_wall(self) -> float | None:
        """Wall time of the newest event, None before the first."""
        return self.files.last_wall

    @property
    def last_step(self) -> int | None:
        """Largest newest step of all tags in the newest attempts; None before the first point."""
        return max(
            (points.last.step for part in self._newest_parts for points in part.tags.values()), default=None
        )

    def newest_size(self, tag: str) -> float:
        """Return the size of the newest value of a tag; 0 if there is none or it is not finite."""
        newest = (part.tags[tag].last.value for part in self._newest_parts if tag in part.tags)
        return max((abs(value) for value in newest if math.isfinite(value)), default=0.0)

    def recent_size(self, tag: str) -> float:
        """Return the size of the largest of the recent values of a tag; 0 if none is finite."""
        parts = (part.tags[tag].columns.value[-RECENT:] for part in self._newest_parts if tag in part.tags)
        return max(
            (float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) for values in parts), default=0.0
        )

    @property
    def steps_per_second(self) -> float | None:
        """The rate of its steps: as recorded, else by its densest series; None if it cannot be told."""
        recorded = [
            part.tags[STEPS_RATE].columns.value[-RATES:]
            for part in self._newest_parts
            if STEPS_RATE in part.tags
        ]
        rates = [values[np.isfinite(values) & (values > 0)] for values in recorded]
        if rates and len(rates[0]):
            return median(rates[0])
        return steps_per_second(*self._densest())

    @property
    def _newest_parts(self) -> list[AttemptPart]:
        return [writer.attempts[-1].part for writer in self.files.writers if writer.attempts]

    def _densest(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return steps and wall times of the series with most points in the newest attempts."""
        densest = max(
            (points for part in self._newest_parts for points in part.tags.values()),
            key=lambda points: (points.count, points.last.wall),
            default=None,
        )
        return (densest.columns.step, densest.columns.wall) if densest else (np.zeros(0), np.zeros(0))

    @property
    def time_left(self) -> TimeLeft | None:
        """Time until its last step while it is running; None if that cannot be told.

        Steps count from 0, so the last of ``total_steps`` is ``total_steps - 1``.
        """
        total = self.info.total_steps
        if total is None or self.state != "running" or (step := self.last_step) is None:
            return None
        rate, left, points = self.steps_per_second, max(0, total - 1 - step), self._densest()
        if steps_per_second(*points) is None:  # logged in bursts
            return TimeLeft(left / rate) if rate else None
        return time_left(left, *points)


def relate(runs: dict[str, StoredRun], above: dict[str, str]) -> None:
    """Tell every run which run it is part of.

    Args:
        runs: All of them.
        above: The result of :func:`settings_of`.
    """
    families: dict[str, list[StoredRun]] = {}
    settings: dict[str, list[StoredRun]] = {}
    for name, parent in above.items():
        settings.setdefault(parent, []).append(runs[name])
    for name, run in runs.items():
        run.base, run.split = curve_split(run) or split_run(name, runs)
        if name in above:
            run.base = split_run(above[name], runs)[0]
        families.setdefault(run.base, []).append(run)
    for run in runs.values():
        run._relatives = families[run.base]
        run._settings = settings.get(run.name, [])


def adopt(runs: dict[str, StoredRun]) -> None:
    """Tell every run which run is its parent: the one that it recorded, if that is here.

    A name that fits several runs means the one in the same directory. Runs in a circle have no parent.
    """
    bases = {name: run.base for name, run in runs.items()} | {run.base: run.base for run in runs.values()}
    recorded = {run.base: (run, parent) for run in runs.values() if (parent := _recorded_parent(run))}
    by_last: dict[str, set[str]] = {}
    for base in set(bases.values()) if recorded else ():
        by_last.setdefault(posixpath.basename(base), set()).add(base)
    parents = {base: parent for base, place in recorded.items() if (parent := _found(*place, bases, by_last))}
    turns: dict[str, int] = {}
    for turn, base in enumerate(list(parents)):
        at = base
        while at in parents and at not in turns:
            turns[at] = turn
            at = parents[at]
        if turns.get(at) == turn:
            while at in parents:
                at = parents.pop(at)
    for run in runs.values():
        run.parent = parents.get(run.base)


def _recorded_parent(run: StoredRun) -> str | None:
    """Return the parent by the newest attempt that names one; cheaper than all facts of a run."""
    infos = [source.info for writer in run.files.writers for source in writer.every_source if source.info]
    return next((info.parent for info in reversed(infos) if info.parent), None)


def _found(run: StoredRun, recorded: str, bases: dict[str, str], by_last: dict[str, set[str]]) -> str | None:
    if recorded.startswith("."):
        match = bases.get(posixpath.normpath(posixpath.join(run.name, recorded)))
        return None if match == run.base else match
    for folder in (posixpath.dirname(run.base), ""):
        match = bases.get(posixpath.normpath(posixpath.join(folder, recorded)))
        if match not in (None, run.base):
            return match
    ends = by_last.get(posixpath.basename(recorded), set())
    fitting = [base for base in ends if base.endswith(f"/{recorded}") and base != run.base]
    return fitting[0] if len(fitting) == 1 else None


def curve_split(run: StoredRun) -> tuple[str, Split] | None:
    """Return the directory whose curve a run is part of, and which part; None if it is no such run.

    torch's ``SummaryWriter.add_scalars("loss", {"train": …, "val": …})`` writes ``loss_train/`` and
    ``loss_val/``, each with the tag ``loss``.
    """
    parent, _, last = run.name.rpartition("/")
    tags = run.files.tags
    prefix = f"{tags[0].replace('/', '_')}_" if len(tags) == 1 else ""
    word = WORDS.get(last.removeprefix(prefix).lower()) if prefix and last.startswith(prefix) else None
    return (parent or ".", word) if word else None


def settings_of(runs: dict[str, StoredRun]) -> dict[str, str]:
    """Return the runs that only hold the settings of another, each with that other run.

    torch's ``SummaryWriter.add_hparams`` writes hyper-parameters and results into a directory below its own,
    named by the time or by ``run_name``, at each call. They belong to the run above, which has the series,
    if all of them say the same settings; different settings are those of separate trials.
    """
    settings: dict[str, list[str]] = {}
    for name, run in runs.items():
        parent = _run_above(name, runs)
        if parent is not None and _is_settings(run):
            settings.setdefault(parent, []).append(name)
    return {
        name: parent
        for parent, names in settings.items()
        if not runs[parent].files.have_config
        and runs[parent].tags()  # one point is enough: a short trial logs its loss once
        and all(runs[name].info.config == runs[names[0]].info.config for name in names)
        for name in names
    }


def _run_above(name: str, runs: dict[str, StoredRun]) -> str | None:
    """Return the nearest directory above that is a run."""
    while name not in (".", ""):
        name = name.rpartition("/")[0] or "."
        if name in runs:
            return name
    return None


def _is_settings(run: StoredRun) -> bool:
    """Return whether a run has hyper-parameters, perhaps results, and no curve."""
    files = run.files
    recorded = any(source.info for source in files.sources.values())
    return files.have_config and not recorded and not _has_curve(run)


def _has_curve(run: StoredRun) -> bool:
    return any(
        points.count > 1
        for writer in run.files.writers
        for attempt in writer.every_attempt
        for points in attempt.part.tags.values()
    )
