"""How far a log directory is read, and what of it cannot be read.

The server answers with these before the store is imported.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the found files has been read so far."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read or was not kept.

    Attributes:
        kind: ``corrupt broken undecodable malformed beyond debugger torn hole cut truncated replaced
            unreadable unrecorded unmeasured ended failed overlap unlisted refused`` or ``cache``. ``failed``
            is code that was called at steps, a callback or a hook: no point is lost by itself, but its
            records are missing. ``overlap`` is several jobs in one directory, ``unmeasured`` measurements
            that the run has given up, and ``ended`` a series that ended while the training went on.
        count: How many of them, or how many bytes.
        file: The path, None if it concerns no single file.
        text: One sentence.
    """

    kind: str
    count: int
    file: str | None
    text: str
