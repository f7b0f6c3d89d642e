"""What tests of the page share: one browser, servers of their own, pages that must stay clean."""

import asyncio
import base64
import contextlib
import csv
import io
import os
import shutil
import socket
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support import browser
from support.ports import free_port
from support.programs import Program

import stepscope
from stepscope.serve.routes import MODULES

SERVING = (
    "stepscope.cli.serve", "stepscope.serve.loop", "stepscope.serve.summary", "stepscope.serve.series",
    "stepscope.serve.app", *(f"stepscope.serve.{name}" for name in MODULES),
)  # fmt: skip
"""What a server imports until it has answered for every page."""
PATIENCE_MS = 20_000
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
COLOURS = ["color-contrast", "link-in-text-block"]
SVG = "{http://www.w3.org/2000/svg}"
SHAPES = "svg title g path text tspan image clipPath line rect circle ellipse polyline polygon defs marker"
ALLOWED = {SVG + name for name in SHAPES.split()}
GONE = (
    "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED",
    "ERR_CONTENT_LENGTH_MISMATCH",
)  # fmt: skip


@dataclass
class PageServer:
    """``stepscope serve`` as a process, which can be stopped and started again at the same port."""

    log_dir: Path
    cache: Path
    port: int
    options: tuple[str, ...] = ()
    process: Program | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = ["-m", "stepscope", "serve", str(self.log_dir), "--port", str(self.port)]
        command += [] if "--token" in self.options else ["--no-token"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        self.process = Program(
            [*command, *self.options], modules=SERVING, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self.process.poll() is None, "the server ended at once"
        raise AssertionError(f"nothing listens on port {self.port}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
            self.process = None


@dataclass
class Watched:
    """A page of the browser, whose methods it has, and all that the page said and asked."""

    page: Any
    server: PageServer
    messages: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    requests: list[Any] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def open(self, hash: str = "", *, prefix: str = "/") -> Any:  # noqa: A002  that is its name in an address
        self.page.goto(self.server.url + prefix + hash)
        return self.page

    def count_clicks(self) -> None:
        """From now on, over the pages that are opened, the browser counts clicks."""
        self.page.add_init_script(
            "addEventListener('click', () => { window.clicks = (window.clicks ?? 0) + 1 }, true)"
        )

    def clicks(self) -> int:
        return int(self.page.evaluate("window.clicks ?? 0"))

    def ready(self) -> Any:
        self.page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
        return self.page

    def charts(self) -> dict[str, Any]:
        return {chart["chart"]: chart for chart in self.page.evaluate("window.__stepscope_test.charts()")}

    def wait(self, condition: str, argument: Any = None) -> Any:
        return self.page.wait_for_function(condition, arg=argument, timeout=PATIENCE_MS)

    def said(self) -> list[str]:
        """What was said beside that a stopped server did not answer."""
        return [line for line in self.messages if not any(reason in line for reason in GONE)]


class Chromium:
    """One browser for all tests of a session, started with the first and again where it has crashed."""

    def __init__(self) -> None:
        self._playwright: Any = None
        self._browser: Any = None
        self._loop: Any = None

    def enter(self, executable: str) -> Any:
        """Return the browser. From now on Playwright's loop counts as running in this thread."""
        from playwright.sync_api import sync_playwright

        asyncio._set_running_loop(self._loop)
        if self._playwright is None:
            self._playwright = sync_playwright().start()
            self._loop = asyncio._get_running_loop()
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(executable_path=executable, args=browser.FLAGS)
        return self._browser

    def leave(self) -> None:
        """Close what was left open, and let others have loops of their own in this thread."""
        for context in self._browser.contexts if self._browser.is_connected() else ():
            context.close()
        asyncio._set_running_loop(None)

    def end(self) -> None:
        """End the browser."""
        if self._playwright is not None:
            asyncio._set_running_loop(self._loop)
            self._browser.close()
            self._playwright.stop()
            asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def one_chromium() -> Iterator[Chromium]:
    found = Chromium()
    yield found
    found.end()


@pytest.fixture(scope="module")
def chromium(one_chromium: Chromium) -> Iterator[Any]:
    """The browser, for the tests of a module: its loop must not run on in tests that have their own."""
    if not (Path(stepscope.__file__).parent / "serve" / "page" / "index.html").exists():
        pytest.skip("the page is not built: python hatch_build.py page")
    yield one_chromium.enter(browser.executable())
    one_chromium.leave()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., PageServer]]:
    """Starts servers that end with the test."""
    servers: list[PageServer] = []

    def start(log_dir: Path, *options: str) -> PageServer:
        server = PageServer(log_dir, tmp_path / "cache", free_port(), options)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def serve_long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], PageServer]]:
    """Serves directories that no test changes: one server for each, which the tests of a module share."""
    servers: dict[Path, PageServer] = {}

    def start(log_dir: Path) -> PageServer:
        if log_dir not in servers:
            servers[log_dir] = PageServer(
                log_dir, tmp_path_factory.mktemp("cache"), free_port(), ("--no-cache",)
            )
            servers[log_dir].start()
        return servers[log_dir]

    yield start
    for server in servers.values():
        server.stop()


@pytest.fixture
def watch(chromium: Any) -> Iterator[Callable[..., Watched]]:
    """Opens pages, at an address if given, that must ask no other host and say nothing on the console."""
    opened: list[tuple[Any, Watched]] = []

    def open_page(
        server: PageServer, at: str | None = None, *, theme: str = "light", **options: Any
    ) -> Watched:
        context = chromium.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme=theme, reduced_motion="reduce",
            timezone_id="UTC", locale="en-GB", **options,
        )  # fmt: skip
        watched = Watched(context.new_page(), server)
        watched.page.on("console", lambda message: watched.messages.append(f"{message.type}: {message.text}"))
        watched.page.on("pageerror", lambda error: watched.messages.append(f"error: {error}"))

        def asked(request: Any) -> None:
            watched.requests.append(request)
            watched.hosts.add(urlsplit(request.url).netloc)

        context.on("request", asked)
        opened.append((context, watched))
        if at is not None:
            watched.open(at)
        return watched

    yield open_page
    for context, watched in opened:
        hosts = {host for host in watched.hosts if host}
        context.close()
        assert hosts <= {f"127.0.0.1:{watched.server.port}"}
        assert watched.said() == []


@pytest.fixture(scope="module")
def server(log: Path, serve_long: Callable[[Path], PageServer]) -> PageServer:
    """A server of the directory that the tests of a module share: their fixture ``log``."""
    return serve_long(log)


@pytest.fixture
def opened(
    server: PageServer, watch: Callable[..., Watched], request: pytest.FixtureRequest
) -> Callable[..., Watched]:
    """Opens addresses of that server; ``HOME`` of a module, if it has one, is where no other is given."""

    def at(hash_: str = getattr(request.module, "HOME", ""), **options: Any) -> Watched:
        return watch(server, hash_, **options)

    return at


@dataclass
class Axe:
    """Looks at pages in both themes, and keeps what of them breaks WCAG 2.2 at levels A and AA.

    Attributes:
        tool: The rules.
        found: By name of what was looked at: rules that are broken, each with its first elements and why.
        seen: Names of what was looked at.
    """

    tool: Any
    found: dict[str, list[Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def __call__(self, page: Any, name: str = "page", *, dark: bool = True) -> None:
        """Look at a page as it is, and at its colours in the dark theme: between the two, they alone differ.

        A page is not loaded again for it, which would take longer than to look at it.
        """
        self.seen.append(name)
        tags = {"runOnly": {"type": "tag", "values": WCAG}, "rules": {"target-size": {"enabled": True}}}
        self._look(page, name, tags)
        if dark:
            self._switch(page, "dark")
            self._look(page, f"{name}, dark", {"runOnly": {"type": "rule", "values": ["color-contrast"]}})
            self._switch(page, "light")

    def _look(self, page: Any, name: str, options: dict[str, Any]) -> None:
        options["resultTypes"] = ["violations"]  # what is well need not be described
        violations = self.tool.run(page, options=options).response["violations"]
        if violations:
            self.found[name] = [complaint(violation) for violation in violations]

    def _switch(self, page: Any, theme: str) -> None:
        """Have the page change its theme, also behind a dialog, and wait until that is drawn."""
        page.evaluate(
            f"""async () => {{
                document.querySelector("[aria-label='Switch to the {theme} theme']").click();
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            }}"""
        )
        assert page.evaluate("document.documentElement.dataset.theme") == theme


@pytest.fixture
def axe() -> Iterator[Axe]:
    """Looks at pages, in which it may find nothing by the end."""
    from axe_playwright_python.sync_playwright import Axe as Tool

    looks = Axe(Tool())
    yield looks
    assert looks.found == {}


def complaint(violation: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    nodes = violation["nodes"][:4]
    reasons = [" ".join(check["message"] for check in node["any"][:1]) for node in nodes]
    return violation["id"], list(zip([node["html"][:160] for node in nodes], reasons, strict=True))


class Files:
    """Saves charts by their menus, and reads what was saved."""

    def save(self, page: Any, scope: Any, name: str, choice: str) -> Any:
        """The file that an entry of a chart's menu saves."""
        scope.get_by_role("button", name=f"Save {name}").first.click()
        with page.expect_download() as download:
            page.get_by_role("button", name=choice).click()
        return download.value

    def table(self, file: Any) -> list[dict[str, str]]:
        """The rows of a saved table, by the names of their columns."""
        return list(csv.DictReader(io.StringIO(file.path().read_text(), newline="")))

    def drawing(self, text: str) -> list[ET.Element]:
        """The elements of a drawing that holds nothing but shapes and text of our own."""
        found = list(ET.fromstring(text).iter())
        assert {element.tag for element in found} <= ALLOWED
        for element in found:
            for key, value in element.attrib.items():
                assert not key.lower().startswith("on")
                assert "javascript" not in value.lower()
                if key.endswith("href"):
                    assert value.startswith("data:image/png;base64,")
        return found

    def texts(self, file: Any) -> list[str]:
        """The texts of a saved drawing, which is harmless."""
        found = self.drawing(file.path().read_text())
        return ["".join(element.itertext()) for element in found if element.tag == SVG + "text"]

    def colours(self, page: Any, file: Any) -> int:
        """How many colours a saved picture has: of one in which nothing is drawn, one."""
        data = base64.b64encode(file.path().read_bytes()).decode()
        return page.evaluate(
            """async data => {
                const image = new Image();
                image.src = `data:image/png;base64,${data}`;
                await image.decode();
                const canvas = document.createElement('canvas');
                [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
                const context = canvas.getContext('2d');
                context.drawImage(image, 0, 0);
                const { data: pixels } = context.getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(pixels.buffer)).size;
            }""",
            data,
        )


@pytest.fixture(scope="session")
def files() -> Files:
    """Saves charts by their menus, and reads what was saved."""
    return Files()


# --- logs -------------------------------------------------------------------------------------------


def write_run(
    directory: Path,
    values: dict[str, list[float]],
    *,
    config: dict[str, Any] | None = None,
    status: str = "finished",
    start: float = 1.7e9,
    first_step: int = 0,
    every: int = 1,
    **facts: Any,
) -> None:
    """Write one attempt of a run as ``ss.Run`` does, with times of its own."""
    from stepscope.events import EventWriter

    writer = EventWriter(directory, clock=lambda: start)
    if config is not None or facts:
        writer.event(about(start, {"status": status, "config": config or {}, "started": start, **facts}))
    longest = max(map(len, values.values()))
    for at in range(longest):
        step = first_step + at * every
        now = [(tag, column[at]) for tag, column in values.items() if at < len(column)]
        writer.scalars(now, step, start + 0.1 * step)
    writer.close()


def about(wall: float, facts: dict[str, Any]) -> Any:
    """The event in which a run says what it is."""
    import json

    from stepscope.events import Event, Metadata, Shape, Summary, Tensor, Value

    base = {
        "schema": 1, "version": "0.1.0", "status": "finished", "reason": None, "attempt": 1, "rank": 0,
        "world_size": 1, "role": "chief", "config": {}, "tags": [], "total_steps": None, "host": "host",
        "pid": 1, "python": "3.11", "command": "train.py", "started": wall, "ended": wall + 1,
        "frameworks": {},
    }  # fmt: skip
    tensor = Tensor(dtype=7, tensor_shape=Shape(), string_val=[json.dumps({**base, **facts}).encode()])
    metadata = Metadata.of("stepscope", b"", data_class=2)
    return Event(
        wall_time=wall,
        step=0,
        summary=Summary([Value(tag="stepscope/run", tensor=tensor, metadata=metadata)]),
    )


@pytest.fixture
def about_run() -> Callable[[float, dict[str, Any]], Any]:
    """Makes the event in which a run says what it is."""
    return about


@pytest.fixture(scope="session")
def written() -> Callable[..., None]:
    """Writes a run as ``ss.Run`` does."""
    return write_run


@pytest.fixture(scope="session")
def sweep_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs that no test changes."""
    return write_sweep(tmp_path_factory.mktemp("sweep") / "runs")


@pytest.fixture(scope="session")
def sweep(sweep_dir: Path) -> Iterator[PageServer]:
    """A server of them."""
    server = PageServer(sweep_dir, sweep_dir.with_name("cache"), free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def log_dir(sweep_dir: Path, tmp_path: Path) -> Path:
    """The runs of ``sweep`` for one test."""
    return shutil.copytree(sweep_dir, tmp_path / "runs")


def write_sweep(root: Path) -> Path:
    """Three runs that differ in their config: one with a restart, one that ends in NaN."""

    def loss(scale: float, count: int) -> list[float]:
        return [scale * (1 + 9 / (1 + step / 50)) for step in range(count)]

    def values(scale: float, count: int) -> dict[str, list[float]]:
        return {
            "train/loss": loss(scale, count),
            "eval/loss": loss(scale * 1.1, count),
            "train/learning_rate": [1e-4 * scale] * count,
            "speed/step_time_ms": [100.0 * scale] * count,
        }

    write_run(root / "a", values(1, 3000), config={"lr": 1e-3, "batch": 32}, total_steps=3000)
    write_run(root / "b", values(2, 1500), config={"lr": 3e-4, "batch": 32}, total_steps=3000)
    write_run(
        root / "b", values(2.5, 1500), config={"lr": 3e-4, "batch": 32}, start=1.7e9 + 5000, first_step=1000,
        attempt=2, total_steps=3000,
    )  # fmt: skip
    broken = {**values(3, 2000), "train/loss": [*loss(3, 1990), *[float("nan")] * 10]}
    write_run(
        root / "c",
        broken,
        config={"lr": 1e-4, "batch": 64},
        status="failed",
        reason="ValueError: loss is NaN",
    )
    return root
