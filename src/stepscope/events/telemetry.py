"""The format of the file that each rank writes of its own: one row per step, in packed records.

A file per process, ``<run>/ranks/rank-00003-of-00008.attempt-1.restart-0.<host>.<pid>.<n>.steps``. The name
says what a listing needs and does not contain "tfevents", so that TensorBoard lists no run there. The framing
is that of event files. A payload begins with its kind and the schema:

- ``FACTS``: JSON about the rank; the last one counts.
- ``ROWS``: ``HEAD``, then a ``ROW`` per step.
- ``LATE``: the same, of steps that have a row already; what is not NaN there replaces what the row says, and
  non-finite values are added.
- ``STAGED``: as ``ROWS``; the head's third number says of how many stages, and each row ends with one
  ``SHARE`` per stage: the stage's part of the step time in 1/``WHOLE``. The facts name the stages.
- ``TIMED``: as ``STAGED``, of steps whose stages a device has timed; after the shares come two more: that of
  the wait for data, and the step on the device relative to the host's (:func:`ratio_code`). The shares are of
  the step on the device; of a row whose ratio is ``UNKNOWN`` they are of the host's, and the wait is its own.
- ``END``: JSON about how the rank ended; where there is none, it was killed or still runs.

All little endian; times in seconds. NaN is "not recorded", but for a loss whose ``HAS_LOSS`` is set.
"""

from __future__ import annotations

import math
import re
import struct
from typing import NamedTuple

FOLDER = "ranks"
SUFFIX = ".steps"
HANG = "hang-"
"""Prefix of the name of a stalled rank's file."""
SCHEMA = 1
FACTS, ROWS, LATE, END, STAGED, TIMED = range(6)
HEAD = struct.Struct("<BBHIqddd")
"""Kind, schema, shares of a row, rows, step and wall of the first, resident bytes, device bytes (or NaN)."""
ROW = struct.Struct("<ifffIf")
"""Step and wall counted from the first's, step time, data wait, non-finite values and HAS_LOSS, loss."""
SHARE = struct.Struct("<H")
WHOLE, UNKNOWN = 65_534, 65_535
"""The share of a whole step, and that of a stage that was not recorded."""
RATIOS, RATIO_STEPS = 16, 2048
"""Powers of two, up and down, that the code of a ratio covers, and the codes to each."""
MORE = 2
"""Numbers of a ``TIMED`` row beside the stages'."""
HAS_LOSS = 1 << 31
MAX_ROWS = 4096
"""Rows of a record."""
MAX_RANKS = 1 << 18
"""Ranks of a job at most. Names of files are not to be trusted: to count up to this takes milliseconds."""
_NUMBER = "[0-9]{1,10}"
_NAME = re.compile(
    rf"(?P<kind>rank|ps)-(?P<rank>{_NUMBER})-of-(?P<size>{_NUMBER})\.attempt-(?P<attempt>{_NUMBER})"
    rf"\.restart-(?P<restarts>{_NUMBER})\.(?P<host>.+)\.(?P<pid>{_NUMBER})\.(?P<number>{_NUMBER})\.steps",
    re.DOTALL,
)


def ratio_code(ratio: float) -> int:
    """Return a ratio above 0 as its logarithm, within 0.02 %."""
    return min(max(round(RATIO_STEPS * (math.log2(ratio) + RATIOS)), 0), WHOLE)


class Name(NamedTuple):
    """The facts in the name of a rank's file.

    Attributes:
        kind: "rank", or "ps" for a parameter server.
        rank: From 0, among its kind.
        size: Number of ranks.
        attempt: From 1.
        restarts: How often the launcher had started the job again.
        host: Where it ran.
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
    """Return what a file name says, None if it is not that of a rank's file or names too many ranks."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    kind, rank, size, attempt, restarts, host, pid, number = match.groups()
    if int(rank) >= MAX_RANKS or int(size) > MAX_RANKS:
        return None
    return Name(kind, int(rank), int(size), int(attempt), int(restarts), host, int(pid), int(number))
