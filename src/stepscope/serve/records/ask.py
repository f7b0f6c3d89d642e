"""The common part of questions about records: run, tag and number, and the type of bytes that are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds.image import EncodedImage
from stepscope.serve.reply import Refusal, refusing
from stepscope.store.series import last_words

if TYPE_CHECKING:
    from stepscope.store import Log, StoredRun
    from stepscope.store import RecordSeries as StoredSeries

SHOWN_MIMES = frozenset(
    (
        *(f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "bmp", "avif", "svg+xml")),
        *(f"audio/{name}" for name in ("wav", "mpeg", "ogg", "flac")),
        *(f"video/{name}" for name in ("mp4", "webm")),
    )
)
"""Other bytes are answered as a download without a type, so that nothing in a log becomes a web page."""


def run_of(query: Mapping[str, str], log: Log | None) -> StoredRun:
    """Return the run of a question."""
    if "run" not in query:
        raise Refusal(400, "no run given", "add run=")
    if log is None:
        raise Refusal(404, f"no run {query['run']!r}: nothing has been read yet", "try again in a moment")
    with refusing():
        return log.run(query["run"])


def series_of(run: StoredRun, query: Mapping[str, str]) -> list[StoredSeries]:
    """Return the series of the tag of a question."""
    if "tag" not in query:
        raise Refusal(400, "no tag given", "add tag=; api/v1/records lists them")
    with refusing():
        return run.record(query["tag"])


@dataclass(frozen=True, slots=True)
class AttemptRecords:
    """The values of one tag by one writer in one attempt, of all event files that the attempt took.

    Attributes:
        files: What each file holds, oldest first.
    """

    files: tuple[StoredSeries, ...]

    @property
    def writer(self) -> str:
        """The writer."""
        return self.files[0].writer

    @property
    def attempt(self) -> int:
        """Number of the attempt, from 1."""
        return self.files[0].attempt

    @property
    def superseded_from(self) -> int | None:
        """A later attempt of the same writer recorded the steps from here on again; None: it did not."""
        return self.files[0].superseded_from

    @property
    def step(self) -> NDArray[np.int64]:
        """Step of each value."""
        return np.concatenate([each.step for each in self.files])

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Whether each value is the last word on its step."""
        return last_words(self.step, self.superseded_from)

    def __len__(self) -> int:
        return sum(map(len, self.files))

    def place(self, at: int) -> tuple[StoredSeries, int]:
        """Return the file that holds a value, and its place there.

        Raises:
            IndexError: There are not so many.
        """
        for each in self.files:
            if at < len(each):
                return each, at
            at -= len(each)
        raise IndexError(at)


def attempts_of(run: StoredRun, query: Mapping[str, str]) -> list[AttemptRecords]:
    """Return what each attempt of each writer recorded under the tag of a question, oldest first."""
    grouped: dict[tuple[str, int], list[StoredSeries]] = {}
    for each in series_of(run, query):
        grouped.setdefault((each.writer, each.attempt), []).append(each)
    return [AttemptRecords(tuple(files)) for files in grouped.values()]


def history(attempts: Sequence[AttemptRecords]) -> list[tuple[AttemptRecords, int]]:
    """Return the values of a tag over all attempts of the writer of the newest, each by attempt and place.

    Of a step that several attempts recorded, the last one counts, as in charts.
    """
    newest = max(attempts, key=lambda one: one.attempt)
    return [
        (one, at)
        for one in sorted(attempts, key=lambda one: one.attempt)
        if one.writer == newest.writer
        for at in np.flatnonzero(one.counts).tolist()
    ]


def thinned(count: int, limit: int) -> list[int]:
    """Return places in a series, evenly over all of it, the last one among them."""
    if count <= limit:
        return list(range(count))
    return sorted({count - 1 - (number * count) // limit for number in range(limit)})


def shown(blob: EncodedImage) -> EncodedImage:
    """Return bytes with their type, if it is one that is safe to show."""
    return blob if blob.mime in SHOWN_MIMES else EncodedImage("application/octet-stream", blob.data)
