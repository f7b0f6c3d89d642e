from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
import pytest
from support.servers import sent_by

from stepscope.events import EventWriter
from stepscope.serve.threads import ThreadPool


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) <= 1, f"{name} was sent {len(found)} times"
        return found[0] if found else None

    @property
    def json(self):
        return msgspec.json.decode(self.body)


def ask_app(app, target="/", *, method="GET", headers=None, body=b"", client="127.0.0.1") -> Answer:
    """Send one request to an ASGI application as uvicorn would."""
    path, _, query = target.partition("?")
    headers = {"host": "localhost:6006", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode()) for name, value in headers.items() if value is not None
        ],
        "client": (client, 50000),
        "server": ("127.0.0.1", 6006),
        "state": {},
    }
    sent = sent_by(app, scope, body)
    start = sent[0]
    assert start["type"] == "http.response.start"
    return Answer(
        start["status"],
        [(name.decode(), value.decode()) for name, value in start["headers"]],
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


@pytest.fixture
def writer_in():
    """Makes event writers and closes them in the end."""
    made = []

    def writer_in(directory) -> EventWriter:
        made.append(EventWriter(directory))
        return made[-1]

    yield writer_in
    for writer in made:
        writer.close()


@pytest.fixture
def ask():
    return ask_app


@pytest.fixture
def threads():
    pool = ThreadPool()
    yield pool
    pool.close()
