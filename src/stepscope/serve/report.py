"""A report: the built page as one file that needs nothing else, with the answers of a server in it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote, urlencode

from starlette.requests import Request

from stepscope.errors import LogDirectoryError, ServeError, UnknownRunError, UsageError
from stepscope.events.kinds.text import TABLE_SUFFIX
from stepscope.serve.page import NOT_BUILT, Page
from stepscope.serve.rank_types import RankFact
from stepscope.serve.records.tables import MAX_TABLE_ROWS
from stepscope.serve.reply import Refusal
from stepscope.serve.types import API
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.serve.app import Application

BUCKETS = 450
"""Points of a line: as many as the largest chart of a usual screen can show."""
SMOOTHED = (0.0, 0.6)
"""Weights of the exponential average; the page opens with the second."""
HISTOGRAMS, PICTURES = 120, 12
"""Values of a tag, evenly over the steps; pictures, sounds and films are large."""
PIXELS = 2400
"""Width that a timeline is drawn for: a wide screen, or a usual one at twice the zoom."""
MARK = b"</head>"
PAGE = "report.html"
AGAIN_S = 0.05
"""Pause before a log that is still being read is asked again."""
BLOBS = frozenset({"image", "audio", "video"})
RANK_COLUMNS = 400
"""Columns of a map of ranks over steps; the page scales them to its width."""
OK = 200
RECORDED = {
    "distributions": {"histogram"},
    "media": {"image", "audio", "video", "pr_curve", "mesh"},
    "text": {"text", "table", "hparams", "stepscope"},
    "graph": {"graph", "keras_model"},
}
"""Kinds of records that a page shows."""
TREES = ("scope", "graph", "op", "code", "kernel")
OF_A_PROFILE = ("kernels", "overlap", "shapes", "memory")
PIECES = 3000
"""Stretches of a critical path."""


class Report:
    """Collects the answers that a report holds.

    Args:
        application: Answers as it does a browser, without a socket.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.title = ""
        self.answers: list[dict[str, Any]] = []
        self.charts: list[dict[str, Any]] = []

    async def _ask(
        self, path: str, query: dict[str, Any], body: bytes | None = None
    ) -> tuple[int, str, bytes]:
        scope: dict[str, Any] = {
            "type": "http", "method": "GET" if body is None else "POST", "path": f"/{API}{path}",
            "query_string": urlencode(query).encode(), "path_params": {"name": path}, "headers": [],
            "client": None,
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body or b"", "more_body": False}

        try:
            response = await self._application.api(Request(scope, receive))
        except Refusal as refusal:
            response = refusal.response()
        data = getattr(response, "body", None)
        if data is None:
            data = b"".join([chunk async for chunk in response.body_iterator])  # type: ignore[attr-defined]
        return response.status_code, str(response.media_type), bytes(data)

    def hold(self, path: str, answer: Any, /, **query: Any) -> Any:
        """Hold an answer in JSON, and return it."""
        self.answers.append({"path": path, "query": _texts(query), "json": answer})
        return answer

    async def json(self, path: str, /, **query: Any) -> Any:
        """Return an answer without holding it."""
        return json.loads((await self._ask(path, query))[2])

    async def get(self, path: str, /, **query: Any) -> Any:
        """Hold an answer in JSON and return it; None for a refusal, which names the missing recording."""
        status, _, data = await self._ask(path, query)
        answer = self.hold(path, json.loads(data), **query)
        if status == OK:
            return answer
        self.answers[-1]["status"] = status
        return None

    async def data(self, path: str, /, **query: Any) -> None:
        """Hold an answer in bytes."""
        status, kind, data = await self._ask(path, query)
        if status == OK:
            held = {"path": path, "query": _texts(query), "bytes": _base64(data), "type": kind}
            self.answers.append(held)

    async def series(self, lines: list[dict[str, str]]) -> None:
        """Hold the series of one chart, as recorded and smoothed."""
        for smoothing in SMOOTHED:
            request = {"id": "0", "lines": lines, "x": "step", "buckets": BUCKETS, "smoothing": smoothing}
            status, _, data = await self._ask("series", {}, json.dumps({"charts": [request]}).encode())
            if status == OK:
                self.charts.append({"request": request, "frame": _base64(data)})

    # --- what a report is about ---------------------------------------------------------------------

    async def run(self, name: str | None) -> list[str]:
        """Hold the answers that the pages show of one run; return the pages.

        Raises:
            UnknownRunError: There is none.
            UsageError: No run is named, and there is not just one.
        """
        changes = await self._read()
        if name is None:
            name = only(list(dict.fromkeys(run["base"] for run in changes["runs"])))
        self.title = changes["log"]["name"] if name == "." else name
        family = [run for run in changes["runs"] if name in (run["name"], run["base"])]
        if not family:
            raise UnknownRunError(f"no run {name!r}", hint="stepscope ls LOGDIR lists them")
        tags = {tag for run in family for tag in run["tags"]}
        charts = [
            chart for chart in changes["charts"] or () if any(line["tag"] in tags for line in chart["lines"])
        ]
        self._changes({**changes, "runs": family, "charts": charts})
        for chart in charts:
            await self.series(
                [
                    {"run": run["name"], "tag": line["tag"]}
                    for run in family
                    for line in chart["lines"]
                    if line["tag"] in run["tags"]
                ]
            )
        pages = ["overview", "scalars"]
        kinds = {kind for run in family for kind in await self._records(run["name"])}
        pages += [page for page, own in RECORDED.items() if own & kinds]
        for run in family:
            await self.get("findings", run=run["name"])
            await self.get("changelog", run=run["name"])
            await self.get("embeddings", run=run["name"])
        if "graph" in pages:
            await self.get("graph", run=name)
            await self.get("gradient_norms", run=name)
        captures = await self.get("captures", run=name)
        paths = [capture["path"] for capture in (captures or {}).get("captures", ()) if capture["path"]]
        listed = await self.json("profiles")
        own = [
            profile for profile in listed["profiles"] if profile["path"] in paths or profile["run"] == name
        ]
        self.hold("profiles", {**listed, "profiles": own[:1]})
        if own:
            pages.append("profile")
            await self._profile(own[0]["path"])
        if await self._ranks(name):
            pages.append("ranks")
        return pages

    async def profile(self, path: str) -> list[str]:
        """Hold the answers that the pages show of one profile that lies outside of runs; return the pages."""
        changes = await self._read()
        self._changes({**changes, "runs": [], "charts": []})
        listed = await self.json("profiles")
        own = [profile for profile in listed["profiles"] if profile["path"] == path]
        self.hold("profiles", {**listed, "profiles": own})
        self.hold("ranks", {"runs": []})
        await self._profile(path)
        return ["profile"]

    async def _read(self) -> Any:
        """Return everything that is in the log, once it has been read."""
        while True:
            changes = await self.json("changes")
            if changes["loading"] is None:
                return changes
            follower = self._application.backend.follower
            if follower is not None and follower.failure is not None:
                raise LogDirectoryError(follower.failure, hint="check permissions and credentials")
            await asyncio.sleep(AGAIN_S)

    def _changes(self, changes: dict[str, Any]) -> None:
        self.hold("changes", {**changes, "dirty": {}, "loading": None})
        self.hold("access", {"changes": False, "until": None, "can_share": False})

    async def _records(self, run: str) -> set[str]:
        """Hold the records other than scalars, and tables beside the run; return their kinds."""
        records = await self.get("records", run=run)
        kinds = set()
        tags = (records or {}).get("tags", ())
        tables = {record["tag"] for record in tags if record["kind"] == "table"}
        for tag in tags:
            kinds.add(tag["kind"])
            if {tag["tag"], tag["tag"] + TABLE_SUFFIX} & tables:
                continue  # all its steps are one answer, and its twin of text is not shown
            limit = PICTURES if tag["kind"] in BLOBS else HISTOGRAMS
            answer = await self.get("record", run=run, tag=tag["tag"], limit=limit)
            for series in (answer or {}).get("series", ()):
                for value in series["values"]:
                    for index in range(len(value.get("blobs") or ())):
                        place = {"writer": series["writer"], "attempt": series["attempt"], "at": value["at"]}
                        await self.data("blob", run=run, tag=tag["tag"], **place, index=index)
        for tag in (await self.get("tables", run=run) or {}).get("tables", ()):
            kinds.add("table")
            await self.get("table", run=run, tag=tag["tag"], limit=MAX_TABLE_ROWS)
        return kinds

    async def _ranks(self, run: str) -> bool:
        listed = await self.json("ranks")
        own = [one for one in listed["runs"] if one["run"] == run]
        self.hold("ranks", {"runs": own})
        if not own:
            return False
        await self.get("ranks", run=run)
        await self.get("ranks/frontier", run=run, columns=RANK_COLUMNS)
        for fact in get_args(RankFact):
            await self.data("ranks/steps", run=run, fact=fact, columns=RANK_COLUMNS)
        return True

    async def _profile(self, path: str) -> None:
        await self.get("profile", path=path)
        self.hold("profile/reading", {"state": "idle", "read_bytes": 0, "total_bytes": 0}, path=path)
        outline = await self.get("outline", path=path)
        for tree in TREES:
            await self.get("view", path=path, view=tree)
        for part in OF_A_PROFILE:
            await self.get(f"profile/{part}", path=path)
        longest = await self.get("profile/path", path=path, pieces=PIECES)
        for number in sorted({step["number"] for step in (longest or {}).get("steps", ())}):
            await self.get("profile/path", path=path, steps=number, pieces=PIECES)
        await self.get("profile/ranks", path=path)
        if outline is None:
            return
        window = {"start": outline["start_ns"], "end": outline["end_ns"]}
        for part in ("gaps", "waits"):
            await self.get(f"profile/{part}", path=path, **window)
        lanes = ",".join(map(str, range(len(outline["lanes"]))))
        await self.data("timeline", path=path, **window, pixels=PIXELS, lanes=lanes)
        if outline["tracks"]:
            tracks = ",".join(map(str, range(len(outline["tracks"]))))
            await self.data("tracks", path=path, **window, pixels=PIXELS, tracks=tracks)

    def document(self, pages: list[str], opens: str) -> bytes:
        """Return the page with the answers in it.

        Args:
            pages: Pages that have something to show.
            opens: The place that is opened, as in the address behind ``#/``.

        Raises:
            ServeError: The page has not been built.
        """
        page = Page().find(PAGE)
        if page is None:
            raise ServeError("the page has not been built", hint=NOT_BUILT)
        held = {"pages": pages, "opens": opens, "answers": self.answers, "charts": self.charts}
        packed = _base64(gzip.compress(json.dumps(held, separators=(",", ":")).encode(), mtime=0))
        before, mark, after = page.body.partition(MARK)
        return b'%s<script type="text/plain" id="report">%s</script>%s%s' % (
            before,
            packed.encode(),
            mark,
            after,
        )


def _texts(query: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in query.items()}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- writing one ----------------------------------------------------------------------------------------


async def of_run(application: Application, name: str | None) -> tuple[bytes, str]:
    """Return the report of a run, and a name for its file.

    Raises:
        ServeError: The page has not been built.
        UnknownRunError: There is no such run.
        UsageError: No run is named, and there is not just one.
    """
    report = Report(application)
    document = report.document(await report.run(name), "overview")
    return document, file_name(report.title)


def write_run(log_dir: str | os.PathLike[str], name: str | None = None) -> tuple[bytes, str]:
    """Return the report of a run of a log directory, and a name for its file.

    Args:
        log_dir: The log directory.
        name: The run; needed if there are several.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
        ServeError: The page has not been built.
        UnknownRunError: There is no such run.
        UsageError: No run is named, and there is not just one.
    """
    with _application(log_dir) as application:
        return asyncio.run(of_run(application, name))


def only(runs: Sequence[str]) -> str:
    """Return the run of a directory that holds one.

    Raises:
        UsageError: It holds none, or several.
    """
    if len(runs) != 1:
        known = ", ".join(runs[:5]) + (" …" if len(runs) > 5 else "")
        raise UsageError(f"which run? There are {len(runs)}", hint=f"name one of: {known}")
    return runs[0]


def write_profile(files: list[Path]) -> bytes:
    """Return the report of a profile.

    Args:
        files: A file or a directory of them; then related files that lie elsewhere.

    Raises:
        ServeError: The page has not been built.
        TraceError: They are no profile.
    """

    async def made(application: Application, name: str) -> bytes:
        report = Report(application)
        return report.document(await report.profile(name), f"profile?prof={quote(name)}")

    # In a directory of its own: what else lies beside it is neither read nor shown.
    with tempfile.TemporaryDirectory(prefix="stepscope-report-") as folder:
        for path in files:
            _link(path.resolve(), Path(folder) / path.resolve().name)
        with _application(folder) as application:
            return asyncio.run(made(application, files[0].resolve().name))


@contextlib.contextmanager
def _application(log_dir: str | os.PathLike[str]) -> Iterator[Application]:
    from stepscope.serve.app import Application
    from stepscope.serve.follow import LogFollower, check_log_dir, copy_of

    url = log_dir if isinstance(log_dir, str) and is_url(log_dir) else None
    path = copy_of(url) if url else Path(log_dir)
    check_log_dir(path)
    if not path.is_dir():  # a server would wait for it
        raise LogDirectoryError("no such log directory", hint="check the path", path=path)
    follower = LogFollower(path, url=url, cache=url is not None, report=lambda line: None)
    application = Application(follower, Page())
    follower.start()
    try:
        yield application
    finally:
        application.close()
        follower.stop()


def _link(path: Path, to: Path) -> None:
    """Link a file or all files of a directory at another place, or copy them if that is impossible."""
    if path.is_dir():
        to.mkdir()
        for inner in path.iterdir():
            _link(inner, to / inner.name)
        return
    try:
        os.link(path, to)
    except OSError:  # another file system, or one without links
        shutil.copy2(path, to)


def file_name(name: str) -> str:
    """Return a name for the report of a run that every file system and header takes."""
    return f"{re.sub(r'[^A-Za-z0-9._=-]+', '-', name).strip('-.') or 'run'}.html"
