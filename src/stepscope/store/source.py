"""One event file as the store keeps it: its attempts, their columns, and its facts about the run."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from stepscope.errors import EventFileError, LogDirectoryError
from stepscope.events import Batch, EventFile, FileStatus, ScalarColumns, SessionStatus
from stepscope.events.ending import Ending, noted_ending
from stepscope.events.hparams import EXPERIMENT_TAG, START_TAG, decode_content
from stepscope.files import Blob, BlobError
from stepscope.store.index import Attempt, StoredFile, StoredPoints, StoredRecords, continues, is_same
from stepscope.store.info import RunInfo, last_sign, parse_info
from stepscope.store.kinds import BEFORE_A_SESSION
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.pyramid import Level, Levels
from stepscope.store.records import About, RecordPlaces, Records, by_tag

READ_BYTES = 256 << 20
"""Largest piece of a file that is decoded at once; it bounds the memory that decoding takes."""
INFO_TAG = "stepscope/run"
NAN = float("nan")
Kept = dict[tuple[str, int, float, float], np.ndarray[Any, Any]]


AttemptPart = Attempt[SeriesPoints, Records]


class FollowedFile:
    """One event file, followed.

    ``read`` runs on one thread at a time; everything else may be looked at from any thread meanwhile, for
    growth only swaps references.

    Args:
        path: The file.
        entry: The cached state, to be used only if it still holds.
        blob: Holds its cached columns.
    """

    def __init__(self, path: str, entry: StoredFile | None = None, blob: Blob | None = None) -> None:
        self.path = path
        self.entry, self._blob = entry, blob
        self.lock = threading.Lock()
        """Held while the file is read: reader and columns belong together."""
        self.name = path.rpartition("/")[2]
        self.seen: os.stat_result | None = None
        self.status = FileStatus()
        self.error: str | None = None
        self.info: RunInfo | None = None
        self.beside: FollowedFile | None = None
        """Stepscope's own file beside this one."""
        self.ending: Ending | None = None
        self.config: dict[str, Any] = {}
        self.experiment: dict[str, Any] = {}
        self.parts: tuple[AttemptPart, ...] = (AttemptPart(),)
        self.first_wall = self.last_wall = NAN
        self.shape = 0
        """Changes whenever parts or tags come or go."""
        self._file: EventFile | None = None
        self._state: dict[str, Any] | None = None
        self._again = SecondReading(path)

    @property
    def said(self) -> RunInfo | None:
        """Facts of the run, from here or the file beside."""
        return self.info or (self.beside.info if self.beside else None)

    @property
    def size(self) -> int:
        """Bytes of the file when it was last looked at."""
        return self.seen.st_size if self.seen else 0

    @property
    def records_path(self) -> str:
        """The file in which the positions of its records lie."""
        return self.path

    @property
    def written(self) -> float:
        """When the file was last written, seconds since the epoch; 0 before it was looked at."""
        return self.seen.st_mtime if self.seen else 0.0

    @property
    def last_sign(self) -> float:
        """When the file last grew, by its newest record; 0 before it was looked at."""
        return last_sign(self.last_wall, self.written)

    @property
    def count(self) -> int:
        """Points in the file."""
        return sum(points.count for part in self.parts for points in part.tags.values())

    def is_due(self, stat: os.stat_result) -> bool:
        """Return whether the file may hold something new, by the file system's facts."""
        if self.seen is None and self.entry and is_same(self.entry, stat):
            self._restore(self.entry)
            self.seen, self.ending = stat, noted_ending(self.path)
        if self.seen is None or identity(stat) != identity(self.seen):
            return True
        # What could not be read may be readable now. Zeros can turn into data without a new time stamp, as
        # pages of a network file system arrive.
        unread = self._file is not None and self._file.position < stat.st_size
        return self.status.zero_bytes > 0 or (unread and self.status.problem is not None)

    def follow(self, stat: os.stat_result) -> set[str] | None:
        """Read new bytes; return the tags that changed, None if nothing at all did."""
        with self.lock:
            before = self._aspect()
            changed = self._recall(stat) if self.seen is None and self.entry else set()
            changed |= self.read()
            self.seen, self.ending = stat, noted_ending(self.path)
            return changed if changed or self._aspect() != before else None

    def _aspect(self) -> tuple[object, ...]:
        """The visible facts of the file besides its points."""
        return self.seen and identity(self.seen), self.count, self.error, self.status.problem, self.ending

    def _recall(self, stat: os.stat_result) -> set[str]:
        """Take the cached state if the file only grew since; return its tags."""
        try:
            if self.entry and self.entry.state and continues(self.entry, self.path, stat):
                self._restore(self.entry)
                return {tag for part in self.parts for tag in (*part.tags, *part.records)}
        except OSError:
            pass  # read() will say why
        self.entry = None
        return set()

    def _restore(self, entry: StoredFile) -> None:
        self.status, self.info, self.config = entry.status, entry.info, entry.config
        self.experiment = entry.experiment
        self.first_wall, self.last_wall = entry.first_wall, entry.last_wall
        self._state = entry.state
        self.parts = tuple(
            part.mapped(partial(self._stored, number), partial(self._stored_records, number))
            for number, part in enumerate(entry.parts)
        )
        self.shape += 1

    def _stored(self, part: int, tag: str, stored: StoredPoints) -> SeriesPoints:
        blob = self._blob
        assert blob is not None

        def load() -> SeriesColumns:
            try:
                return SeriesColumns(
                    blob.column(stored.step), blob.column(stored.wall), blob.column(stored.value)
                )
            except BlobError:
                return self._again.columns(part, tag, stored.count)

        def load_pyramid() -> Levels:
            try:
                return tuple(Level(*(blob.column(place) for place in level)) for level in stored.pyramid)
            except BlobError:
                return ()

        return SeriesPoints.stored(stored.count, stored.last, stored.facts, load, load_pyramid)

    def _stored_records(self, part: int, tag: str, stored: StoredRecords) -> Records:
        blob = self._blob
        assert blob is not None

        def load() -> RecordPlaces:
            try:
                return RecordPlaces._make(blob.column(place) for place in stored.places)
            except BlobError:
                return self._again.places(part, tag, stored.count)

        return Records(About(*stored.about), stored.count, load)

    def read_ahead(self) -> None:
        """Prepare for a caller that needs the columns of most series."""
        if self._blob is not None:
            self._blob.read_ahead()

    def reader_state(self) -> dict[str, Any] | None:
        """Return the state from which a reader of the file can go on; None before it was read."""
        return self._file.state() if self._file else self._state

    def read(self) -> set[str]:
        """Read new bytes of the file and return the tags that changed.

        A file that cannot be read keeps its points; ``error`` says why.
        """
        changed: set[str] = set()
        try:
            self._read(changed)
            self.error = None
        except EventFileError as error:
            self.error = error.message
        except OSError as error:
            self.error = error.strerror or str(error)
        return changed

    def _read(self, changed: set[str]) -> None:
        if self._file is None:
            if self._state:
                self._file = EventFile.resume(self.path, self._state)
            else:
                changed |= self._forget()
                self._file = EventFile(self.path)
        progress = None
        while progress != (progress := _progress(self._file.status)):
            batch = self._file.read(READ_BYTES)
            if batch.late:  # a hole was filled: points belong between those already here
                self._file = EventFile(self.path)
                batch = self._file.read(READ_BYTES)
                changed |= self._forget()
            if batch.replaced:
                changed |= self._forget()
            self._take(batch, changed)
            self.status = self._file.status

    def _forget(self) -> set[str]:
        gone = {tag for part in self.parts for tag in (*part.tags, *part.records)}
        self.parts, self.info, self.config, self.experiment = (AttemptPart(),), None, {}, {}
        self.first_wall = self.last_wall = NAN
        self.entry = None
        self.shape += 1
        return gone

    def _take(self, batch: Batch, changed: set[str]) -> None:
        self.first_wall = float(
            np.fmin(self.first_wall, batch.first_wall if batch.first_wall is not None else NAN)
        )
        self.last_wall = float(
            np.fmax(self.last_wall, batch.last_wall if batch.last_wall is not None else NAN)
        )
        self._take_facts(batch)
        parts: Kept = {}
        begin = 0
        scalars = batch.scalars
        if PLACEHOLDER_TAG not in self.parts[-1].tags and any(new.tag == PLACEHOLDER_TAG for new in scalars):
            scalars = [column for column in map(without_placeholder, scalars) if len(column)]
        records = by_tag(batch.records, batch.metadata)
        for session in batch.sessions:
            if session.status == SessionStatus.START:
                self._append(scalars, begin, session.position, parts)
                self._append_records(records, begin, session.position)
                self._start(session.step)
                begin = session.position
        self._append(scalars, begin, None, parts)
        self._append_records(records, begin, None)
        changed.update(columns.tag for columns in scalars)
        changed.update(tag for tag in records if tag != INFO_TAG)

    def _start(self, step: int | None) -> None:
        """Begin another attempt, unless the present one has no point yet."""
        part = self.parts[-1]
        if part.tags or any(record.about.kind not in BEFORE_A_SESSION for record in part.records.values()):
            self.parts = (*self.parts, AttemptPart(start_step=step))
            self.shape += 1
        else:
            self.parts[-1].start_step = step

    def _append(self, scalars: list[ScalarColumns], begin: int, end: int | None, parts: Kept) -> None:
        """Add the points that stand between two positions of the file to the present attempt."""
        part, fresh = self.parts[-1], {}
        nothing: np.ndarray[Any, Any] = np.empty(0)
        read_step = read_wall = step = wall = nothing
        before = (0, 0)
        for new in scalars:
            low = int(np.searchsorted(new.position, begin)) if begin else 0
            high = len(new) if end is None else int(np.searchsorted(new.position, end))
            if low == high:
                continue
            if new.step is not read_step or (low, high) != before:
                step = shared(new.step[low:high], parts)
            if new.wall is not read_wall or (low, high) != before:
                wall = shared(new.wall[low:high], parts)
                part.first_wall = float(np.fmin(part.first_wall, np.fmin.reduce(wall)))
                part.last_wall = float(np.fmax(part.last_wall, np.fmax.reduce(wall)))
            read_step, read_wall, before = new.step, new.wall, (low, high)
            columns = SeriesColumns(step, wall, new.value[low:high])
            points = part.tags.get(new.tag)
            if points is None:
                fresh[new.tag] = SeriesPoints(columns)
            else:
                points.append(columns)
        if fresh:
            part.tags = {**part.tags, **fresh}
            self.shape += 1

    def _append_records(
        self, records: dict[str, tuple[About, RecordPlaces]], begin: int, end: int | None
    ) -> None:
        """Add the values that stand between two positions of the file to the present attempt."""
        part, fresh = self.parts[-1], {}
        for tag, (about, places) in records.items():
            low = int(np.searchsorted(places.position, begin)) if begin else 0
            high = len(places.position) if end is None else int(np.searchsorted(places.position, end))
            if low == high:
                continue
            these = RecordPlaces._make(column[low:high] for column in places)
            known = part.records.get(tag)
            fresh[tag] = known.grown(these) if known else held_records(about, these)
        if fresh:
            self.shape += any(tag not in part.records for tag in fresh)
            part.records = {**part.records, **fresh}

    def _take_facts(self, batch: Batch) -> None:
        """Decode the file's facts about the run: Stepscope's own record, else hyper-parameters."""
        assert self._file is not None
        rows = [row for row, tag in enumerate(batch.records.tag) if tag == INFO_TAG]
        if rows:
            event = self._file.event_at(int(batch.records.position[rows[-1]]))
            tensor = event.values[int(batch.records.index[rows[-1]])].tensor
            before = self.info
            self.info = (parse_info(tensor.string_val[0]) if tensor and tensor.string_val else None) or before
            if before and self.info and before.rank != self.info.rank:
                self.shape += 1  # it turned out to be another rank's, and is called by that
        self._take_hparams(batch)
        plugin = batch.metadata[EXPERIMENT_TAG].plugin_data if EXPERIMENT_TAG in batch.metadata else None
        if plugin:
            with suppress(EventFileError):
                given = decode_content(plugin.content).experiment
                self.experiment = given.facts if given else {}

    def _take_hparams(self, batch: Batch) -> None:
        """Take the hyper-parameters of every session that begins in the file; of two of a name the later."""
        assert self._file is not None
        for row, tag in enumerate(batch.records.tag):
            if tag != START_TAG:
                continue
            with suppress(EventFileError):
                event = self._file.event_at(int(batch.records.position[row]))
                about = event.values[int(batch.records.index[row])].metadata
                content = about.plugin_data.content if about and about.plugin_data else b""
                start = decode_content(content).session_start_info
                self.config = {**self.config, **(start.hparams if start else {})}


PLACEHOLDER_TAG = "hp_metric"
PLACEHOLDER = (0, -1.0)
"""Step and value that Lightning's ``TensorBoardLogger`` writes under that tag with hyper-parameters, so that
TensorBoard lists the run at all (``log_hyperparams`` with ``default_hp_metric``). It measures nothing."""


def without_placeholder(columns: ScalarColumns) -> ScalarColumns:
    """Return a series without its first point if that is Lightning's placeholder."""
    if columns.tag != PLACEHOLDER_TAG or (int(columns.step[0]), float(columns.value[0])) != PLACEHOLDER:
        return columns
    wall, step, value, position = columns.wall, columns.step, columns.value, columns.position
    return ScalarColumns(columns.tag, wall[1:], step[1:], value[1:], position[1:])


class SecondReading:
    """The event file once more, if the cache was deleted or damaged since it was opened.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: FollowedFile | None = None

    def columns(self, part: int, tag: str, count: int) -> SeriesColumns:
        """Return the first points of a series.

        Raises:
            LogDirectoryError: The file, too, has changed.
        """
        again = self._part(part).tags.get(tag)
        if again is None or again.count < count:
            raise self._lost(tag)
        return SeriesColumns._make(column[:count] for column in again.columns)

    def places(self, part: int, tag: str, count: int) -> RecordPlaces:
        """Return the places of the first values of a series of records; raises as ``columns``."""
        again = self._part(part).records.get(tag)
        if again is None or again.count < count:
            raise self._lost(tag)
        return RecordPlaces._make(column[:count] for column in again.places)

    def _part(self, part: int) -> AttemptPart:
        if self._file is None:
            self._file = FollowedFile(self._path)
            self._file.read()
        return self._file.parts[part] if part < len(self._file.parts) else AttemptPart()

    def _lost(self, tag: str) -> LogDirectoryError:
        return LogDirectoryError(
            f"lost {tag!r}: both the cache and the event file have changed",
            hint="open the log directory again",
            path=self._path,
        )


def shared(column: np.ndarray[Any, Any], known: Kept) -> np.ndarray[Any, Any]:
    """Return an equal column that is already kept, if any: tags of a loop have the same steps.

    The kept array is a column of its own, not a part of one that holds all tags.
    """
    key = column.dtype.char, len(column), column[0].item(), column[-1].item()
    same = known.get(key)
    if same is not None and (same == column).all():  # of one length, by the key
        return same
    own = column if column.base is None else column.copy()
    return known.setdefault(key, own) if same is None else own


def held_records(about: About, places: RecordPlaces) -> Records:
    """Return values whose places are at hand."""
    return Records(about, len(places.step), lambda: places)


def identity(stat: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return a value that changes whenever a file does, or is replaced."""
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _progress(status: FileStatus) -> tuple[int, int, int]:
    return status.records, status.skipped_bytes, status.undecodable
