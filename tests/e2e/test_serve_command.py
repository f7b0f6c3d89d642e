"""``stepscope serve`` as a user runs it: a process of its own."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from support.records import write_series

from stepscope.events import EventWriter


@pytest.fixture
def runs(tmp_path):
    write_series(tmp_path / "runs" / "a", {"loss": [1.0]})
    return tmp_path / "runs"


@pytest.fixture
def long_runs(runs):
    """A series of which all points are more than the buffers of a connection hold."""
    writer = EventWriter(runs / "a")
    for step in range(400_000):
        writer.scalar("long", 0.1, step, 1.0)
    writer.close()
    return runs


@contextlib.contextmanager
def command(*words, cwd=None):
    """Run the command, and end it whatever happens."""
    environment = {**os.environ, "STEPSCOPE_TOKEN": ""}
    secured = "--token" in words or "--host" in words
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "serve", *map(str, words), *([] if secured else ["--no-token"])],
        cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def listening(*words, **options):
    """Run it with --json on a free port; the line it prints is on ``answer``."""
    return command(*words, "--port", 0, "--json", "--no-cache", **options)


def finished(*words):
    with command(*words) as process:
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err


def interrupt(process, number=signal.SIGINT):
    """Send a signal and return how long the process took to end, and what it said."""
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    return time.monotonic() - began, out, err


def test_one_line_of_json_then_answers(runs):
    with listening(runs) as process:
        said = json.loads(process.stdout.readline())
        assert said["pid"] == process.pid
        assert httpx.get(said["url"] + "api/v1/health").status_code == 200
        assert said["url"] in process.stderr.readline()


@pytest.mark.timing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_and_soon_with_connections_open(long_runs, number):
    with listening(long_runs) as process:
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        deadline = time.monotonic() + 20
        while httpx.get(url.geturl() + "api/v1/changes").json()["loading"]:
            assert time.monotonic() < deadline
        idle = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
        idle.request("GET", "/api/v1/health")
        assert idle.getresponse().read()
        silent = socket.create_connection((url.hostname, url.port), timeout=20)
        unread = socket.create_connection((url.hostname, url.port), timeout=20)
        unread.sendall(b"GET /api/v1/points?run=a&tag=long HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert unread.recv(15) == b"HTTP/1.1 200 OK"  # megabytes of it are on their way, and nobody reads on
        took_s, out, err = interrupt(process, number)
        for connection in (idle, silent, unread):
            connection.close()
    assert took_s < 4.0
    assert process.returncode == 0
    assert (out, err.count("\n")) == ("", 2), err
    assert "Traceback" not in err


def test_a_port_in_use_is_the_users_to_solve(runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = finished(runs, "--port", port)
    assert (code, out) == (1, "")
    assert err.startswith(f"port {port} on 127.0.0.1 is in use by another program\nhint: --port ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such/place"], "no such directory, and none that it could be created in"),
        (["notes.txt"], "not a directory"),
        (["runs", "--host", "203.0.113.9"], "cannot listen on host '203.0.113.9'"),
        (["runs", "--port", "70000"], "port 70000: expected 0 to 65535"),
        (["runs", "--port", "0", "--path-prefix", "a b"], "not a path prefix: 'a b'"),
        (["runs", "--port", "0", "--token", "x"], "token of 1 character:"),
        (["runs", "--port", "0", "--allow-host", "http://x"], "not a host name: 'http://x'"),
    ],
)
def test_mistakes_are_told_in_words_with_the_next_action(runs, words, message, monkeypatch):
    monkeypatch.chdir(runs.parent)
    (runs.parent / "notes.txt").write_text("x")
    code, out, err = finished(*words)
    assert (code, out) == (1, "")
    assert err.startswith(message), err
    assert "\nhint: " in err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read(runs):
    runs.chmod(0o000)
    try:
        code, _, err = finished(runs)
    finally:
        runs.chmod(0o755)
    assert code == 1
    assert "no permission" in err


def test_a_directory_to_come_is_waited_for(tmp_path):
    with listening(tmp_path / "soon") as process:
        url = json.loads(process.stdout.readline())["url"]
        process.stderr.readline()
        assert "does not exist yet: waiting for it" in process.stderr.readline()
        with httpx.Client(base_url=url) as client:
            assert client.get("api/v1/changes").json()["log"]["exists"] is False
            write_series(tmp_path / "soon" / "a", {"loss": [1.0]})
            deadline = time.monotonic() + 20
            while not client.get("api/v1/changes").json()["runs"]:
                assert time.monotonic() < deadline


def test_beyond_loopback_a_token_is_made_up_and_printed(runs):
    with listening(runs, "--host", "0.0.0.0") as process:
        url = json.loads(process.stdout.readline())["url"]
        port, token = urlsplit(url).port, url.rpartition("?token=")[2]
        assert len(token) >= 32
        base = f"http://127.0.0.1:{port}/api/v1/health"
        assert httpx.get(base).status_code == 401
        assert httpx.get(base, headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_on_loopback_only_this_user_may_look_and_each_start_prints_an_address_of_its_own(runs, tmp_path):
    environment = {**os.environ, "STEPSCOPE_TOKEN": "", "XDG_STATE_HOME": str(tmp_path / "state")}
    words = [sys.executable, "-m", "stepscope", "serve", str(runs), "--port", "0", "--json", "--no-cache"]
    urls = []
    for _ in range(2):
        with subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                urls.append(urlsplit(json.loads(process.stdout.readline())["url"]))
                place, token = urls[-1], urls[-1].query.removeprefix("token=")
                api = f"http://{place.netloc}/api/v1/"
                assert httpx.get(api + "changes").status_code == 401
                assert httpx.post(api + "trash", json={}).status_code == 401
                assert httpx.get(f"http://{place.netloc}/").status_code == 401
                for secret in (token, token_file(tmp_path).read_text()):
                    authorized = {"Authorization": f"Bearer {secret}"}
                    assert httpx.get(api + "changes", headers=authorized).status_code == 200
                if os.geteuid() == 0:
                    assert b"Permission" in as_another_user(
                        f"print(open({str(token_file(tmp_path))!r}).read())"
                    )
            finally:
                process.terminate()
    assert len({urls[0].query, urls[1].query, f"token={token_file(tmp_path).read_text()}"}) == 3


def token_file(tmp_path):
    return tmp_path / "state" / "stepscope" / "token"


def as_another_user(program):
    """Run a program as the user nobody and return what it complained of."""
    return subprocess.run(
        [sys.executable, "-c", f"import os; os.setgid(65534); os.setuid(65534)\n{program}"],
        capture_output=True,
    ).stderr


@pytest.mark.parametrize("strips", [False, True], ids=["proxy keeps the prefix", "proxy strips it"])
def test_behind_a_proxy_under_a_prefix(runs, strips):
    with listening(runs, "--path-prefix", "/lab/stepscope/") as process:
        url = json.loads(process.stdout.readline())["url"]
        assert url.endswith("/lab/stepscope/")
        base = url.removesuffix("/lab/stepscope/")
        prefix = "" if strips else "/lab/stepscope"
        assert httpx.get(f"{base}{prefix}/api/v1/health").status_code == 200
        if not strips:
            answer = httpx.get(f"{base}/lab/stepscope")
            assert (answer.status_code, answer.headers["location"]) == (307, "stepscope/")
            assert str(answer.next_request.url) == url


def test_it_answers_before_tensorboard_would_have_been_imported(runs):
    """In processor time, of which other work of the machine takes none. Best of several, in turns."""
    ours, theirs = [], []
    while len(ours) < 5 and not (ours and min(ours) < min(theirs)):
        before = children_s()
        subprocess.run([sys.executable, "-c", "import tensorboard.main"], check=True, capture_output=True)
        theirs.append(children_s() - before)
        with listening(runs) as process:
            url = urlsplit(json.loads(process.stdout.readline())["url"])
            client = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
            client.request("GET", "/api/v1/changes")
            assert client.getresponse().status == 200
            ours.append(sum(psutil.Process(process.pid).cpu_times()[:2]))
            client.close()
    assert min(ours) < min(theirs)


def children_s() -> float:
    """Seconds of processor time of the processes that this one has waited for."""
    used = os.times()
    return used.children_user + used.children_system
