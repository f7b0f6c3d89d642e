"""The file that each rank writes of its own: an event file under another name, with packed rows of steps.

A file per process, ``<run>/ranks/rank-00003-of-00008.attempt-1.restart-0.<host>.<pid>.<n>.steps``. The name
holds the facts for a listing and does not contain "tfevents", so that TensorBoard lists no run there. Each
event holds one value, a text tensor. The tag names the text:

- ``facts``: JSON about the rank; the last one counts.
- ``rows``: ``HEAD``, then for each step a ``ROW`` and as many shares as the head says. Step and wall time of
  the event are those of the first row. A share is a stage's part of the step time in 1/``WHOLE``; the facts
  name the stages.
- ``timed``: the same, of steps whose stages a device has timed; the last two shares are that of the wait for
  data, and the step on the device relative to the host's (:func:`ratio_code`). The shares are of the step on
  the device; of a row whose ratio is ``UNKNOWN`` they are of the host's, and the wait is its own.
- ``late``: rows of steps that have a row already; numbers other than NaN replace those of the row, and
  non-finite values are added.
- ``end``: JSON about how the rank ended; if there is none, it was killed or still runs.
- ``names``: JSON with ``names``, tags that get the next numbers, from 0 in each file.
- ``values``: a ``VALUE`` for each value that this rank keeps of its own. Step and wall time of the event are
  those of the first.

All little endian; times in seconds. NaN is "not recorded", but for a loss whose ``HAS_LOSS`` is set.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.events.messages import Event, Summary, Tensor, Value, encode_event

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDER = "ranks"
SUFFIX = ".steps"
HANG = "hang-"
"""Prefix of the name of a stalled rank's file."""
TAGS = ("rows", "timed", "late", "facts", "end", "names", "values")
ROWS, TIMED, LATE, FACTS, END, NAMES, VALUES = range(7)
"""The content of an event, by its place in ``TAGS``."""
HEAD = struct.Struct("<Hff")
"""Shares of each row; bytes in memory and on devices, NaN if unknown."""
ROW = struct.Struct("<hHffff")
"""Step counted from the first's, non-finite values and HAS_LOSS, wall time counted from the first's, step
time, data wait, loss."""
VALUE = struct.Struct("<Iifd")
"""Number of the tag, step and wall time counted from the event's, value."""
WHOLE, UNKNOWN = 65_534, 65_535
"""The share of a whole step, and that of a stage that was not recorded."""
RATIOS, RATIO_STEPS = 16, 2048
"""Powers of two, up and down, that the code of a ratio covers, and the codes to each."""
MORE = 2
"""Shares of a timed row beside the stages'."""
KEEPS = "Run(values='all') or run.scalar(…, rank='own') keeps the values of every rank"
HAS_LOSS = 1 << 15
"""More non-finite values in a step than fit below it are counted as one less than it."""
MAX_ROWS = 4096
"""Most rows that one event holds."""
MAX_RANKS = 1 << 18
"""Ranks of a job at most. Names of files are not to be trusted: to count up to this takes milliseconds."""
LARGEST, LEAST = 3.4028234663852886e38, 2.0**-149
"""The largest float32 and the least above 0. A loss beyond is written as one of them, not infinite or 0."""
NAN = math.nan
_NUMBER = "[0-9]{1,10}"
_NAME = re.compile(
    rf"(?P<kind>rank|ps)-(?P<rank>{_NUMBER})-of-(?P<size>{_NUMBER})\.attempt-(?P<attempt>{_NUMBER})"
    rf"\.restart-(?P<restarts>{_NUMBER})\.(?P<host>.+)\.(?P<pid>{_NUMBER})\.(?P<number>{_NUMBER})\.steps",
    re.DOTALL,
)


class Name(NamedTuple):
    """The facts in the name of a rank's file.

    Attributes:
        kind: "rank", or "ps" for a parameter server.
        rank: From 0, among its kind.
        size: Number of ranks.
        attempt: From 1.
        restarts: How often the launcher had started the job again.
        host: The host it ran on.
        pid: Its process number.
        number: Tells the files of one process apart.
    """

    kind: str
    rank: int
    size: int
    attempt: int
    restarts: int
    host: str
    pid: int
    number: int

    @property
    def label(self) -> str:
        """The name of the process: "rank 3", "ps 0"."""
        return f"{self.kind} {self.rank}"

    def __str__(self) -> str:
        host = re.sub(r"[^\w.-]|tfevents", "_", self.host) or "host"
        place = f"{self.kind}-{self.rank:05d}-of-{self.size:05d}"
        attempt = f"attempt-{self.attempt}.restart-{self.restarts}"
        return f"{place}.{attempt}.{host}.{self.pid}.{self.number}{SUFFIX}"


def parse_name(text: str) -> Name | None:
    """Return the facts in a file name, None if it is not that of a rank's file or names too many ranks."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    kind, rank, size, attempt, restarts, host, pid, number = match.groups()
    if int(rank) >= MAX_RANKS or int(size) > MAX_RANKS:
        return None
    return Name(kind, int(rank), int(size), int(attempt), int(restarts), host, int(pid), int(number))


def hung_at(folder: str) -> list[float]:
    """Return when each rank last wrote that its step does not end, in seconds since the epoch."""
    try:
        with os.scandir(folder) as entries:
            reports = [entry for entry in entries if entry.name.startswith(HANG)]
        return [entry.stat().st_mtime for entry in reports if entry.name.endswith(".json")]
    except OSError:  # no rank has written anything, or a step has ended meanwhile: asked again soon
        return []


@dataclass(slots=True)
class TelemetryRow:
    """The facts of a step so far; seconds, NaN if not recorded."""

    wall: float
    seconds: float = NAN
    waited: float = NAN
    loss: float = NAN
    has_loss: bool = False
    nonfinite: int = 0
    ended: bool = False
    spent: tuple[float, ...] = ()
    """Seconds by number of the stage, the rest first; empty if none was marked."""
    completed: tuple[float, ...] = ()
    """The same on a device, before them the wait for data; empty if none timed them."""
    held: float = math.inf
    """Steady time until which the row waits for its device."""


def stretches(rows: list[tuple[int, TelemetryRow]]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of rows that fit into one event: not too many, and their steps near each other."""
    begin = 0
    for at, (step, _) in enumerate(rows):
        if at - begin == MAX_ROWS or not -(1 << 15) <= step - rows[begin][0] < 1 << 15:
            yield begin, at
            begin = at
    if rows:
        yield begin, len(rows)


def encoded(
    kind: int, rows: list[tuple[int, TelemetryRow]], memory: tuple[float, float], stages: int = 0
) -> bytes:
    """Return the event of some rows, encoded.

    Args:
        kind: ``ROWS``, ``TIMED`` or ``LATE``.
        rows: Steps and their facts.
        memory: Bytes of the process, and on its devices.
        stages: Number of stages of each row, the rest not counted.
    """
    step0, wall0 = rows[0][0], rows[0][1].wall
    shares = stages + MORE * (kind == TIMED)
    shares_of = timed_shares if kind == TIMED else host_shares
    layout = struct.Struct(f"<{shares}H")
    parts = [HEAD.pack(shares, *memory)]
    for step, row in rows:
        count = min(row.nonfinite, HAS_LOSS - 1) | HAS_LOSS * row.has_loss
        loss = _within_float32(row.loss)
        parts.append(ROW.pack(step - step0, count, row.wall - wall0, row.seconds, row.waited, loss))
        if shares:
            parts.append(layout.pack(*shares_of(row, stages)))
    return as_event(kind, b"".join(parts), step0, wall0)


def encoded_facts(kind: int, **facts: Any) -> bytes:
    """Return the event of facts, encoded; ``FACTS``, ``END`` or ``NAMES``."""
    return as_event(kind, json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace"))


def encoded_names(names: Sequence[str]) -> bytes:
    """Return the event that gives tags the next numbers, encoded."""
    return encoded_facts(NAMES, names=list(names))


def encoded_values(
    parts: Sequence[tuple[int, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]],
) -> Iterator[tuple[bytes, int]]:
    """Yield values as encoded events, each with the number of its values.

    Args:
        parts: Number of a tag, and its steps, values and wall times in seconds.
    """
    for number, steps, values, walls in parts:
        rows = list(zip(steps.tolist(), values.tolist(), walls.tolist(), strict=True))
        begin = 0
        while begin < len(rows):
            step0, _, wall0 = rows[begin]
            end = begin
            content = bytearray()
            while end < len(rows) and end - begin < MAX_ROWS:
                step, value, wall = rows[end]
                if not -(1 << 31) <= step - step0 < 1 << 31:
                    break
                content += VALUE.pack(number, step - step0, wall - wall0, value)
                end += 1
            yield as_event(VALUES, bytes(content), step0, wall0), end - begin
            begin = end


def as_event(kind: int, content: bytes, step: int = 0, wall: float = 0.0) -> bytes:
    """Return the event that holds some content, encoded."""
    value = Value(TAGS[kind], tensor=Tensor.of_texts(content))
    return encode_event(Event(wall, step, summary=Summary([value])))


def host_shares(row: TelemetryRow, stages: int) -> list[int]:
    """Return the part of a step that each stage took."""
    if not row.spent or not row.seconds > 0:
        return [UNKNOWN] * stages
    known = [_share(seconds, row.seconds) for seconds in row.spent[1 : stages + 1]]
    return known + [UNKNOWN] * (stages - len(known))


def timed_shares(row: TelemetryRow, stages: int) -> list[int]:
    """Return the part of a step that each stage took on its device, that of data, and its length there."""
    whole = sum(row.completed)
    if not whole > 0 or not row.seconds > 0:
        return [*host_shares(row, stages), UNKNOWN, UNKNOWN]
    data, _, *parts = row.completed
    parts += [0.0] * (stages - len(parts))
    return [*(_share(seconds, whole) for seconds in (*parts[:stages], data)), ratio_code(whole / row.seconds)]


def ratio_code(ratio: float) -> int:
    """Return a ratio above 0 as its logarithm, within 0.02 %."""
    return min(max(round(RATIO_STEPS * (math.log2(ratio) + RATIOS)), 0), WHOLE)


def _share(seconds: float, whole: float) -> int:
    return min(round(WHOLE * max(seconds, 0.0) / whole), WHOLE)


def _within_float32(loss: float) -> float:
    if LARGEST < abs(loss) < math.inf:
        return math.copysign(LARGEST, loss)
    return math.copysign(LEAST, loss) if 0 < abs(loss) < LEAST else loss
