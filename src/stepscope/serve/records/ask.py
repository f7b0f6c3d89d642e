"""The common part of questions about records: run, tag and number, and the type of bytes that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepscope.errors import UnknownRunError, UnknownTagError
from stepscope.events.kinds.image import EncodedImage
from stepscope.serve.reply import Refusal

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
    try:
        return log.run(query["run"])
    except UnknownRunError as error:
        raise Refusal(404, error.message, error.hint) from None


def series_of(run: StoredRun, query: Mapping[str, str]) -> list[StoredSeries]:
    """Return the series of the tag of a question."""
    if "tag" not in query:
        raise Refusal(400, "no tag given", "add tag=; api/v1/records lists them")
    try:
        return run.record(query["tag"])
    except UnknownTagError as error:
        raise Refusal(404, error.message, error.hint) from None


def thinned(count: int, limit: int) -> list[int]:
    """Return places in a series, evenly over all of it, the last one among them."""
    if count <= limit:
        return list(range(count))
    return sorted({count - 1 - (number * count) // limit for number in range(limit)})


def shown(blob: EncodedImage) -> EncodedImage:
    """Return bytes with their type, if it is one that is safe to show."""
    return blob if blob.mime in SHOWN_MIMES else EncodedImage("application/octet-stream", blob.data)
