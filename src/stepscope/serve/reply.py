"""Answers: JSON, failures, and bodies that are compressed for clients elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from stepscope.errors import (
    EmptyTraceError,
    LogDirectoryError,
    MissingPackageError,
    StepscopeError,
    UnknownRunError,
    UnknownTagError,
    UsageError,
)
from stepscope.hosts import is_loopback
from stepscope.serve.encode import encoded
from stepscope.serve.types import Failure

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from stepscope.store import Log
    from stepscope.store.run import StoredRun

DESCRIBED = "see docs/reference/http-api.md"
"""The hint of a request that the interface does not have."""
COMPRESS_FROM_BYTES = 64 * 1024
"""Size below which a second packet costs less than compressing and decompressing."""


class Refusal(Exception):  # noqa: N818  an answer on its way, not a defect
    """A request that cannot be answered.

    Args:
        status: HTTP status.
        error: The error in the request, with the value.
        hint: The next action.
    """

    def __init__(
        self, status: int, error: str, hint: str = "", *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error)
        self.status, self.error, self.hint, self.headers = status, error, hint, headers

    def response(self) -> Response:
        """Return the refusal in the form of all errors."""
        return json_response(Failure(self.error, self.hint), status=self.status, headers=self.headers)


_STATUSES: dict[type[StepscopeError], int] = {
    UsageError: 400,
    UnknownRunError: 404,
    UnknownTagError: 404,
    LogDirectoryError: 409,
    MissingPackageError: 409,
    EmptyTraceError: 422,
}


@contextmanager
def refusing(statuses: Mapping[type[StepscopeError], int] = _STATUSES) -> Iterator[None]:
    """Refuse the request if an error within says that it cannot be answered.

    Args:
        statuses: The HTTP status of each kind of error.

    Raises:
        Refusal: With the error's text, its hint and its status.
    """
    try:
        yield
    except tuple(statuses) as error:
        status = next(status for kind, status in statuses.items() if isinstance(error, kind))
        raise Refusal(status, error.message, error.hint) from None


def run_of(log: Log | None, name: str) -> tuple[Log, StoredRun]:
    """Return the log, which is there, and its run with a name.

    Args:
        log: None as long as the log directory is not there.
        name: Of the run.

    Raises:
        Refusal: No such run.
    """
    if log is None:
        raise Refusal(404, f"no run {name!r}: nothing has been read yet", "try again in a moment")
    with refusing():
        return log, log.run(name)


def json_response(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode a message."""
    from starlette.responses import Response

    return Response(
        encoded(body),
        status_code=status,
        media_type="application/json",
        headers=dict(headers or {}),
    )


def wants_compression(request: Request, size_bytes: int) -> bool:
    """Return whether compressing pays: never on loopback: it only costs time there."""
    return size_bytes >= COMPRESS_FROM_BYTES and may_compress(request)


def may_compress(request: Request) -> bool:
    """Return whether a large answer is to be compressed for this client."""
    return not is_local(request) and accepts_gzip(request)


def accepts_gzip(request: Request) -> bool:
    """Return whether the client can read gzip."""
    offers = [part.replace(" ", "") for part in request.headers.get("accept-encoding", "").lower().split(",")]
    return any(offer == "gzip" or (offer.startswith("gzip;q=") and offer != "gzip;q=0") for offer in offers)


def is_local(request: Request) -> bool:
    """Return whether the client is on this machine."""
    return request.client is None or is_loopback(request.client.host)


class File(NamedTuple):
    """An answer that is a file: a download, not a page."""

    data: bytes | Iterator[bytes]
    media_type: str
    name: str = ""


class Body(NamedTuple):
    """An answer as it is sent."""

    data: bytes
    packed: bool
    """Whether it is gzipped."""


def packed_body(data: bytes, *, pack: bool) -> Body:
    """Return an answer, gzipped if that is wanted and it is large enough to pay."""
    if pack and len(data) >= COMPRESS_FROM_BYTES:
        return Body(gzipped(data, level=1), packed=True)
    return Body(data, packed=False)


def response_of(body: Body, *, media_type: str) -> Response:
    """Answer with bytes that may have been compressed."""
    from starlette.responses import Response

    headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if body.packed else {})}
    return Response(body.data, media_type=media_type, headers=headers)


def body_response(request: Request, body: bytes, *, media_type: str) -> Response:
    """Answer with bytes, gzipped if that pays."""
    return response_of(packed_body(body, pack=may_compress(request)), media_type=media_type)


def gzipped(body: bytes, *, level: int) -> bytes:
    """Compress; igzip at level 0 to 2 runs several times faster than zlib, beyond that zlib is smaller."""
    if level > 2:
        import gzip

        return gzip.compress(body, level, mtime=0)
    from isal import igzip

    return bytes(igzip.compress(body, level))
