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

from stepscope.serve import perfetto
from stepscope.serve.access import Access
from stepscope.serve.follow import Follower, load_store
from stepscope.serve.guard import MAX_BODY_BYTES, Guard
from stepscope.serve.page import Page, asset_response
from stepscope.serve.perfetto import PERFETTO
from stepscope.serve.reply import Refusal, body_response, json_response
from stepscope.serve.types import API, Failure, Health
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.events.kinds.image import Blob
    from stepscope.serve.desk import Desk
    from stepscope.serve.findings import FindingAnswers
    from stepscope.serve.profiles.routes import ProfileAnswers
    from stepscope.serve.ranks import RankAnswers
    from stepscope.serve.records.routes import RecordAnswers
    from stepscope.serve.series import Views

GETS: dict[str, tuple[str, ...]] = {
    "changes": ("changes",),
    "points": ("points",),
    "expression": ("expression",),
    "health": ("health",),
    "profiles": (
        *("profiles", "profile", "outline", "timeline", "tracks", "event", "search", "range", "view"),
        *("profile/diff", "profile/history", "profile/kernels", "profile/memory"),
    ),
    "findings": ("findings",),
    "ranks": ("ranks",),
    "rank_steps": ("ranks/steps",),
    "records": (
        "records",
        "record",
        "blob",
        "graph",
        "gradient_norms",
        "curve",
        "embeddings",
        "embedding",
        "neighbours",
        "sprite",
    ),
    "captures": ("captures",),
    "desk_get": ("views", "trash"),
    "report": ("report",),
    "perfetto": ("perfetto",),
    "chrome_trace": ("chrome",),
    "profile_events": ("profile/events",),
}
"""Which endpoints each method of ``Application`` answers."""
POSTS: dict[str, tuple[str, ...]] = {
    "series": ("series",),
    "capture": ("capture",),
    "desk_post": ("run", "run/delete", "trash/restore", "trash/empty", "views/save", "views/forget"),
}
ENDPOINTS = {
    name: (kind, method)
    for kind, methods in (("GET", GETS), ("POST", POSTS))
    for method, names in methods.items()
    for name in names
}
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
        self._perfetto: Page | None = None
        self._profiles: ProfileAnswers | None = None
        self._ranks: RankAnswers | None = None
        self._findings: FindingAnswers | None = None
        self._records: RecordAnswers | None = None
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-serve")

    def asgi(self, *, access: Access, cookie: str, prefix: str = "") -> Guard:
        """Return the application behind its guard."""
        routes = [
            *(
                Route(f"/{API}{name}", getattr(self, method), methods=[kind])
                for name, (kind, method) in ENDPOINTS.items()
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

        return await self.with_store(answer)

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

        return await self.with_store(begin)

    async def expression(self, request: Request) -> Response:
        """``GET expression?text=``: the tags of an expression, or what is wrong with it."""

        def answer() -> Response:
            from stepscope.serve import lines

            return json_response(lines.expression_answer(request.query_params.get("text", "")))

        return await self.with_store(answer)

    async def records(self, request: Request) -> Response:
        """``GET records``, ``record``, ``blob``, ``graph``, ``curve`` …: what is no scalar."""
        name = request.url.path.rpartition("/")[2]

        def answer() -> Response:
            if self._records is None:
                from stepscope.serve.records.routes import RecordAnswers

                self._records = RecordAnswers()
            found = self._records.answer(name, request.query_params, self.follower.log)
            if not isinstance(found, tuple):
                return blob_response(found)
            return body_response(request, found[0], media_type=found[1])

        return await self.with_store(answer)

    async def findings(self, request: Request) -> Response:
        """``GET findings?run=``: what the health rules say of a run."""

        def answer() -> Response:
            if self._findings is None:
                from stepscope.serve.findings import FindingAnswers

                self._findings = FindingAnswers()
            body = self._findings.answer(request.query_params.get("run", ""), self.follower.log)
            return body_response(request, body, media_type="application/json")

        return await self.with_store(answer)

    async def ranks(self, request: Request) -> Response:
        """``GET ranks?run=``: the ranks of a run, or the runs that have ranks."""

        def answer() -> Response:
            body = self.rank_answers().listing(request.query_params, self.follower.log)
            return body_response(request, body, media_type="application/json")

        return await self.with_store(answer)

    async def rank_steps(self, request: Request) -> Response:
        """``GET ranks/steps?run=&fact=&columns=``: one fact rank by step, as one binary frame."""

        def answer() -> Response:
            frame = self.rank_answers().steps(request.query_params, self.follower.log)
            return body_response(request, frame, media_type="application/octet-stream")

        return await self.with_store(answer)

    def rank_answers(self) -> RankAnswers:
        """Return what answers for ranks; made late, for it imports numpy."""
        if self._ranks is None:
            from stepscope.serve.ranks import RankAnswers

            self._ranks = RankAnswers()
        return self._ranks

    async def profiles(self, request: Request) -> Response:
        """``GET profiles``, ``profile``, ``timeline`` …: what profiles hold."""
        name = request.url.path.rpartition("/")[2]

        def answer() -> Response:
            runs = list(self.follower.feed.runs)
            body, media_type = self.profile_answers().answer(name, request.query_params, runs)
            return body_response(request, body, media_type=media_type)

        return await self.with_store(answer)

    def profile_answers(self) -> ProfileAnswers:
        """Return what answers for profiles; made late, for it imports numpy."""
        if self._profiles is None:
            from stepscope.serve.profiles.routes import ProfileAnswers

            self._profiles = ProfileAnswers(self.follower.log_dir, cache=self.follower.cache)
        return self._profiles

    async def captures(self, request: Request) -> Response:
        """``GET captures?run=``: the profiles that a run took of itself."""

        def answer() -> Response:
            from stepscope.serve import captures

            body = captures.answer(request.query_params.multi_items(), self.follower.log)
            return body_response(request, body, media_type="application/json")

        return await self.with_store(answer)

    async def capture(self, request: Request) -> Response:
        """``POST capture``: ask a run for a profile."""
        body = await body_of(request)

        def answer() -> Response:
            from stepscope.serve import captures

            return body_response(
                request, captures.ask(body, self.follower.log), media_type="application/json"
            )

        return await self.with_store(answer)

    async def desk_get(self, request: Request) -> Response:
        """``GET views`` and ``trash``: what people saved, and what they threw away."""
        name = endpoint_of(request)

        def answer() -> Response:
            return body_response(request, self.desk().get(name), media_type="application/json")

        return await self.with_store(answer)

    async def desk_post(self, request: Request) -> Response:
        """``POST run``, ``views/save`` …: what people say of runs, the trash, and views."""
        name, body = endpoint_of(request), await body_of(request)

        def answer() -> Response:
            told = self.desk().post(name, body)
            self.follower.poll()
            return body_response(request, told, media_type="application/json")

        return await self.with_store(answer)

    def desk(self) -> Desk:
        """Return what answers for names, notes, views and the trash."""
        from stepscope.serve.desk import Desk

        return Desk(self.follower.log_dir, lambda: self.follower.log)

    async def report(self, request: Request) -> Response:
        """``GET report?run=``: a run as one HTML file."""

        def answer() -> Response:
            from stepscope.serve import report_file

            made = report_file.answer(request.query_params.get("run", ""), self.follower.log)
            headers = {"Content-Disposition": f'attachment; filename="{made.file_name}"'}
            return Response(made.text, media_type="text/html", headers=headers)

        return await self.with_store(answer)

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
        kind, _ = ENDPOINTS.get(request.path_params["name"], (None, None))
        if kind is not None:
            raise Refusal(405, f"{request.method} is not served here", f"use {kind}", headers={"Allow": kind})
        raise Refusal(404, f"no such endpoint: {request.url.path}", f"see docs/http-api.md; try {API}health")

    async def perfetto(self, request: Request) -> Response:
        """``GET perfetto``: whether Perfetto's own page can be opened."""
        return json_response(await self.in_thread(perfetto.about))

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

        return await self.with_store(answer)

    async def chrome_trace(self, request: Request) -> Response:
        """``GET chrome?path=``: a profile as Chrome JSON, gzipped, as Perfetto reads it."""

        def begin() -> Response:
            profile = self.profile_answers().open.get(request.query_params.get("path", ""))
            return StreamingResponse(
                self.stream(perfetto.chrome_trace(profile.trace)),
                media_type="application/gzip",
                headers={"Content-Disposition": 'attachment; filename="trace.json.gz"'},
            )

        return await self.with_store(begin)

    async def profile_events(self, request: Request) -> Response:
        """``GET profile/events?path=&start=&end=&lanes=``: every event of a window, as CSV."""

        def begin() -> Response:
            return StreamingResponse(
                self.stream(self.profile_answers().events(request.query_params)),
                media_type="text/csv",
                headers={"Content-Disposition": 'attachment; filename="events.csv"'},
            )

        return await self.with_store(begin)

    async def file(self, request: Request) -> Response:
        """Any other path: a file of the page."""
        return await self.in_thread(self.page.answer, request)

    async def with_store(self, work: Callable[[], Result]) -> Result:
        """Run blocking work that needs the store, once that is imported."""

        def done() -> Result:
            load_store()
            return work()

        return await self.in_thread(done)

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


def blob_response(blob: Blob) -> Response:
    """Answer with recorded bytes; opened by themselves they are a download, no page."""
    headers = {"Content-Disposition": "attachment"}
    return Response(blob.data, media_type=blob.mime, headers=headers)


def endpoint_of(request: Request) -> str:
    """Return which endpoint was asked for."""
    return request.url.path.rpartition(API)[2]


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
