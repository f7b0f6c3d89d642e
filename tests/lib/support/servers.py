"""Web servers of tests, in a thread of the test's own process."""

import asyncio
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def application(logs: Path, *, host: str = "") -> Iterator[Any]:
    """The server's application over a log directory, which it has read; ``host`` is one more name of it."""
    from stepscope.serve.access import Access
    from stepscope.serve.app import Application
    from stepscope.serve.follow import LogFollower
    from stepscope.serve.page import FOLDER, Page

    follower = LogFollower(logs, cache=False)
    while follower.turn() == 0:
        pass
    answers = Application(follower, Page(FOLDER))
    allowed = frozenset({host} if host else ())
    try:
        yield answers.asgi(access=Access(host="127.0.0.1", allowed=allowed, token=None), cookie="stepscope_0")
    finally:
        answers.close()
        follower.stop()


def sent_by(app: Any, scope: dict[str, Any], body: bytes) -> list[dict[str, Any]]:
    """Put one request to an ASGI application as uvicorn would, and return the messages that it sends."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not parts:  # the client waits for the whole answer
            await asyncio.Event().wait()
        return parts.pop()

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    return messages


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests and prints nothing; subclasses say how, as ``do_GET`` and so on."""

    def body(self) -> bytes:
        """What the client sent."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer; underscores in the names of headers are hyphens."""
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(handler: Callable[..., Any], port: int = 0, host: str = "127.0.0.1") -> Iterator[Any]:
    """A server that answers while the block lasts; ``server_port`` is its port."""
    with http.server.ThreadingHTTPServer((host, port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
