"""The answer of each address of the interface. Nothing here blocks the event loop: threads do the work."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from stepscope.serve import perfetto
from stepscope.serve.access import Access, Grant
from stepscope.serve.access_types import AccessFacts, ShareLink, ShareRequest
from stepscope.serve.encode import encoded
from stepscope.serve.follow import LogFollower
from stepscope.serve.guard import ACCESS, GRANT, MAX_BODY_BYTES
from stepscope.serve.reply import (
    Refusal,
    body_response,
    json_response,
    may_compress,
    response_of,
    wants_compression,
)
from stepscope.serve.share import MAX_SECS, view_token
from stepscope.serve.shared import SharedAnswers
from stepscope.serve.threads import Looks, ThreadPool
from stepscope.serve.types import API, Health
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.events.kinds.image import EncodedImage
    from stepscope.serve.annotations import Annotations
    from stepscope.serve.findings import FindingAnswers
    from stepscope.serve.profiles.reader import ProfileReader
    from stepscope.serve.profiles.routes import ProfileAnswers
    from stepscope.serve.ranks import RankAnswers
    from stepscope.serve.records.routes import RecordAnswers
    from stepscope.serve.series import DrawnCharts

BODY_TIMEOUT_S = 10.0
"""Seconds after which a request body is no longer waited for."""


class Endpoints:
    """Addresses that belong together.

    Args:
        follower: Where the log is read.
        threads: Where blocking work is done.

    Attributes:
        gets: By address below ``api/v1/`` the name of the method that answers a GET.
        posts: Likewise of a POST.
    """

    gets: ClassVar[Mapping[str, str]] = {}
    posts: ClassVar[Mapping[str, str]] = {}

    def __init__(self, follower: LogFollower, threads: ThreadPool) -> None:
        self.follower, self.threads = follower, threads

    def close(self) -> None:
        """Release what must not outlive the server."""

    async def sent(
        self, request: Request, make: Callable[[], bytes], *, media_type: str = "application/json"
    ) -> Response:
        """Answer with what a thread makes."""
        return await self.threads.with_store(lambda: body_response(request, make(), media_type=media_type))


class LogEndpoints(Endpoints):
    """The runs of a log directory, their scalars, findings and report."""

    gets: ClassVar = {
        "changes": "changes",
        "points": "points",
        "expression": "expression",
        "findings": "findings",
        "captures": "captures",
        "report": "report",
        "health": "health",
        "openapi.json": "openapi",
    }
    posts: ClassVar = {"series": "series", "capture": "capture"}

    async def changes(self, request: Request) -> Response:
        """``GET changes?cursor=``: what is new."""
        await self.looks.fresh()
        cursor, now = request.query_params.get("cursor"), self.follower.wall()
        body = self.follower.feed.kept(cursor, now=now)

        def answer() -> Response:
            made = body if body is not None else self.follower.feed.since(cursor, now=now)
            return body_response(request, made, media_type="application/json")

        # What lies ready is sent from here: a thread for each client would only queue behind the others'.
        ready = body is not None and not wants_compression(request, len(body))
        return answer() if ready else await self.threads.run(answer)

    async def series(self, request: Request) -> Response:
        """``POST series``: the points of many charts, bucketed, as one binary frame."""
        body = await body_of(request)

        def answer() -> bytes:
            from stepscope.serve import series

            return series.answer(body, self.follower.log, self.views)

        # Whatever changes gets a version before a client knows of it and asks again.
        version, pack = self.follower.feed.version, may_compress(request)
        made = await self.drawn.answer(body, answer, state=version, pack=pack)
        return response_of(made, media_type="application/octet-stream")

    async def points(self, request: Request) -> Response:
        """``GET points?run=&tag=&format=``: every point of one or more series."""

        def begin() -> Response:
            from stepscope.serve import points

            download = points.download(request.query_params.multi_items(), self.follower.log)
            return StreamingResponse(
                self.threads.stream(download.chunks),
                media_type=download.media_type,
                headers={"Content-Disposition": f'attachment; filename="{download.file_name}"'},
            )

        return await self.threads.with_store(begin)

    async def expression(self, request: Request) -> Response:
        """``GET expression?text=``: the tags of an expression, or what is wrong with it."""

        def answer() -> Response:
            from stepscope.serve import lines

            return json_response(lines.expression_answer(request.query_params.get("text", "")))

        return await self.threads.with_store(answer)

    async def findings(self, request: Request) -> Response:
        """``GET findings?run=``: what the health rules say about a run."""
        run = request.query_params.get("run", "")
        return await self.sent(request, lambda: self.finding_answers.answer(run, self.follower.log))

    async def captures(self, request: Request) -> Response:
        """``GET captures?run=``: the profiles that a run captured."""

        def answer() -> bytes:
            from stepscope.serve import captures

            return captures.answer(request.query_params.multi_items(), self.follower.log)

        return await self.sent(request, answer)

    async def capture(self, request: Request) -> Response:
        """``POST capture``: ask a run for a profile."""
        body = await body_of(request)

        def answer() -> bytes:
            from stepscope.serve import captures

            return captures.ask(body, self.follower.log)

        return await self.sent(request, answer)

    async def report(self, request: Request) -> Response:
        """``GET report?run=``: a run as one HTML file."""

        def answer() -> Response:
            from stepscope.serve import report_file

            made = report_file.answer(request.query_params.get("run", ""), self.follower.log)
            headers = {"Content-Disposition": f'attachment; filename="{made.file_name}"'}
            return Response(made.text, media_type="text/html", headers=headers)

        return await self.threads.with_store(answer)

    async def health(self, request: Request) -> Response:
        """``GET health``: whether the server answers, and what it holds."""
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

    async def openapi(self, request: Request) -> Response:
        """``GET openapi.json``: this interface as an OpenAPI document."""

        def answer() -> bytes:
            from stepscope.serve.openapi import document

            return encoded(document(ALL))

        return await self.sent(request, answer)

    @functools.cached_property
    def looks(self) -> Looks:
        """The looks at the log directory that clients wait for."""
        return Looks(self.follower.poll, self.threads)

    @functools.cached_property
    def drawn(self) -> SharedAnswers:
        """The answers to questions for series that many clients share."""
        return SharedAnswers(self.threads)

    @functools.cached_property
    def views(self) -> DrawnCharts:
        """The charts drawn so far; created late, because it imports numpy."""
        from stepscope.serve.series import DrawnCharts

        return DrawnCharts()

    @functools.cached_property
    def finding_answers(self) -> FindingAnswers:
        """The answers for findings; created late, because they import numpy."""
        from stepscope.serve.findings import FindingAnswers

        return FindingAnswers()


class RankEndpoints(Endpoints):
    """The ranks of a run."""

    gets: ClassVar = {"ranks": "ranks", "ranks/steps": "rank_steps", "ranks/frontier": "frontier"}

    async def ranks(self, request: Request) -> Response:
        """``GET ranks?run=``: the ranks of a run, or the runs that have ranks."""
        return await self.sent(request, lambda: self.answers.listing(request.query_params, self.follower.log))

    async def rank_steps(self, request: Request) -> Response:
        """``GET ranks/steps?run=&fact=&columns=``: one fact rank by step, as one binary frame."""
        return await self.sent(
            request,
            lambda: self.answers.steps(request.query_params, self.follower.log),
            media_type="application/octet-stream",
        )

    async def frontier(self, request: Request) -> Response:
        """``GET ranks/frontier?run=&columns=``: which rank holds the others up, in which stage."""
        return await self.sent(
            request, lambda: self.answers.frontier(request.query_params, self.follower.log)
        )

    @functools.cached_property
    def answers(self) -> RankAnswers:
        """The answers for ranks; created late, because they import numpy."""
        from stepscope.serve.ranks import RankAnswers

        return RankAnswers()


class RecordEndpoints(Endpoints):
    """Records other than scalars."""

    gets: ClassVar = dict.fromkeys(
        (
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
        "records",
    )

    async def records(self, request: Request) -> Response:
        """``GET records``, ``record``, ``blob``, ``graph``, ``curve`` …: what is not a scalar."""
        name = request.scope["path"].rpartition("/")[2]

        def answer() -> Response:
            found = self.answers.answer(name, request.query_params, self.follower.log)
            if not isinstance(found, tuple):
                return blob_response(found)
            return body_response(request, found[0], media_type=found[1])

        return await self.threads.with_store(answer)

    @functools.cached_property
    def answers(self) -> RecordAnswers:
        """The answers for records; created late, because they import numpy."""
        from stepscope.serve.records.routes import RecordAnswers

        return RecordAnswers()


class ProfileEndpoints(Endpoints):
    """Profiles, and Perfetto that may show them."""

    gets: ClassVar = {
        **dict.fromkeys(
            (
                *("profiles", "profile", "outline", "timeline", "tracks", "event", "search", "range", "view"),
                *("profile/diff", "profile/history", "profile/kernels", "profile/memory"),
                *("profile/shapes", "profile/path", "profile/overlap", "profile/ranks"),
                *("profile/waits", "profile/gaps"),
            ),
            "profiles",
        ),
        "profile/events": "profile_events",
        "profile/reading": "profile_reading",
        "chrome": "chrome_trace",
        "perfetto": "perfetto",
    }
    _reader: ProfileReader | None = None

    async def profiles(self, request: Request) -> Response:
        """``GET profiles``, ``profile``, ``timeline`` …: what profiles hold."""
        name = request.scope["path"].rpartition("/")[2]

        def answer() -> Response:
            runs = list(self.follower.feed.runs)
            body, media_type = self.answers.answer(name, request.query_params, runs)
            return body_response(request, body, media_type=media_type)

        return await self.threads.with_store(answer)

    async def profile_events(self, request: Request) -> Response:
        """``GET profile/events?path=&start=&end=&lanes=``: every event of a window, as CSV."""

        def begin() -> Response:
            return StreamingResponse(
                self.threads.stream(self.answers.events(request.query_params)),
                media_type="text/csv",
                headers={"Content-Disposition": 'attachment; filename="events.csv"'},
            )

        return await self.threads.with_store(begin)

    async def profile_reading(self, request: Request) -> Response:
        """``GET profile/reading?path=``: how far its first reading is.

        Answered from here: all threads may wait for what is being read.
        """
        if "answers" not in vars(self):  # nothing was ever opened
            return json_response({"state": "idle", "read_bytes": 0, "total_bytes": 0})
        return json_response(self.answers.open.progress(request.query_params.get("path", "")))

    async def chrome_trace(self, request: Request) -> Response:
        """``GET chrome?path=``: a profile as Chrome JSON, gzipped, as Perfetto reads it."""

        def begin() -> Response:
            profile = self.answers.open.get(request.query_params.get("path", ""))
            return StreamingResponse(
                self.threads.stream(perfetto.chrome_trace(profile.trace)),
                media_type="application/gzip",
                headers={"Content-Disposition": 'attachment; filename="trace.json.gz"'},
            )

        return await self.threads.with_store(begin)

    async def perfetto(self, request: Request) -> Response:
        """``GET perfetto``: whether Perfetto's own page can be opened."""
        return json_response(await self.threads.run(perfetto.about))

    @functools.cached_property
    def answers(self) -> ProfileAnswers:
        """The answers for profiles; created late, because they import numpy."""
        from stepscope.serve.profiles.reader import ProfileReader
        from stepscope.serve.profiles.routes import ProfileAnswers

        self._reader = ProfileReader()
        follower = self.follower
        return ProfileAnswers(
            follower.log_dir, cache=follower.cache, reader=self._reader, log=lambda: follower.log
        )

    def close(self) -> None:
        """End the process that reads profiles."""
        if self._reader is not None:
            self._reader.close()


class AnnotationEndpoints(Endpoints):
    """Annotations of runs, saved views, and the trash."""

    gets: ClassVar = {"views": "annotations_get", "trash": "annotations_get"}
    posts: ClassVar = dict.fromkeys(
        (
            "run",
            "run/step",
            "run/delete",
            "trash/restore",
            "trash/empty",
            "views/save",
            "views/forget",
            "metric",
        ),
        "annotations_post",
    )

    async def annotations_get(self, request: Request) -> Response:
        """``GET views`` and ``trash``: saved views, and deleted runs."""
        name = endpoint_of(request)
        return await self.sent(request, lambda: self.annotations().get(name))

    async def annotations_post(self, request: Request) -> Response:
        """``POST run``, ``views/save`` …: annotations of runs, the trash, and views."""
        name, body = endpoint_of(request), await body_of(request)

        def answer() -> bytes:
            told = self.annotations().post(name, body)
            self.follower.poll()
            return told

        return await self.sent(request, answer)

    def annotations(self) -> Annotations:
        """Return what answers for names, notes, views and the trash."""
        from stepscope.serve.annotations import Annotations

        return Annotations(self.follower.log_dir, lambda: self.follower.log)


class AccessEndpoints(Endpoints):
    """The rights of a request, and links for others."""

    gets: ClassVar = {"access": "access"}
    posts: ClassVar = {"share": "share"}

    async def access(self, request: Request) -> Response:
        """``GET access``: the rights of the client."""
        grant: Grant = request.scope[GRANT]
        access: Access = request.scope[ACCESS]
        can_share = grant.changes and access.token is not None
        return json_response(AccessFacts(grant.changes, grant.until, can_share))

    async def share(self, request: Request) -> Response:
        """``POST share``: a token with which others can look at these runs for a while."""
        import msgspec

        access: Access = request.scope[ACCESS]
        try:
            asked = msgspec.json.decode(await body_of(request), type=ShareRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refusal(400, f"no request for a link: {error}", 'send {"seconds": 86400}') from None
        if not 0 < asked.seconds <= MAX_SECS:
            raise Refusal(
                400, f"{asked.seconds} seconds: expected 1 to {MAX_SECS}", "a link ends within a year"
            )
        if access.token is None:
            hint = "send the address itself, or start the server without --no-token"
            raise Refusal(409, "this server asks for no token, so every link to it opens it", hint)
        until = int(self.follower.wall()) + asked.seconds
        return json_response(ShareLink(view_token(access.token, access.directory, until), float(until)))


ALL = (
    LogEndpoints, RankEndpoints, RecordEndpoints, ProfileEndpoints, AnnotationEndpoints, AccessEndpoints
)  # fmt: skip
METHODS = {
    **{address: "GET" for kind in ALL for address in kind.gets},
    **{address: "POST" for kind in ALL for address in kind.posts},
}
"""How each address is asked."""


def blob_response(blob: EncodedImage) -> Response:
    """Answer with recorded bytes; opened directly, they are a download and not a page."""
    headers = {"Content-Disposition": "attachment"}
    return Response(blob.data, media_type=blob.mime, headers=headers)


def endpoint_of(request: Request) -> str:
    """Return which endpoint was asked for."""
    return str(request.scope["path"]).rpartition(API)[2]


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
