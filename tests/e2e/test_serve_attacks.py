"""What a hostile page, network or client can try, sent over real sockets."""

import contextlib
import gzip
import json
import os
import socket
import time

import httpx
import pytest
from support.records import write_series

from stepscope.serve import Server, loop

SECRET = "the-secret-of-this-machine"


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>page</title>")
    (folder / "assets" / "app-0123abcd.js").write_text("let points = 0;\n" * 10_000)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def runs(tmp_path):
    write_series(tmp_path / "runs" / "a", {"loss": [1.0]})
    (tmp_path / "runs" / "notes.txt").write_text(SECRET)
    return tmp_path / "runs"


@pytest.fixture
def server(runs, page):
    with Server(runs, port=0, cache=False, page=page, no_token=True) as server:
        yield server


def raw(server, request: bytes) -> bytes:
    """Send bytes as they are and return everything until the server closes."""
    parts = []
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        with contextlib.suppress(ConnectionResetError):  # it may close on what it has not read
            while part := connection.recv(65536):
                parts.append(part)
    return b"".join(parts)


def head(server, target="/", *lines, method="GET", host="localhost"):
    wanted = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines, "", ""]
    return "\r\n".join(wanted).encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_name_pointed_at_loopback_is_refused(server):
    """DNS rebinding: the attacker's own name, our address."""
    for host in ("evil.example.com", f"evil.example.com:{server.port}", "localhost.evil.example.com", ""):
        assert status(raw(server, head(server, "/api/v1/changes", host=host))) == 403
    assert status(raw(server, head(server, "/api/v1/changes"))) == 200


def test_an_absolute_target_does_not_replace_the_host(server):
    answer = raw(
        server, head(server, f"http://localhost:{server.port}/api/v1/changes", host="evil.example.com")
    )
    assert status(answer) in (400, 403, 404)
    assert b"cursor" not in answer


def test_two_hosts_or_none_are_refused(server):
    assert status(raw(server, head(server, "/", "Host: evil.example.com"))) in (400, 403)
    assert status(raw(server, b"GET / HTTP/1.0\r\n\r\n")) in (400, 403)


def test_a_page_of_another_origin_is_refused(server):
    for origin in ("http://evil.example.com", "null", "http://localhost:1", "http://127.0.0.1"):
        answer = raw(server, head(server, "/api/v1/changes", f"Origin: {origin}"))
        assert status(answer) == 403
        assert b"access-control-allow" not in answer.lower()


def test_a_preflight_gets_no_permission(server):
    lines = ["Origin: http://evil.example.com", "Access-Control-Request-Method: POST"]
    answer = raw(server, head(server, "/api/v1/series", *lines, method="OPTIONS"))
    assert status(answer) == 405
    assert b"access-control-allow" not in answer.lower()


def test_a_request_of_another_site_is_refused_even_without_origin(server):
    script = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"]
    neighbour = ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors"]
    framed = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]
    for lines in (script, neighbour, framed):
        assert status(raw(server, head(server, "/assets/app-0123abcd.js", *lines))) == 403
    link = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
    assert status(raw(server, head(server, "/", *link))) == 200
    assert status(raw(server, head(server, "/api/v1/points?run=a&tag=loss", *link))) == 403


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt",
        "/../../../../../../../../etc/passwd",
        "/assets/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%2f..%2f..%2f..%2f..%2f..%2fetc/passwd",
        "/%252e%252e%252fsecret.txt",
        "/..%5csecret.txt",
        "/..\\secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/file:///etc/passwd",
        "/assets/%00/../../secret.txt",
        "/link.txt",
        "/out/secret.txt",
        "/out/runs/notes.txt",
        "/notes.txt",
        "/runs/notes.txt",
        "/api/v1/points?run=..&tag=secret.txt",
        "/api/v1/points?run=../..&tag=etc/passwd",
        "/api/v1/../../../secret.txt",
    ],
)
def test_no_file_beside_the_page_is_served(server, target):
    answer = raw(server, head(server, target))
    assert status(answer) in (400, 404)
    assert SECRET.encode() not in answer
    assert b"root:" not in answer


def test_paths_of_this_machine_stay_here(runs, page, monkeypatch):
    """The page shows the path as it was typed; the rest of it is nobody's business."""
    monkeypatch.chdir(runs.parent)
    with (
        Server("runs", port=0, cache=False, page=page, no_token=True) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        answers = []
        while not answers or answers[0]["loading"]:
            answers = [client.get("api/v1/changes").json()]
        assert answers[0]["log"]["path_display"] == "runs"
        texts = [
            json.dumps(answers),
            client.get("api/v1/health").text,
            client.get("api/v1/points?run=x&tag=y").text,
        ]
        charts = {"charts": [{"id": "x", "lines": [{"run": "a", "tag": "loss"}]}]}
        texts.append(client.post("api/v1/series", json=charts).content.decode("latin-1"))
    assert not [text for text in texts if str(runs.parent) in text]


def test_a_form_of_another_site_cannot_post(server):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        body = b'{"charts": []}'
        lines = [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        assert status(raw(server, head(server, "/api/v1/series", *lines, method="POST") + body)) == 415


def test_a_body_without_end_is_cut_off(server):
    lines = ["Content-Type: application/json", "Transfer-Encoding: chunked"]
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head(server, "/api/v1/series", *lines, method="POST"))
        sent = 0
        try:
            while sent < 64 << 20:
                connection.sendall(chunk)
                sent += 65536
        except OSError:
            pass  # closed by the server, as it should
        assert sent < 32 << 20
    assert status(raw(server, head(server, "/api/v1/health"))) == 200


def test_a_header_without_end_is_cut_off(server):
    assert status(raw(server, head(server, "/", "X-Long: " + "x" * 200_000))) in (400, 431)


def test_a_client_that_never_finishes_its_head_is_cut_off(runs, page, monkeypatch):
    monkeypatch.setattr(loop, "HEADERS_TIMEOUT_S", 0.2)
    with Server(runs, port=0, cache=False, page=page, no_token=True) as server:
        for start in (b"", b"GET / HTTP/1.1\r\nHost: loc"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                connection.sendall(start)
                assert connection.recv(100) == b""
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert status(answer) == 200
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHo")  # a second one on the same connection
            assert connection.recv(65536) == b""


def test_a_client_that_never_finishes_its_body_is_answered(server, monkeypatch):
    from stepscope.serve import endpoints

    monkeypatch.setattr(endpoints, "BODY_TIMEOUT_S", 0.2)
    lines = ["Content-Type: application/json", "Content-Length: 100"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(head(server, "/api/v1/series", *lines, method="POST") + b"{")
        assert status(connection.recv(65536)) == 408


def test_noise_on_the_socket_does_no_harm(server):
    for noise in (os.urandom(4096), b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"\r\n" * 1000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(noise)
    assert status(raw(server, head(server, "/api/v1/health"))) == 200


def test_a_web_socket_is_not_opened(server):
    lines = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    assert status(raw(server, head(server, "/api/v1/changes", *lines))) != 101


class TestBeyondLoopback:
    """Bound to all addresses, reached by this machine's own."""

    @pytest.fixture
    def server(self, runs, page):
        with Server(runs, host="0.0.0.0", port=0, cache=False, page=page) as server:
            yield server

    def test_nothing_is_answered_without_the_token(self, server):
        base = f"http://127.0.0.1:{server.port}/"
        for path in (
            "",
            "index.html",
            "api/v1/changes",
            "api/v1/health",
            "assets/app-0123abcd.js",
            "nothing",
        ):
            answer = httpx.get(base + path)
            assert answer.status_code == 401
            assert "title" not in answer.text
            assert "token" in answer.text
            assert answer.headers["content-security-policy"]
        assert httpx.get(base + "?token=" + "x" * 32).status_code == 401
        assert httpx.get(base + "api/v1/health", headers={"Authorization": "Bearer wrong"}).status_code == 401

    def test_the_printed_address_opens_the_page(self, server):
        token = server.access.token
        assert server.url.endswith(f":{server.port}/?token={token}")
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}/", follow_redirects=True) as client:
            answer = client.get("/", params={"token": token})
            assert answer.status_code == 200
            assert "page" in answer.text
            assert token not in str(answer.url)
            [(name, value)] = client.cookies.items()
            assert name == f"stepscope_{server.port}"
            assert token not in value
            assert client.get(str(answer.url) + "api/v1/changes").status_code == 200
            assert client.get("api/v1/changes").status_code == 401
        first = answer.history[1]
        assert first.status_code == 303
        assert "httponly" in first.headers["set-cookie"].lower()
        assert "samesite=strict" in first.headers["set-cookie"].lower()

    def test_a_script_may_send_the_token_as_a_header(self, server):
        headers = {"Authorization": f"Bearer {server.access.token}"}
        assert httpx.get(f"http://127.0.0.1:{server.port}/api/v1/health", headers=headers).status_code == 200

    def test_rebinding_is_refused_before_the_token_is_looked_at(self, server):
        lines = [f"Authorization: Bearer {server.access.token}"]
        assert status(raw(server, head(server, "/api/v1/changes", *lines, host="evil.example.com"))) == 403


def test_everything_compressed_for_a_client_elsewhere(runs, page, monkeypatch):
    """As seen by one: this machine cannot be elsewhere, so its own address is taken for one."""
    monkeypatch.setattr("stepscope.serve.reply.is_local", lambda request: False)
    monkeypatch.setattr("stepscope.serve.page.is_local", lambda request: False)
    with Server(runs, port=0, cache=False, page=page, no_token=True) as server:
        lines = ["Accept-Encoding: gzip"]
        start, _, body = raw(server, head(server, "/assets/app-0123abcd.js", *lines)).partition(b"\r\n\r\n")
        assert b"content-encoding: gzip" in start.lower()
        assert b"immutable" in start
        assert gzip.decompress(body) == (page / "assets" / "app-0123abcd.js").read_bytes()
        assert b"content-encoding" not in raw(server, head(server, "/api/v1/health", *lines)).lower()


def test_head_is_get_without_a_body(server):
    answer = raw(server, head(server, "/", method="HEAD"))
    assert status(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


def test_a_slow_reader_does_not_hold_others_up(server):
    """It asks for much and never reads; others are answered meanwhile."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
        for _ in range(50):
            slow.sendall(b"GET /assets/app-0123abcd.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
        began = time.monotonic()
        assert status(raw(server, head(server, "/api/v1/health"))) == 200
        assert time.monotonic() - began < 5.0


def test_silent_connections_shut_nobody_out(server):
    """600 connections that say nothing, more than the server kept open for all, and one that asks."""
    with contextlib.ExitStack() as stack:
        for _ in range(600):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        for _ in range(3):
            assert status(raw(server, head(server, "/api/v1/health"))) == 200


def test_connections_that_ask_once_and_stay_shut_nobody_out(runs, page, monkeypatch):
    monkeypatch.setattr(loop, "affordable", lambda: 20)
    ask = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        Server(runs, port=0, cache=False, page=page, no_token=True) as server,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(40):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            connection.sendall(ask)
            assert status(connection.recv(65536)) == 200


def never_read(connection):
    """Ask for much and read nothing."""
    connection.settimeout(0.5)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            connection.sendall(b"GET /assets/app-0123abcd.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)


def test_a_client_that_never_reads_is_cut_off(runs, page, monkeypatch):
    monkeypatch.setattr(loop, "UNREAD_TIMEOUT_S", 0.2)
    with (
        Server(runs, port=0, cache=False, page=page, no_token=True) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow,
        pytest.raises(OSError),
    ):
        never_read(slow)
