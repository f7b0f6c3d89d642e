"""The common part of questions about records: run, tag and number, and the type of bytes that are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.events.kinds.image import EncodedImage
from stepscope.serve.reply import run_of
from stepscope.serve.routes import provide
from stepscope.store import RecordSeries as StoredSeries
from stepscope.store import StoredRun
from stepscope.store.series import last_words

SHOWN_MIMES = frozenset(
    (
        *(f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "bmp", "avif", "svg+xml")),
        *(f"audio/{name}" for name in ("wav", "mpeg", "ogg", "flac")),
        *(f"video/{name}" for name in ("mp4", "webm")),
    )
)
"""Other bytes are answered as a download without a type, so that nothing in a log becomes a web page."""


Tag = Annotated[str, Meta(description="a tag of the run; api/v1/records lists them")]
Step = Annotated[
    Annotated[int, Meta(ge=0, le=1 << 62)] | None,
    Meta(description="the newest that is not after it; default: the newest"),
]


provide(StoredRun, lambda backend, name: run_of(backend.log, name)[1], "name of a run")


@dataclass(frozen=True, slots=True)
class AttemptRecords:
    """The values of one tag by one writer in one attempt, of all event files that the attempt took.

    Attributes:
        files: The parts in each file, oldest first.
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
        return np.concatenate([file.step for file in self.files])

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
        for file in self.files:
            if at < len(file):
                return file, at
            at -= len(file)
        raise IndexError(at)


def attempts_of(run: StoredRun, tag: str) -> list[AttemptRecords]:
    """Return the records of a tag by attempt and writer, oldest first."""
    grouped: dict[tuple[str, int], list[StoredSeries]] = {}
    for file in run.record(tag):
        grouped.setdefault((file.writer, file.attempt), []).append(file)
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
