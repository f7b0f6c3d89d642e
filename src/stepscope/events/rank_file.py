"""The file of one rank, followed: rows of numbers as columns, and the rank's own facts.

``events/telemetry.py`` describes the format.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import EventFileError
from stepscope.events.columns import PackedColumns
from stepscope.events.file import EventFile
from stepscope.events.telemetry import (
    END,
    FACTS,
    HAS_LOSS,
    HEAD,
    KEEPS,
    LATE,
    MORE,
    NAMES,
    RATIO_STEPS,
    RATIOS,
    ROW,
    TAGS,
    TIMED,
    UNKNOWN,
    VALUE,
    VALUES,
    WHOLE,
    Name,
)
from stepscope.files import bounded_object
from stepscope.kernels import payloads, warn_if_uncompiled
from stepscope.text import counted

warn_if_uncompiled(payloads)
PACKED_HEADS = np.dtype([("shares", "<u2"), ("resident", "<f4"), ("device", "<f4")])
HEADS = np.dtype([("rows", "<i8"), ("step", "<i8"), ("wall", "<f8"), ("resident", "<f4"), ("device", "<f4")])
"""An event of rows: their number, and their common facts."""
ROWS_OF = np.dtype(
    [
        ("step", "<i2"),
        ("nonfinite", "<u2"),
        ("wall", "<f4"),
        ("seconds", "<f4"),
        ("waited", "<f4"),
        ("loss", "<f4"),
    ]
)
VALUES_OF = np.dtype([("tag", "<u4"), ("step", "<i4"), ("wall", "<f4"), ("value", "<f8")])
assert VALUES_OF.itemsize == VALUE.size
assert PACKED_HEADS.itemsize == HEAD.size
assert ROWS_OF.itemsize == ROW.size
PORTION_BYTES = 64 << 20
"""Bytes of a file that are read at once."""
MOST_FACTS_BYTES = 64 << 10
"""Most bytes of a rank's own facts."""
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
        recorded: If there is a value at all; it may be NaN.
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
    """One rank's file, read on from the last read. Not safe for threads.

    Args:
        path: The file.
        name: The facts in its name.

    Attributes:
        facts: The rank's own facts.
        ended: How it ended, None while it runs or if it was killed.
    """

    def __init__(self, path: str, name: Name) -> None:
        self.path, self.name = path, name
        self.facts: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self._file: EventFile | None = None
        self._forget()

    def _forget(self) -> None:
        self._strange = 0
        self._heads: list[Array] = []
        self._rows: list[Array] = []
        self._shares: list[Array] = []
        self._timed: list[Array] = []
        self._late: list[tuple[Array, Array]] = []
        self._names: list[str] = []
        self._values: list[tuple[Array, Array]] = []
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
            self._values = []
            self._steps = None
        return self.outline

    def follow(self) -> bool:
        """Read new rows; return whether anything was."""
        try:
            file = self._file = self._file or EventFile(self.path, packed=TAGS)
        except EventFileError:  # it was deleted just now
            return False
        news, at = False, -1
        while at < file.position:
            at = file.position
            batch = file.read(PORTION_BYTES)
            if batch.replaced:
                self._forget()
            self._strange += len(batch.records)
            for packed in batch.packed:
                self._take(packed)
            news = news or bool(batch)
        if news:
            self._steps = self._digest = None
        return news

    def _take(self, packed: PackedColumns) -> None:
        for kind in (FACTS, END):  # the last one counts
            for at in np.flatnonzero(packed.tag == kind)[-1:].tolist():
                start = packed.start[at]
                self._take_facts(kind, packed.data[start : start + packed.length[at]])
        for at in np.flatnonzero(packed.tag == NAMES).tolist():
            start = packed.start[at]
            self._take_names(packed.data[start : start + packed.length[at]])
        self._take_values(packed)
        at = np.flatnonzero((packed.tag <= LATE) & (packed.length >= HEAD.size))
        near = np.abs(packed.step[at] // 2) <= MAX_STEP // 2
        first = packed.start[at]
        shares = packed.data[first] + (packed.data[first + 1].astype(np.int64) << 8)
        good = near & ((packed.tag[at] != TIMED) | (shares >= MORE))
        good &= (packed.length[at] - HEAD.size) % (ROW.size + 2 * shares) == 0
        rows = np.count_nonzero(packed.tag <= LATE)
        self._strange += int(rows - np.count_nonzero(good))
        at, shares = at[good], shares[good]
        # In the order in which they were written, in stretches of one kind and as many shares.
        kinds = packed.tag[at].astype(np.int64)
        begins = np.flatnonzero(np.diff(kinds << 16 | shares, prepend=-1))
        for begin, end in itertools.pairwise([*begins.tolist(), len(at)]):
            self._take_rows(int(kinds[begin]), int(shares[begin]), packed, at[begin:end])

    def _take_facts(self, kind: int, text: Array) -> None:
        facts = bounded_object(text.tobytes()) if len(text) <= MOST_FACTS_BYTES else None
        if facts is None:
            self._strange += 1
        elif kind == FACTS:
            self.facts = facts
        else:
            self.ended = facts

    def _take_names(self, text: Array) -> None:
        names = (bounded_object(text.tobytes()) or {}).get("names")
        if isinstance(names, list):
            self._names += map(str, names)
        else:
            self._strange += 1

    def _take_values(self, packed: PackedColumns) -> None:
        at = np.flatnonzero(packed.tag == VALUES)
        good = (packed.length[at] % VALUE.size == 0) & (np.abs(packed.step[at] // 2) <= MAX_STEP // 2)
        self._strange += int(len(at) - np.count_nonzero(good))
        at = at[good]
        if not len(at):
            return
        counts = packed.length[at] // VALUE.size
        rows, nothing = np.empty(counts.sum(), VALUES_OF), np.empty(0, np.uint8)
        empty = nothing.reshape(len(at), 0), nothing.reshape(len(rows), 0)
        where = packed.data, packed.start[at], packed.length[at]
        payloads.split(*where, empty[0], as_bytes(rows, len(rows)), empty[1])
        self._values.append((rows, np.repeat(packed.step[at], counts)))

    def _take_rows(self, kind: int, shares: int, packed: PackedColumns, at: Array) -> None:
        counts = (packed.length[at] - HEAD.size) // (ROW.size + 2 * shares)
        given, rows = np.empty(len(at), PACKED_HEADS), np.empty(counts.sum(), ROWS_OF)
        part = np.empty((len(rows), shares), "<u2")
        parts = (as_bytes(given, len(at)), as_bytes(rows, len(rows)), as_bytes(part, len(rows)))
        payloads.split(packed.data, packed.start[at], packed.length[at], *parts)
        heads = np.empty(len(at), HEADS)
        heads["rows"], heads["step"], heads["wall"] = counts, packed.step[at], packed.wall[at]
        heads["resident"], heads["device"] = given["resident"], given["device"]
        if kind == LATE:
            self._late.append((heads, rows))
            return
        timed = shares - MORE if kind == TIMED else shares
        self._heads.append(heads)
        self._rows.append(rows)
        self._shares.append(part[:, :timed])
        self._timed.append(
            part[:, timed:] if kind == TIMED else np.full((len(rows), MORE), UNKNOWN, np.uint16)
        )

    # --- what is asked ------------------------------------------------------------------------------

    @property
    def modified(self) -> float | None:
        """When the file was changed last, seconds since the epoch; None before it could be read."""
        return None if self._file is None else self._file.modified

    @property
    def skipped(self) -> int:
        """Records left out because a checksum is wrong or because they cannot be understood."""
        if self._file is None:
            return 0
        status = self._file.status
        return status.skipped_records + status.resyncs + status.undecodable + status.malformed + self._strange

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

    @property
    def rested_s(self) -> tuple[dict[str, float], float]:
        """Seconds of the rest by the name of the stage before it, "" for none, and of all stages."""
        names, rested, whole = (self.facts.get(name) for name in ("stages", "rested_s", "stages_s"))
        if not isinstance(names, list) or not isinstance(rested, list) or not isinstance(whole, int | float):
            return {}, 0.0
        seconds = [float(value) if isinstance(value, int | float) else 0.0 for value in rested]
        return dict(zip(["", *map(str, names)], seconds, strict=False)), float(whole)

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
        codes = np.concatenate(parts) if parts else np.zeros(0, np.uint16)
        seconds: NDArray[np.float32] = codes.astype(np.float32)
        seconds *= np.float32(1 / WHOLE)
        seconds *= self.lengths(device=True)[0] if device else self.fact("step_time_s").values
        seconds[codes == UNKNOWN] = np.nan
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
        rows = np.concatenate(self._timed)
        known = rows[:, 1] != UNKNOWN
        if device:
            ratio = np.exp2(rows[:, 1].astype(np.float64) / RATIO_STEPS - RATIOS)
            seconds = np.where(known, ratio * seconds, np.nan).astype(np.float32)
        shares = rows[:, 0].astype(np.float32) * np.float32(1 / WHOLE)
        return seconds, np.where(known, seconds * shares, np.nan if device else waited).astype(np.float32)

    @property
    def value_names(self) -> list[str]:
        """The tags of the values that the rank has kept of its own."""
        return list(dict.fromkeys(self._names))

    def value(self, tag: str) -> Fact:
        """Return the values of a tag that the rank has kept of its own, in recorded order."""
        numbers = [number for number, name in enumerate(self._names) if name == tag]
        steps, values = [np.zeros(0, np.int64)], [np.zeros(0)]
        for rows, first in self._values:
            chosen = np.isin(rows["tag"], numbers)
            steps.append(rows["step"][chosen] + first[chosen])
            values.append(rows["value"][chosen])
        numbers_ = np.concatenate(values)
        return Fact(np.concatenate(steps), narrow(numbers_), np.ones(len(numbers_), bool))

    def take(self) -> RecordedSteps:
        """Return the rows that are new since the last call, late values as rows of their own; forget them."""
        parts = [columns(joined(self._heads, HEADS), joined(self._rows, ROWS_OF))]
        parts += [columns(heads, rows) for heads, rows in self._late]
        self._heads, self._rows, self._late, self._shares, self._timed = [], [], [], [], []
        self._values = []
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


def unrecorded_text(ranks: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence on the values that ranks have logged and no file keeps; "" if there are none.

    Args:
        ranks: The facts of each rank.
    """
    counts = [count for facts in ranks if isinstance(count := facts.get("unrecorded"), int) and count > 0]
    if not counts:
        return ""
    some, lost = counted(len(counts), "rank"), sum(counts)
    are = "is" if lost == 1 else "are"
    text = f"{counted(lost, 'value')} that {some} logged {are} not recorded"
    return f"{text}: the chief writes what is logged; {KEEPS}"


def as_bytes(array: Array, rows: int) -> NDArray[np.uint8]:
    """Return the bytes of an array in rows, to be written to."""
    return array.view(np.uint8).reshape(rows, array.nbytes // max(rows, 1))


def joined(parts: list[Array], kind: np.dtype[Any]) -> Array:
    """Return parts as one array, and keep it in their place."""
    if len(parts) != 1:
        parts[:] = [np.concatenate(parts) if parts else np.zeros(0, kind)]
    return parts[0]


def columns(heads: Array, rows: Array) -> RecordedSteps:
    """Return the columns of some records; facts of a record are repeated for its rows."""
    wall = rows["wall"] + np.repeat(heads["wall"], heads["rows"])
    return RecordedSteps(
        step_of(heads, rows), wall, **{name: cells(heads, rows) for name, cells in CELLS.items()}
    )


def step_of(heads: Array, rows: Array) -> NDArray[np.int64]:
    """Return the step of each row."""
    steps: NDArray[np.int64] = rows["step"] + np.repeat(heads["step"], heads["rows"])
    return steps


def narrow(values: Array) -> NDArray[np.float32]:
    """Return numbers of files as they are kept; numbers that are too large become infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrowed: NDArray[np.float32] = values.astype(np.float32)
    return narrowed


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
    """Return which rows have a fact; a NaN loss counts if a value of its step was not finite."""
    there: NDArray[np.bool_] = ~np.isnan(values)
    return there | (nonfinite > 0) if name == "loss" else there


def with_late(steps: RecordedSteps, late: RecordedSteps) -> RecordedSteps:
    """Return steps with late additions: each belongs to the newest row of its step."""
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
    """Return rows in brief; of the last records if there is one answer."""
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
