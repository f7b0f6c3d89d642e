"""Clients that ask for much and do not read: the memory they take, and who is answered meanwhile."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.waiting import until

import stepscope as ss
from stepscope.events.framing import frame
from stepscope.events.telemetry import FACTS, HAS_LOSS, HEAD, ROW, ROWS, as_event
from stepscope.serve import Server, loop
from stepscope.serve.login import view_token

RANKS, STEPS = 500, 2_000
CONNECTIONS = 100
SECRET = "a-secret-of-the-owner"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A job whose step times, rank by step, are one answer of 16 MB."""
    run = tmp_path_factory.mktemp("large") / "runs" / "a"
    with ss.Run(run) as recorded:
        recorded.scalar("loss", 1.0, 0)
    (run / "ranks").mkdir(exist_ok=True)
    rows = b"".join(ROW.pack(at, HAS_LOSS, at, 0.1, 0.01, 1.0) for at in range(STEPS))
    content = frame(as_event(FACTS, b"{}"))
    content += frame(as_event(ROWS, HEAD.pack(0, 1e6, 1e6) + rows, 0, 5.0))
    for rank in range(RANKS):
        name = f"rank-{rank:05d}-of-{RANKS:05d}.attempt-1.restart-0.host.{rank}.0.steps"
        (run / "ranks" / name).write_bytes(content)
    return run.parent


def ask(port, path, token):
    """A connection that has asked and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def megabytes(pid, name):
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name)]
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc"
)
def test_a_guest_that_does_not_read_leaves_memory_and_answers_to_the_owner(runs):
    words = [sys.executable, "-m", "stepscope", "serve", runs, "--port", "0", "--json", "--no-cache"]
    with (
        subprocess.Popen(
            [*words, "--token", SECRET], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(server.kill)
        port = urlsplit(json.loads(server.stdout.readline())["url"]).port
        path = f"/api/v1/ranks/steps?run=a&fact=step_time_s&columns={STEPS}"
        headers = {"Authorization": f"Bearer {SECRET}"}
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)
        owner = stack.enter_context(client)
        until(lambda: not owner.get("/api/v1/changes").json()["loading"])
        size = len(owner.get(path).content)
        assert size > 10e6
        before = megabytes(server.pid, "VmHWM")
        guest = view_token(SECRET, Path(runs), int(time.time()) + 600)
        waiting = [stack.enter_context(ask(port, path, guest)) for _ in range(CONNECTIONS)]
        begins = [connection.recv(12) for connection in waiting]
        assert {b"HTTP/1.1 200"} <= set(begins) <= {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert owner.get(path).status_code == 200
        assert owner.get("/api/v1/health").status_code == 200
        grown = megabytes(server.pid, "VmHWM") - before
        print(
            f"{begins.count(b'HTTP/1.1 200')} of {CONNECTIONS} answers of {size / 1e6:.0f} MB: {grown:.0f} MB"
        )
        assert grown < 700, "a hundred such answers are 1,600 MB"
        assert b"HTTP/1.1 503" in begins


def test_a_client_that_reads_a_little_now_and_then_is_cut_off_too(runs, monkeypatch):
    """It resets no clock: it has to take a whole part of its answer in that time."""
    monkeypatch.setattr(loop, "UNREAD_TIMEOUT_S", 0.5)
    with Server(runs, port=0, cache=False, token=SECRET) as server:
        base = f"http://127.0.0.1:{server.port}/api/v1/"
        headers = {"Authorization": f"Bearer {SECRET}"}
        until(lambda: not httpx.get(base + "changes", headers=headers).json()["loading"])
        with ask(server.port, f"/api/v1/ranks/steps?run=a&fact=loss&columns={STEPS}", SECRET) as slow:
            assert slow.recv(12) == b"HTTP/1.1 200"
            connections = server._loop.uvicorn.server_state.connections
            assert connections

            def is_cut_off():
                slow.recv(16)  # the kernel still has some of the answer
                return not connections

            until(is_cut_off)
