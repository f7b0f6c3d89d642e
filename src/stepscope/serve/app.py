"""The web application: its routes, and its answer to unknown addresses."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stepscope.serve import perfetto
from stepscope.serve.access import Access
from stepscope.serve.endpoints import ALL, METHODS
from stepscope.serve.follow import LogFollower
from stepscope.serve.guard import Guard
from stepscope.serve.page import Page, asset_response
from stepscope.serve.perfetto import PERFETTO
from stepscope.serve.reply import Refusal, json_response
from stepscope.serve.threads import ThreadPool
from stepscope.serve.types import API, Failure


class Application:
    """Answers the page's requests from a follower.

    Args:
        follower: Where the log is read.
        page: The built page.
    """

    def __init__(self, follower: LogFollower, page: Page) -> None:
        self.page, self.threads = page, ThreadPool()
        self._endpoints = [kind(follower, self.threads) for kind in ALL]
        self._perfetto: Page | None = None

    def asgi(self, *, access: Access, cookie: str, prefix: str = "") -> Guard:
        """Return the application behind its guard."""
        routes = [
            *(
                Route(f"/{API}{address}", getattr(group, method), methods=[kind])
                for group in self._endpoints
                for kind, named in (("GET", group.gets), ("POST", group.posts))
                for address, method in named.items()
            ),
            Route(f"/{API}{{name:path}}", self.unknown, methods=["GET", "POST"]),
            Route(f"/{PERFETTO}/{{name:path}}", self.perfetto_file, methods=["GET"]),
            Route("/{name:path}", self.file, methods=["GET"]),
        ]
        app = Starlette(
            routes=routes, exception_handlers={Refusal: refuse, HTTPException: refuse_http, Exception: defect}
        )
        # Around Starlette and not one of its middlewares, which would leave its answers to defects outside.
        return Guard(app, access=access, cookie=cookie, prefix=prefix)

    async def unknown(self, request: Request) -> Response:
        """Refuse addresses that the interface does not have."""
        kind = METHODS.get(request.path_params["name"])
        if kind is not None:
            raise Refusal(405, f"{request.method} is not served here", f"use {kind}", headers={"Allow": kind})
        raise Refusal(
            404,
            f"no such endpoint: {request.scope['path']}",
            f"see docs/reference/http-api.md; try {API}health",
        )

    async def perfetto_file(self, request: Request) -> Response:
        """A file of Perfetto's own page, where it is installed."""

        def answer() -> Response:
            place = perfetto.folder()
            name = request.path_params["name"] or "index.html"
            if self._perfetto is None and place is not None:
                self._perfetto = Page(place)
            asset = self._perfetto.find(name) if self._perfetto and perfetto.served(name) else None
            if asset is None:
                raise Refusal(404, "no such file of Perfetto", f"{perfetto.INSTALL} installs its page")
            return asset_response(request, asset)

        return await self.threads.with_store(answer)

    async def file(self, request: Request) -> Response:
        """Any other path: a file of the page."""
        return await self.threads.run(self.page.answer, request)

    def close(self) -> None:
        """Release the threads without waiting for them, and end their reader."""
        self.threads.close()
        for group in self._endpoints:
            group.close()


async def refuse(request: Request, refusal: Exception) -> Response:
    """Answer a request that cannot be answered."""
    assert isinstance(refusal, Refusal)
    return refusal.response()


async def refuse_http(request: Request, error: Exception) -> Response:
    """Answer what the router refuses, in the form of all errors."""
    assert isinstance(error, HTTPException)
    return json_response(
        Failure(str(error.detail), "see docs/reference/http-api.md"),
        status=error.status_code,
        headers=error.headers,
    )


async def defect(request: Request, error: Exception) -> Response:
    """Answer for a defect of ours; the server's terminal shows where it happened."""
    return json_response(
        Failure(
            f"defect in the server: {type(error).__name__}", "its terminal shows where; please report it"
        ),
        status=500,
    )
