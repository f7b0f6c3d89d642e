"""The web application: its routes, and its answer to unknown addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute

from stepscope.serve import perfetto
from stepscope.serve.access import Access
from stepscope.serve.encode import encoded
from stepscope.serve.endpoints import body_of
from stepscope.serve.follow import LogFollower
from stepscope.serve.guard import Guard
from stepscope.serve.page import Page, asset_response
from stepscope.serve.perfetto import PERFETTO
from stepscope.serve.reply import DESCRIBED, File, Refusal, body_response, json_response
from stepscope.serve.routes import ROUTES, Backend, Route, route_of
from stepscope.serve.threads import ThreadPool
from stepscope.serve.types import API, Failure

if TYPE_CHECKING:
    from stepscope.metrics import OtlpPusher

METRICS = "/metrics"


class Application:
    """Answers the page's requests from a follower.

    Args:
        follower: The follower that reads the log.
        page: The built page.
    """

    def __init__(self, follower: LogFollower, page: Page) -> None:
        self.page, self.threads = page, ThreadPool()
        self.backend = Backend(
            follower.log_dir,
            lambda: follower.log,
            cache=follower.cache,
            follower=follower,
            threads=self.threads,
        )
        self._perfetto: Page | None = None
        self._pusher: OtlpPusher | None = None

    def asgi(self, *, access: Access, cookie: str, prefix: str = "") -> Guard:
        """Return the application behind its guard."""
        routes = [
            StarletteRoute(f"/{API}{{name:path}}", self.api, methods=["GET", "POST"]),
            StarletteRoute(METRICS, self.metrics, methods=["GET"]),
            StarletteRoute(f"/{PERFETTO}/{{name:path}}", self.perfetto_file, methods=["GET"]),
            StarletteRoute("/{name:path}", self.file, methods=["GET"]),
        ]
        app = Starlette(
            routes=routes, exception_handlers={Refusal: refuse, HTTPException: refuse_http, Exception: defect}
        )
        app.state.application = self
        # Around Starlette and not one of its middlewares, which would leave its answers to defects outside.
        return Guard(app, access=access, cookie=cookie, prefix=prefix)

    async def api(self, request: Request) -> Response:
        """Any address of the interface."""
        return await self.answer(request, request.path_params["name"])

    async def metrics(self, request: Request) -> Response:
        """The metrics, under the path at which Prometheus looks for them."""
        return await self.answer(request, "metrics")

    async def answer(self, request: Request, name: str) -> Response:
        """Return the answer of an address of the interface."""
        route = ROUTES.get(name) or await self.threads.with_store(lambda: route_of(name))
        if route is None:
            raise Refusal(
                404,
                f"no such endpoint: {request.scope['path']}",
                f"{DESCRIBED}; try {API}health",
            )
        if route.method != ("POST" if request.method == "POST" else "GET"):
            raise Refusal(
                405,
                f"{request.method} is not served here",
                f"use {route.method}",
                headers={"Allow": route.method},
            )
        body = await body_of(request) if route.method == "POST" else b""
        query = request.query_params
        if iscoroutinefunction(route.handler):
            return self.response(request, route, await route.call(query, self.backend, body, request))

        def answer() -> Response:
            result = route.call(query, self.backend, body, request)
            if not route.reads:
                self.backend.follower.poll()
            return self.response(request, route, result)

        return await self.threads.with_store(answer)

    def response(self, request: Request, route: Route, result: object) -> Response:
        """Return a handler's result as a response."""
        if isinstance(result, Response):
            return result
        if not isinstance(result, File):
            data = result if isinstance(result, bytes) else encoded(result)
            return body_response(request, data, media_type=route.media[0])
        headers = {"Content-Disposition": f'attachment; filename="{result.name}"'}
        if not result.name:
            headers["Content-Disposition"] = "attachment"  # opened directly, it is not a page
        if isinstance(result.data, bytes):
            return Response(result.data, media_type=result.media_type, headers=headers)
        chunks = self.threads.stream(result.data)
        return StreamingResponse(chunks, media_type=result.media_type, headers=headers)

    async def perfetto_file(self, request: Request) -> Response:
        """A file of Perfetto's own page, if it is installed."""

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

    def push_metrics(self, endpoint: str | None, report: Callable[[str], None]) -> None:
        """Send the metrics to an OpenTelemetry collector from now on.

        Args:
            endpoint: Its address, as of ``OtlpPusher``.
            report: Takes one line for the user when it is away.
        """
        from stepscope.metrics import OtlpPusher, not_sent
        from stepscope.serve.metrics import samples

        read = partial(samples, self.backend)
        self._pusher = OtlpPusher(read, endpoint, failed=lambda cause: report(not_sent(endpoint, cause)))

    def close(self) -> None:
        """Release the threads without waiting for them, and end their reader."""
        if self._pusher is not None:
            self._pusher.end(0.0)
        self.threads.close()
        self.backend.close()


async def refuse(request: Request, refusal: Exception) -> Response:
    """Answer a request that cannot be answered."""
    assert isinstance(refusal, Refusal)
    return refusal.response()


async def refuse_http(request: Request, error: Exception) -> Response:
    """Answer a refusal of the router in the form of all errors."""
    assert isinstance(error, HTTPException)
    return json_response(
        Failure(str(error.detail), DESCRIBED),
        status=error.status_code,
        headers=error.headers,
    )


async def defect(request: Request, error: Exception) -> Response:
    """Answer for a defect of ours; the server's terminal shows the traceback."""
    return json_response(
        Failure(
            f"defect in the server: {type(error).__name__}", "its terminal shows where; please report it"
        ),
        status=500,
    )
