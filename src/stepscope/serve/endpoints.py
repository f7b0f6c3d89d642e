"""The addresses that need no store: changes, access, and the server itself."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from stepscope.serve import perfetto
from stepscope.serve.access import Access, Grant
from stepscope.serve.guard import ACCESS, GRANT, MAX_BODY_BYTES
from stepscope.serve.login import MAX_SECS, view_token
from stepscope.serve.reply import (
    Refusal,
    body_response,
    may_compress,
    response_of,
    wants_compression,
)
from stepscope.serve.routes import Backend, get, post
from stepscope.serve.threads import Looks, SharedAnswers
from stepscope.serve.types import (
    AccessFacts,
    Changes,
    Health,
    PerfettoPage,
    SeriesHeader,
    SeriesRequest,
    ShareLink,
    ShareRequest,
)
from stepscope.version import __version__

BODY_TIMEOUT_S = 10.0
"""Seconds after which a request body is no longer waited for."""


class SharedWork:
    """Answers that many clients wait for at the same time, computed once for all of them."""

    def __init__(self, backend: Backend) -> None:
        self.looks = Looks(backend.follower.poll, backend.threads)
        self.drawn = SharedAnswers(backend.threads)

    @classmethod
    def of_backend(cls, backend: Backend) -> SharedWork:
        """Return the shared work of one server."""
        return cls(backend)


@get("changes", Changes)
async def changes(
    backend: Backend,
    request: Request,
    work: SharedWork,
    cursor: Annotated[str | None, Meta(description="cursor of the last answer; default: everything")] = None,
) -> Response:
    """Answer what is new."""
    await work.looks.fresh()
    feed, now = backend.follower.feed, backend.follower.wall()
    body = feed.kept(cursor, now=now)

    def answer() -> Response:
        made = body if body is not None else feed.since(cursor, now=now)
        return body_response(request, made, media_type="application/json")

    # What lies ready is sent from here: a thread for each client would only queue behind the others'.
    ready = body is not None and not wants_compression(request, len(body))
    return answer() if ready else await backend.threads.run(answer)


@post("series", body=SeriesRequest, frame=SeriesHeader, reads=True)
async def series(backend: Backend, request: Request, work: SharedWork, body: bytes) -> Response:
    """Answer the points of many charts, bucketed."""

    def answer() -> bytes:
        from stepscope.serve import series

        return series.answer(body, backend.log, backend.part(series.DrawnCharts))

    # Whatever changes gets a version before a client knows of it and asks again.
    version, pack = backend.follower.feed.version, may_compress(request)
    made = await work.drawn.answer(body, answer, state=version, pack=pack)
    return response_of(made, media_type="application/octet-stream")


@get("health")
async def health(backend: Backend) -> Health:
    """Answer whether the server answers, and how much it holds."""
    follower = backend.follower
    entries = list(follower.feed.runs.values())
    return Health(
        __version__,
        follower.clock() - follower.started,
        len(entries),
        sum(entry.summary.points for entry in entries),
        follower.feed.loading,
    )


@get("openapi.json")
def openapi() -> dict[str, Any]:
    """Answer this interface as an OpenAPI document."""
    from stepscope.serve.openapi import document

    return document()


@get("access")
async def access(request: Request) -> AccessFacts:
    """Answer the rights of the client."""
    grant: Grant = request.scope[GRANT]
    rules: Access = request.scope[ACCESS]
    return AccessFacts(grant.changes, grant.until, can_share=grant.changes and rules.token is not None)


@post("share")
async def share(backend: Backend, request: Request, body: ShareRequest) -> ShareLink:
    """Answer a token with which others can look at these runs for a while."""
    rules: Access = request.scope[ACCESS]
    if not 0 < body.seconds <= MAX_SECS:
        raise Refusal(400, f"{body.seconds} seconds: expected 1 to {MAX_SECS}", "a link ends within a year")
    if rules.token is None:
        hint = "send the address itself, or start the server without --no-token"
        raise Refusal(409, "this server asks for no token, so every link to it opens it", hint)
    until = int(backend.follower.wall()) + body.seconds
    return ShareLink(view_token(rules.token, rules.directory, until), float(until))


@get("perfetto")
def perfetto_page() -> PerfettoPage:
    """Answer whether Perfetto's own page can be opened."""
    return perfetto.about()


async def body_of(request: Request) -> bytes:
    """Read a body of bounded size in bounded time."""
    try:
        return await asyncio.wait_for(bounded_body(request), BODY_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise Refusal(408, f"body did not arrive within {BODY_TIMEOUT_S:g} s", "send it at once") from None
    except ClientDisconnect:
        raise Refusal(400, "client went away") from None


async def bounded_body(request: Request) -> bytes:
    """Read a body, whatever length its header states."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise Refusal(413, f"body of more than {MAX_BODY_BYTES} bytes", "ask for fewer lines at once")
        parts.append(part)
    return b"".join(parts)
