"""The web application: routes and what each of them hands to a thread. Nothing here blocks the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stepscope.serve.access import Access
from stepscope.serve.follow import Follower
from stepscope.serve.guard import MAX_BODY_BYTES, Guard
from stepscope.serve.page import Page
from stepscope.serve.reply import Refusal, body_response, json_response
from stepscope.serve.types import API, Failure, Health
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.serve.series import Views

ENDPOINTS = {"changes": "GET", "series": "POST", "points": "GET", "health": "GET"}
THREADS = 8
BODY_TIMEOUT_S = 10.0
"""A body that has not come by then is not waited for any longer."""
Result = TypeVar("Result")


class Application:
    """Answers the page's requests from a follower.

    Args:
        follower: Where the log is read.
        page: The built page.
    """

    def __init__(self, follower: Follower, page: Page) -> None:
        self.follower, self.page = follower, page
        self._views: Views | None = None
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-serve")

    def asgi(self, *, access: Access, cookie: str, prefix: str = "") -> Guard:
        """Return the application behind its guard."""
        endpoints = {
            "changes": self.changes,
            "series": self.series,
            "points": self.points,
            "health": self.health,
        }
        routes = [
            *(
                Route(f"/{API}{name}", endpoint, methods=[ENDPOINTS[name]])
                for name, endpoint in endpoints.items()
            ),
            Route(f"/{API}{{name:path}}", self.unknown, methods=["GET", "POST"]),
            Route("/{name:path}", self.file, methods=["GET"]),
        ]
        app = Starlette(
            routes=routes, exception_handlers={Refusal: refuse, HTTPException: refuse_http, Exception: defect}
        )
        # Around Starlette and not one of its middlewares, which would leave its answers to defects outside.
        return Guard(app, access=access, cookie=cookie, prefix=prefix)

    async def changes(self, request: Request) -> Response:
        """``GET changes?cursor=``: what is new."""

        def answer() -> Response:
            self.follower.poll()
            body = self.follower.feed.since(request.query_params.get("cursor"), now=self.follower.wall())
            return body_response(request, body, media_type="application/json")

        return await self.in_thread(answer)

    async def series(self, request: Request) -> Response:
        """``POST series``: the points of many charts, bucketed, as one binary frame."""
        body = await body_of(request)

        def answer() -> Response:
            from stepscope.serve import series

            frame = series.answer(body, self.follower.log, self.views())
            return body_response(request, frame, media_type="application/octet-stream")

        return await self.in_thread(answer)

    def views(self) -> Views:
        """Return the charts drawn so far; made late, for it imports numpy."""
        if self._views is None:
            from stepscope.serve.series import Views

            self._views = Views()
        return self._views

    async def points(self, request: Request) -> Response:
        """``GET points?run=&tag=&format=``: every point of one or more series."""

        def begin() -> Response:
            from stepscope.serve import points

            download = points.download(request.query_params.multi_items(), self.follower.log)
            return StreamingResponse(
                self.stream(download.chunks),
                media_type=download.media_type,
                headers={"Content-Disposition": f'attachment; filename="{download.file_name}"'},
            )

        return await self.in_thread(begin)

    async def health(self, request: Request) -> Response:
        """``GET health``: that the server answers, and what it holds."""
        feed = self.follower.feed
        entries = list(feed.runs.values())
        uptime_s = self.follower.clock() - self.follower.started
        return json_response(
            Health(
                __version__,
                uptime_s,
                len(entries),
                sum(entry.summary.points for entry in entries),
                feed.loading,
            )
        )

    async def unknown(self, request: Request) -> Response:
        """Refuse what the interface does not hold."""
        method = ENDPOINTS.get(request.path_params["name"])
        if method is not None:
            raise Refusal(
                405, f"{request.method} is not served here", f"use {method}", headers={"Allow": method}
            )
        raise Refusal(404, f"no such endpoint: {request.url.path}", f"see docs/http-api.md; try {API}health")

    async def file(self, request: Request) -> Response:
        """Any other path: a file of the page."""
        return await self.in_thread(self.page.answer, request)

    async def in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run blocking work off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(
            self.pool, functools.partial(work, *arguments)
        )

    async def stream(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Pass on chunks, each made in a thread when the one before has been taken."""
        while (chunk := await self.in_thread(next, chunks, None)) is not None:
            yield chunk

    def close(self) -> None:
        """Let the threads go without waiting for them."""
        self.pool.shutdown(wait=False, cancel_futures=True)


async def body_of(request: Request) -> bytes:
    """Read a body of bounded size in bounded time."""
    try:
        return await asyncio.wait_for(bounded_body(request), BODY_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise Refusal(408, f"body did not arrive within {BODY_TIMEOUT_S:g} s", "send it at once") from None
    except ClientDisconnect:
        raise Refusal(400, "client went away") from None


async def bounded_body(request: Request) -> bytes:
    """Read a body whatever length its header states."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise Refusal(413, f"body of more than {MAX_BODY_BYTES} bytes", "ask for fewer lines at once")
        parts.append(part)
    return b"".join(parts)


async def refuse(request: Request, refusal: Exception) -> Response:
    """Answer a request that cannot be answered."""
    assert isinstance(refusal, Refusal)
    return refusal.response()


async def refuse_http(request: Request, error: Exception) -> Response:
    """Answer what the router refuses, in our form."""
    assert isinstance(error, HTTPException)
    return json_response(
        Failure(str(error.detail), "see docs/http-api.md"), status=error.status_code, headers=error.headers
    )


async def defect(request: Request, error: Exception) -> Response:
    """Answer for a defect of ours; the server's terminal shows where it happened."""
    return json_response(
        Failure(
            f"defect in the server: {type(error).__name__}", "its terminal shows where; please report it"
        ),
        status=500,
    )
