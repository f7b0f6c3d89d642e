"""The file of one rank, followed: rows of numbers as columns, and what the rank says about itself.

``events/telemetry.py`` describes the format. A record whose checksum is wrong is left out and counted, and an
incomplete one at the end waits for the rest.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.events.damage import Effort
from stepscope.events.framing import HEADER_BYTES, payload_length
from stepscope.events.source import EventSource
from stepscope.events.telemetry import (
    END,
    FACTS,
    HAS_LOSS,
    HEAD,
    LATE,
    MORE,
    RATIO_STEPS,
    RATIOS,
    ROW,
    ROWS,
    SCHEMA,
    STAGED,
    TIMED,
    UNKNOWN,
    WHOLE,
    Name,
)
from stepscope.files import bounded_object
from stepscope.kernels import payloads, records, warn_if_uncompiled

warn_if_uncompiled(payloads)
HEADS = np.dtype(
    [
        ("kind", "u1"),
        ("schema", "u1"),
        ("stages", "<u2"),
        ("rows", "<u4"),
        ("step", "<i8"),
        ("wall", "<f8"),
        ("resident", "<f8"),
        ("device", "<f8"),
    ]
)
ROWS_OF = np.dtype(
    [
        ("step", "<i4"),
        ("wall", "<f4"),
        ("seconds", "<f4"),
        ("waited", "<f4"),
        ("nonfinite", "<u4"),
        ("loss", "<f4"),
    ]
)
assert HEADS.itemsize == HEAD.size
assert ROWS_OF.itemsize == ROW.size
LEAST_RECORD_BYTES = 18
PORTION_BYTES = 64 << 20
"""So much of a file is read at once; no record is longer."""
MOST_RECORDS = 1 << 20
"""Taken at once."""
MOST_FACTS_BYTES = 64 << 10
"""Of what a rank says about itself."""
MAX_STEP = 1 << 61
"""Steps beyond it, in either direction, are none: the distance of two steps fits into 64 bits."""
Array = NDArray[Any]


class RecordedSteps(NamedTuple):
    """The steps of one rank in one attempt, in recorded order; seconds, NaN if not recorded."""

    step: NDArray[np.int64]
    wall: NDArray[np.float64]
    step_time_s: NDArray[np.float32]
    data_wait_s: NDArray[np.float32]
    loss: NDArray[np.float32]
    nonfinite_count: NDArray[np.float32]
    resident_bytes: NDArray[np.float32]
    device_bytes: NDArray[np.float32]

    @property
    def has_loss(self) -> NDArray[np.bool_]:
        """True if a loss was recorded, even NaN, which the count distinguishes from none."""
        there: NDArray[np.bool_] = ~np.isnan(self.loss) | (self.nonfinite_count > 0)
        return there


class Outline(NamedTuple):
    """The steps of a file whose rows were forgotten.

    Attributes:
        timed: Those that a device timed; None if none did.
    """

    steps: NDArray[np.int64]
    timed: NDArray[np.int64] | None


class Fact(NamedTuple):
    """One fact of the steps of a rank.

    Attributes:
        recorded: Where there is a value at all; it may be NaN.
    """

    step: NDArray[np.int64]
    values: NDArray[np.float32]
    recorded: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Digest:
    """The newest facts of a file and its steps in brief; None if not recorded."""

    steps: int
    last_step: int | None
    last_wall: float | None
    median_step_s: float | None
    wait_ratio: float | None
    loss: float | None
    nonfinite: int
    resident_bytes: float | None
    device_bytes: float | None


class RankFile:
    """One rank's file, read from where the last read stopped. Not safe for threads.

    Args:
        path: The file.
        name: What its name says.

    Attributes:
        facts: What the rank says about itself.
        ended: How it ended, None while it runs or where it was killed.
        skipped: Records left out because a checksum is wrong or because they cannot be understood.
        error: Why the file cannot be read.
        seen: Its size and times at the last look.
    """

    def __init__(self, path: str, name: Name) -> None:
        self.path, self.name = path, name
        self.facts: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self.skipped = 0
        self.error: str | None = None
        self.seen: os.stat_result | None = None
        self._forget()

    def _forget(self) -> None:
        self._position, self._effort = 0, Effort()
        self._heads: list[Array] = []
        self._rows: list[Array] = []
        self._shares: list[Array] = []
        self._timed: list[Array] = []
        self._late: list[tuple[Array, Array]] = []
        self._steps: RecordedSteps | None = None
        self._digest: Digest | None = None
        self.outline: Outline | None = None

    def outlined(self) -> Outline:
        """Forget the rows, but not which steps they are of, nor the steps in brief; return these steps."""
        if self.outline is None:
            self.digest()
            heads, rows = joined(self._heads, HEADS), joined(self._rows, ROWS_OF)
            steps = step_of(heads, rows)
            timed = np.isfinite(self.lengths(device=True)[0]) if self.times_devices else None
            self.outline = Outline(steps, None if timed is None else steps[timed])
            self._heads, self._rows, self._late, self._shares, self._timed = [], [], [], [], []
            self._steps = None
        return self.outline

    def follow(self, stat: os.stat_result) -> bool:
        """Read what is new; return whether anything was."""
        before = self.seen
        if before is not None and (stat.st_size, stat.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
            return False
        self.seen = stat
        try:
            if stat.st_size < self._position or (before and before.st_ino != stat.st_ino):
                self._forget()
            with EventSource(self.path) as source:
                while self._read(source):
                    pass
        except OSError as error:
            self.error, self.seen = error.strerror or str(error), before
            return False
        self.error = None
        self._steps = self._digest = None
        return True

    def _read(self, source: EventSource) -> bool:
        """Read some of what is new; return whether there is more."""
        written = source.data_from(self._position)
        if written - self._position > PORTION_BYTES:  # nothing but zeros, which nobody wrote
            self.skipped += 1
            self._position = written
        data = source.bytes(self._position, min(PORTION_BYTES, max(source.size - self._position, 0)))
        whole = self._position + len(data) < source.size
        taken = self._take(data, source.size, whole=whole)
        self._position += taken
        return whole and taken > 0

    def _take(self, data: bytes, size: int, *, whole: bool) -> int:
        """Take the records in some bytes; return how many bytes are done with.

        Args:
            data: The bytes.
            size: Of the file.
            whole: More bytes follow, so that a record that does not end in so many is none.
        """
        at, view = 0, memoryview(data)
        while at < len(data):
            block = view[at:]
            room = min(len(block) // LEAST_RECORD_BYTES, MOST_RECORDS) + 1
            starts, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
            count, read, found = records.scan(block, starts, lengths)
            if count:
                self._take_records(block, starts[:count], lengths[:count])
            at += read
            if found == records.FULL:
                continue
            if found == records.INCOMPLETE and (at or not whole):
                break
            after = self._next(view, at + 1, size)
            if after is None:
                at = len(data) if whole or self._effort.is_spent else at
                break
            self.skipped += 1
            at = after
        return at

    def _next(self, data: memoryview, at: int, size: int) -> int | None:
        """Return where the next whole record begins."""
        one = np.empty(1, np.int64)
        while (at := records.find(data, at, len(data))) >= 0:
            length = payload_length(bytes(data[at : at + HEADER_BYTES])) or 0
            if not self._effort.allows(length, size):
                return None
            if records.scan(data[at:], one, one.copy())[0]:
                return at
            at += 1
        return None

    def _take_records(self, block: memoryview, starts: Array, lengths: Array) -> None:
        data = np.frombuffer(block, np.uint8)
        kinds, schemas = data[starts], data[starts + 1]
        good = schemas == SCHEMA
        self.skipped += int(np.count_nonzero(~good))
        for kind in (FACTS, END):  # the last one counts
            at = np.flatnonzero(good & (kinds == kind))
            for row in at[-1:].tolist():
                self._take_words(kind, block[starts[row] + 2 : starts[row] + lengths[row]])
        for kind in (ROWS, LATE):
            at = np.flatnonzero(good & (kinds == kind) & (lengths >= HEADS.itemsize))
            if len(at):
                self._take_rows(kind, block, starts[at], lengths[at])
        at = np.flatnonzero(good & ((kinds == STAGED) | (kinds == TIMED)) & (lengths >= HEADS.itemsize))
        counts = data[starts[at] + 2] + (data[starts[at] + 3].astype(np.int64) << 8)
        self.skipped += int(np.count_nonzero((kinds[at] == TIMED) & (counts < MORE)))
        # In the order in which they were written, in stretches of one kind and as many shares.
        begins = np.flatnonzero(np.diff(kinds[at].astype(np.int64) << 16 | counts, prepend=-1))
        for begin, end in itertools.pairwise([*begins.tolist(), len(at)]):
            kind, count = int(kinds[at[begin]]), int(counts[begin])
            if kind == STAGED or count >= MORE:
                self._take_rows(kind, block, starts[at[begin:end]], lengths[at[begin:end]], count)

    def _take_words(self, kind: int, text: memoryview) -> None:
        found = bounded_object(bytes(text)) if len(text) <= MOST_FACTS_BYTES else None
        if found is None:
            self.skipped += 1
        elif kind == FACTS:
            self.facts = found
        else:
            self.ended = found

    def _take_rows(
        self, kind: int, block: memoryview, starts: Array, lengths: Array, stages: int = 0
    ) -> None:
        layout = np.dtype([*ROWS_OF.descr, ("shares", "<u2", (stages,))]) if stages else ROWS_OF
        whole = (lengths - HEADS.itemsize) % layout.itemsize == 0
        if not whole.all():
            self.skipped += int(np.count_nonzero(~whole))
            starts, lengths = starts[whole], lengths[whole]
        heads = np.empty(len(starts), HEADS)
        rows = np.empty(int((lengths - HEADS.itemsize).sum()) // layout.itemsize, layout)
        payloads.split(block, starts, lengths, as_bytes(heads).reshape(-1, HEADS.itemsize), as_bytes(rows))
        heads["rows"] = (lengths - HEADS.itemsize) // layout.itemsize
        near = np.abs(heads["step"] // 2) <= MAX_STEP // 2
        if not near.all():
            self.skipped += int(np.count_nonzero(~near))
            rows = rows[np.repeat(near, heads["rows"])]
            heads = heads[near]
        if kind == LATE:
            self._late.append((heads, rows))
        else:
            self._heads.append(heads)
            shares = np.ascontiguousarray(rows["shares"]) if stages else np.empty((len(rows), 0), np.uint16)
            timed = stages - MORE if kind == TIMED else stages
            self._shares.append(shares[:, :timed])
            self._timed.append(
                shares[:, timed:] if kind == TIMED else np.full((len(rows), MORE), UNKNOWN, np.uint16)
            )
            if stages:
                plain = np.empty(len(rows), ROWS_OF)
                for name in ROWS_OF.names or ():
                    plain[name] = rows[name]
                rows = plain
            self._rows.append(rows)

    # --- what is asked ------------------------------------------------------------------------------

    @property
    def serial(self) -> tuple[int, int]:
        """Changes whenever the steps do."""
        return self._position, len(self._late)

    def steps(self) -> RecordedSteps:
        """Return the columns, values that came late put into their rows."""
        if self._steps is None:
            self._steps = columns(joined(self._heads, HEADS), joined(self._rows, ROWS_OF))
            for heads, rows in self._late:
                self._steps = with_late(self._steps, columns(heads, rows))
        return self._steps

    @property
    def stage_names(self) -> list[str]:
        """The stages that were recorded, in the order in which they ran, without data and rest."""
        names, order = self.facts.get("stages"), self.facts.get("stage_order")
        if not isinstance(names, list) or not isinstance(order, list):
            return []
        known = [at for at in order if isinstance(at, int) and 0 < at <= len(names)]
        return [str(names[at - 1]) for at in dict.fromkeys(known)]

    def stage(self, name: str, *, device: bool = False) -> NDArray[np.float32]:
        """Return how long a stage took in each step, seconds; NaN if it was not recorded.

        Args:
            name: Of the stage.
            device: As parts of the step on its device, see :meth:`lengths`.
        """
        names = self.facts.get("stages")
        at = names.index(name) if isinstance(names, list) and name in names else -1
        parts = []
        for shares in self._shares:
            there = 0 <= at < shares.shape[1]
            parts.append(shares[:, at] if there else np.full(len(shares), UNKNOWN, np.uint16))
        found = np.concatenate(parts) if parts else np.zeros(0, np.uint16)
        seconds: NDArray[np.float32] = found.astype(np.float32)
        seconds *= np.float32(1 / WHOLE)
        seconds *= self.lengths(device=True)[0] if device else self.fact("step_time_s").values
        seconds[found == UNKNOWN] = np.nan
        return seconds

    @property
    def times_devices(self) -> bool:
        """Whether any step was timed on a device."""
        return any((part[:, 1] != UNKNOWN).any() for part in self._timed)

    def lengths(self, *, device: bool = False) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return how long each step took, and of it the wait for data; seconds, NaN if not recorded.

        Args:
            device: From when the device had come to the end of the step before until it came to this one's;
                NaN of steps that were not timed there. Else by the host's clock, of which a step that was
                timed on a device has the parts that it has there.
        """
        seconds, waited = self.fact("step_time_s").values, self.fact("data_wait_s").values
        if not self.times_devices:
            return (np.full_like(seconds, np.nan),) * 2 if device else (seconds, waited)
        found = np.concatenate(self._timed)
        known = found[:, 1] != UNKNOWN
        if device:
            ratio = np.exp2(found[:, 1].astype(np.float64) / RATIO_STEPS - RATIOS)
            seconds = np.where(known, ratio * seconds, np.nan).astype(np.float32)
        shares = found[:, 0].astype(np.float32) * np.float32(1 / WHOLE)
        return seconds, np.where(known, seconds * shares, np.nan if device else waited).astype(np.float32)

    def take(self) -> RecordedSteps:
        """Return the rows that are new since the last call, late values as rows of their own; forget them."""
        parts = [columns(joined(self._heads, HEADS), joined(self._rows, ROWS_OF))]
        parts += [columns(heads, rows) for heads, rows in self._late]
        self._heads, self._rows, self._late, self._shares, self._timed = [], [], [], [], []
        self._steps = self._digest = None
        return RecordedSteps(*map(np.concatenate, zip(*parts, strict=True)))

    def fact(self, name: str) -> Fact:
        """Return one fact of every step, without making the other columns if possible."""
        if self._late:
            steps = self.steps()
            values: NDArray[np.float32] = getattr(steps, name)
            return Fact(steps.step, values, recorded(name, values, steps.nonfinite_count))
        heads, rows = joined(self._heads, HEADS), joined(self._rows, ROWS_OF)
        values = CELLS[name](heads, rows)
        return Fact(step_of(heads, rows), values, recorded(name, values, rows["nonfinite"] & (HAS_LOSS - 1)))

    def digest(self) -> Digest:
        """Return the steps in brief, without making all columns."""
        if self._digest is None:
            rows, heads = joined(self._rows, ROWS_OF), joined(self._heads, HEADS)
            self._digest = Digest(0, None, None, None, None, None, 0, None, None)
            if len(rows):
                self._digest = digest_of(heads, rows, self._late)
        return self._digest


def as_bytes(array: Array) -> NDArray[np.uint8]:
    """Return the bytes of an array, to be written to."""
    return array.view(np.uint8)


def joined(parts: list[Array], kind: np.dtype[Any]) -> Array:
    """Return parts as one array, and keep it in their place."""
    if len(parts) != 1:
        parts[:] = [np.concatenate(parts) if parts else np.zeros(0, kind)]
    return parts[0]


def columns(heads: Array, rows: Array) -> RecordedSteps:
    """Return the columns of some records; what is said once per record is repeated for its rows."""
    wall = rows["wall"] + np.repeat(heads["wall"], heads["rows"])
    return RecordedSteps(
        step_of(heads, rows), wall, **{name: cells(heads, rows) for name, cells in CELLS.items()}
    )


def step_of(heads: Array, rows: Array) -> NDArray[np.int64]:
    """Return the step of each row."""
    steps: NDArray[np.int64] = rows["step"] + np.repeat(heads["step"], heads["rows"])
    return steps


def narrow(values: Array) -> NDArray[np.float32]:
    """Return numbers of files as they are kept; what is too large becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: NDArray[np.float32] = values.astype(np.float32)
    return found


CELLS: dict[str, Callable[[Array, Array], NDArray[np.float32]]] = {
    "step_time_s": lambda heads, rows: np.ascontiguousarray(rows["seconds"]),
    "data_wait_s": lambda heads, rows: np.ascontiguousarray(rows["waited"]),
    "loss": lambda heads, rows: np.where(rows["nonfinite"] & HAS_LOSS, rows["loss"], np.float32(np.nan)),
    "nonfinite_count": lambda heads, rows: (rows["nonfinite"] & (HAS_LOSS - 1)).astype(np.float32),
    "resident_bytes": lambda heads, rows: np.repeat(narrow(heads["resident"]), heads["rows"]),
    "device_bytes": lambda heads, rows: np.repeat(narrow(heads["device"]), heads["rows"]),
}
"""How each fact is found in records."""


def recorded(name: str, values: NDArray[np.float32], nonfinite: Array) -> NDArray[np.bool_]:
    """Return where a fact was recorded; a loss that is NaN was, where a value of its step was not finite."""
    there: NDArray[np.bool_] = ~np.isnan(values)
    return there | (nonfinite > 0) if name == "loss" else there


def with_late(steps: RecordedSteps, late: RecordedSteps) -> RecordedSteps:
    """Return steps with what came after they were written: it belongs to the newest row of its step."""
    order = np.argsort(steps.step, kind="stable")
    at = np.searchsorted(steps.step, late.step, "right", sorter=order) - 1
    rows = order[np.maximum(at, 0)] if len(order) else at
    known = (at >= 0) & (steps.step[rows] == late.step) if len(order) else np.zeros(len(late.step), bool)
    filled = {name: getattr(steps, name).copy() for name in ("step_time_s", "data_wait_s", "loss")}
    for name, column in filled.items():
        values = getattr(late, name)
        there = known & ~np.isnan(values)
        column[rows[there]] = values[there]
    nonfinite = steps.nonfinite_count.copy()
    np.add.at(nonfinite, rows[known], late.nonfinite_count[known])
    return steps._replace(nonfinite_count=nonfinite, **filled)


def digest_of(heads: Array, rows: Array, late: list[tuple[Array, Array]]) -> Digest:
    """Return rows in brief; of the last records where there is one answer."""
    seconds, waited = np.ascontiguousarray(rows["seconds"]), np.ascontiguousarray(rows["waited"])
    timed = ~np.isnan(seconds)
    if not timed.all():
        seconds, waited = seconds[timed], waited[timed]
    both = ~np.isnan(waited)
    total = float(seconds[both].sum(dtype=np.float64))
    words = np.concatenate([rows["nonfinite"], *(part["nonfinite"] for _, part in late)])
    losses = [part["loss"][part["nonfinite"] >= HAS_LOSS] for part in (rows, *(part for _, part in late))]
    newest = next((part[-1] for part in reversed(losses) if len(part)), None)
    last = heads[-1]
    return Digest(
        steps=len(rows),
        last_step=int(last["step"]) + int(rows["step"][-1]),
        last_wall=float(last["wall"]) + float(rows["wall"][-1]),
        median_step_s=median(seconds),
        wait_ratio=float(waited[both].sum(dtype=np.float64)) / total if total > 0 else None,
        loss=None if newest is None else float(newest),
        nonfinite=int((words & (HAS_LOSS - 1)).sum(dtype=np.int64)),
        resident_bytes=number(last["resident"]),
        device_bytes=number(last["device"]),
    )


def median(values: Array) -> float | None:
    """Return the upper median, None without values."""
    if not len(values):
        return None
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def number(value: float) -> float | None:
    """Return a number, None for NaN."""
    return float(value) if value == value else None
