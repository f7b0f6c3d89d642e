"""Requests of others, fed to the server's application in this process: a target of ``make fuzz``.

An input is a request as text: ``GET /api/v1/runs?x=y``, lines of headers, an empty line, the body. Damaged
ones go through the guard, the router and the answers as uvicorn would hand them over.
"""

import atexit
import functools
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

from support.servers import application, sent_by

HOST = "localhost:6006"
ROOM = 20_000
"""Bytes of a request line and headers: uvicorn refuses much more before anything is asked."""
NAMES = {
    "run": "a",
    "tag": "loss",
    "path": "a/broken.json",
    "a": "a/broken.json",
    "b": "a/broken.json",
    "steps": "0-3",
    "row": "0",
    "points": "100",
    "x": "step",
    "pattern": "(a|aa)*b",
}
"""Values that lead further than an arbitrary one."""

_open = ExitStack()
atexit.register(_open.close)


def seeds() -> list[bytes]:
    """Return a request for each address, with names of what is there."""
    from stepscope.serve.routes import all_routes
    from stepscope.serve.types import API

    found = [b"GET / \nhost: localhost:6006\n\n", b"GET /../../etc/passwd\nhost: evil.test\n\n"]
    for address, route in all_routes().items():
        query = {each.name: NAMES.get(each.name, "1") for each in route.parameters}
        body = json.dumps(NAMES | {"title": "é", "tags": ["x"]}) if route.method == "POST" else ""
        found.append(
            f"{route.method} /{API}{address}?{urlencode(query)}\nhost: {HOST}\naccept-encoding: gzip\n"
            f"content-type: application/json\n\n{body}".encode()
        )
    return found


def ask(data: bytes, _: Path) -> None:
    """Put a request; a defect of the server is raised."""
    status = status_of(_application(), data)
    assert status is not None, "no answer"
    assert status != 500, "a defect in the server"


def status_of(app: Any, data: bytes) -> int | None:
    """Return how an application answers a request."""
    for message in sent_by(app, _scope(data), data.partition(b"\n\n")[2]):
        if message["type"] == "http.response.start":
            return int(message["status"])
    return None


def _scope(data: bytes) -> dict[str, Any]:
    lines = data.partition(b"\n\n")[0][:ROOM].replace(b"\r", b"").split(b"\n")
    method, _, target = lines[0].partition(b" ")
    path, _, query = target.strip().partition(b"?")
    headers = [line.partition(b":") for line in lines[1:] if b":" in line]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1").upper(),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 6006),
        "state": {},
    }


@functools.cache
def _application() -> Any:
    """Return the application over a small log directory; both live until ``close``."""
    return _open.enter_context(_served())


def close() -> None:
    """End the application."""
    _open.close()
    _application.cache_clear()


@contextmanager
def _served() -> Iterator[Any]:
    import stepscope as ss

    with tempfile.TemporaryDirectory(prefix="stepscope-fuzz-") as folder:
        logs = Path(folder) / "runs"
        for name in ("a", "b"):
            with ss.Run(logs / name, config={"lr": 0.1}) as run:
                for step in range(5):
                    run.scalar("loss", 1.0 / (step + 1), step)
                run.text("words", "some *words*")
        (logs / "a" / "broken.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1e400')
        with application(logs) as app:
            yield app
