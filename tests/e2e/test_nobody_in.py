"""Nobody in: other users of the machine, browsers, and ports that were taken over.

The users are real ones, played by root; the browser is a real one; programs are really killed.
"""

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.ports import free_port
from support.servers import Handler, serving
from support.waiting import until

import stepscope as ss
from stepscope.cli import main
from stepscope.serve import Server
from stepscope.serve.user_token import user_token

STRANGER = 65_534
another_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root may play another user, with setpriv",
)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("STEPSCOPE_TOKEN", "JUPYTERHUB_SERVICE_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    with ss.Run(tmp_path / "runs" / "a") as run:
        run.scalar("loss", 1.0, 0)
    return tmp_path / "runs"


# --- every way to start a server ------------------------------------------------------------------------


@contextlib.contextmanager
def program(code, *words):
    """A Python program that prints one line; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


SHOW = "import stepscope as ss, sys; print(ss.show(sys.argv[1]).url, flush=True); sys.stdin.readline()"
SERVER = """
import sys
from stepscope.serve import Server
with Server(sys.argv[1], port=0, cache=False) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""
MAGIC = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("load_ext", "stepscope")
print(shell.run_line_magic("stepscope", sys.argv[1]).url, flush=True)
sys.stdin.readline()
"""
FOREGROUND = """
import sys
from stepscope.serve import server
def said(line, **options): sys.stdout.write(line.rpartition(" ")[2] + "\\n"); sys.stdout.flush()
server.print = said
server.run(sys.argv[1], port=0)
"""
COMMAND = """
import json, subprocess, sys
words = [sys.executable, "-m", "stepscope", "serve", sys.argv[1], "--port", "0", "--json", "--attached"]
process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(json.loads(process.stdout.readline())["url"], flush=True)
sys.stdin.readline()
"""
DEMO = """
import sys
from pathlib import Path
from stepscope.cli.demo import start_server
print(start_server(Path(sys.argv[1]), 0).url, flush=True)
sys.stdin.readline()
"""
STARTS = {
    "ss.show": SHOW,
    "the magic": MAGIC,
    "Server": SERVER,
    "serve.run": FOREGROUND,
    "stepscope serve": COMMAND,
    "stepscope demo": DEMO,
}

ATTACK = """
import json, sys, urllib.error, urllib.request
port, run = sys.argv[1:]
def ask(path, body=None):
    headers = {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data=data, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([ask(""), ask("api/v1/changes"), ask("api/v1/trash"),
    ask("api/v1/run/delete", {"run": run, "confirm": run}), ask("api/v1/share", {"seconds": 60})]))
"""


def as_stranger(code, *words):
    """Return what a program of another user prints."""
    command = ["setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups"]
    found = next(filter(None, (shutil.which(name, path="/usr/bin:/bin") for name in ("python3",))), None)
    if found is None:
        pytest.skip("no Python that another user may run")
    done = subprocess.run(
        [*command, found, "-c", code, *map(str, words)], capture_output=True, text=True, timeout=60, cwd="/",
        env={"PATH": "/usr/bin:/bin"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@another_user
@pytest.mark.parametrize("way", STARTS)
def test_another_user_sees_and_deletes_nothing(runs, way):
    with program(STARTS[way], runs) as (_, url):
        port = urlsplit(url).port
        until(lambda: answered(url))
        assert json.loads(as_stranger(ATTACK, port, "a")) == [401] * 5
        assert (runs / "a").is_dir()
        with httpx.Client(follow_redirects=True) as owner:
            assert owner.get(url).status_code in (200, 503), (
                "the owner is let in"
            )  # 503: the page is not built


def answered(url):
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url).status_code is not None
    return False


@another_user
def test_another_user_cannot_read_the_token(runs):
    user_token()
    path = Path(os.environ["XDG_STATE_HOME"]) / "stepscope" / "token"
    code = "import sys\ntry: print(open(sys.argv[1]).read())\nexcept OSError as e: print(type(e).__name__)"
    assert as_stranger(code, path).strip() == "PermissionError"


# --- a server ends with its program -------------------------------------------------------------------------

ENDS = {
    "os._exit": "import os; os._exit(0)",
    "exec": "import os; os.execv('/bin/sleep', ['sleep', '60'])",
    "exec beside a fork": (
        "import os\nif os.fork(): os.execv('/bin/sleep', ['sleep', '60'])\nimport time; time.sleep(60)"
    ),
    "killed beside a fork": (
        "import os, signal\nif os.fork(): os.kill(os.getpid(), signal.SIGKILL)\nimport time; time.sleep(60)"
    ),
    "an exception": "raise SystemExit(3)",
    "SIGKILL": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", ["ss.show", "Server"])
def test_a_server_ends_with_its_program(runs, end, way):
    code = STARTS[way].replace("sys.stdin.readline()", "sys.stdin.readline(); exec(sys.argv[2])")
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(runs), ENDS[end]], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        port = urlsplit(process.stdout.readline().strip()).port
        assert listens(port)
        process.stdin.write("\n")
        process.stdin.flush()
        until(lambda: not listens(port))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # another test of this process has loaded JAX
def test_a_fork_does_not_keep_the_port(runs):
    with Server(runs, port=0, cache=False) as server:
        ready, go_on = multiprocessing.Pipe()
        child = os.fork()
        if child == 0:
            ready.close()
            with contextlib.suppress(EOFError):
                go_on.recv()
            os._exit(0)
        go_on.close()
        port = server.port
    try:
        until(lambda: not listens(port))
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))
    finally:
        ready.close()
        os.waitpid(child, 0)


def test_an_attached_server_ends_when_its_input_ends(runs):
    words = [sys.executable, "-m", "stepscope", "serve", str(runs), "--port", "0", "--json", "--attached"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(timeout=30) == 0


# --- a port that was taken over ---------------------------------------------------------------------------


class Stranger(Handler):
    """Answers anything, keeps what it receives, and leads browsers wherever it was told."""

    def do_GET(self):
        self.server.received.append(f"{self.requestline}\n{self.headers}\n{self.body().decode('latin-1')}")
        if self.headers.get("Authorization") is None and self.path.endswith("share"):
            self.answer(401, WWW_Authenticate=self.server.challenge)
        elif self.path in self.server.redirects:
            self.answer(302, Location=self.server.redirects[self.path])
        else:
            self.answer(200)

    do_POST = do_GET


@contextlib.contextmanager
def stranger(port):
    with serving(Stranger, port) as server:
        server.received, server.redirects, server.challenge = [], {}, "Bearer"
        yield server


def try_all(received, server):
    """Try everything that looks like a secret, in every way, and return what let somebody in."""
    base = f"http://127.0.0.1:{server.port}/"
    text = "\n".join(received)
    words = set(re.findall(r"[\w.~-]{16,}", text)) - {"application"}
    places = {word for word in words if word.startswith("~")} | {""}
    cookies = dict(re.findall(r"([\w-]+)=([\w.-]{16,})", text))
    opened = []
    for word in words:
        for headers in (
            {"Authorization": f"Bearer {word}"},
            {"Authorization": f"Stepscope {word}", "Content-Type": "application/json"},
            {"Cookie": f"stepscope_{server.port}={word}"},
        ):
            for place in places:
                at = f"{base}{place}{'/' if place else ''}api/v1/"
                answers = (
                    httpx.get(at + "changes", headers=headers),
                    httpx.post(at + "share", json={"seconds": 9}, headers=headers),
                    httpx.get(f"{base}?token={word}"),
                )
                opened += [(word, each.request.url) for each in answers if each.status_code != 401]
    for place in places:
        jar = "; ".join(f"{name}={value}" for name, value in cookies.items())
        answer = httpx.get(f"{base}{place}{'/' if place else ''}api/v1/changes", headers={"Cookie": jar})
        opened += [(jar, answer.request.url)] if answer.status_code != 401 else []
    return opened


@pytest.mark.parametrize("beside", [False, True], ids=["the next server", "a server that runs beside"])
def test_a_browser_gives_a_port_that_was_taken_over_nothing(runs, chromium, beside):
    """The stranger waits on the port of a server that ended, and the browser has been in both servers."""
    context = chromium.new_context()
    page, port = context.new_page(), free_port()
    first = Server(runs, port=port, cache=False).start()
    second = Server(runs, port=0, cache=False) if beside else None
    try:
        printed = first.url
        page.goto(printed)
        page.wait_for_function("() => window.__stepscope_test?.complete()")
        left_at = page.url
        assert "token" not in left_at
        assert user_token() not in printed
        if second is not None:
            second.start()
            other = context.new_page()
            other.goto(second.url)
            other.wait_for_function("() => window.__stepscope_test?.complete()")
        assert [cookie["httpOnly"] for cookie in context.cookies([left_at])] == [True]
        assert user_token() not in json.dumps(context.cookies())
        first.stop()
        with stranger(port) as taken:
            until(lambda: taken.received)  # the open page goes on asking
            for address in (left_at, printed, f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/x/y"):
                page.goto(address)
            page.goto("about:blank")
        assert "stepscope_" in "\n".join(taken.received), "the cookie of the first server was received"
        next_ = second or Server(runs, port=port, cache=False).start()
        try:
            assert try_all(taken.received, next_) == []
            if second is None:  # the browser itself is asked in as well, and lands where it was
                page.goto(next_.url)
                page.wait_for_function("() => window.__stepscope_test?.complete()")
                page.goto(f"http://127.0.0.1:{port}/#/scalars")
                page.wait_for_function("() => window.__stepscope_test?.complete()")
                assert page.url.endswith("/#/scalars")
        finally:
            next_.stop()
    finally:
        first.stop()
        if second is not None:
            second.stop()
        context.close()


def test_the_check_of_what_was_received_can_fail(runs):
    with Server(runs, port=0, cache=False) as server:
        assert try_all([f"GET /?token={server.url.partition('token=')[2]} HTTP/1.1"], server)
        with httpx.Client(follow_redirects=True) as client:
            place = str(client.get(server.url).url).rstrip("/").rpartition("/")[2]
            [cookie] = client.cookies.jar
        assert try_all([f"GET /{place}/\nCookie: {cookie.name}={cookie.value}"], server)


def test_the_command_gives_a_port_that_was_taken_over_nothing(runs, capsys):
    with Server(runs, port=0, cache=False) as server, stranger(free_port()) as taken:
        # The stranger passes the question of a server that runs on to whoever asks it.
        asked = httpx.post(f"http://127.0.0.1:{server.port}/api/v1/share", json={"seconds": 9})
        taken.challenge = asked.headers["www-authenticate"]
        assert main(["share", f"http://127.0.0.1:{taken.server_port}/"]) == 1
        assert "not a Stepscope server" in capsys.readouterr().err
        assert [line for line in taken.received if "Stepscope " in line], "a proof was received"
        assert user_token() not in "\n".join(taken.received)
        assert try_all(taken.received, server) == []
        proof = re.search(r"Stepscope ([0-9a-f]{64})", "\n".join(taken.received))[1]
        for host in (f"127.0.0.1:{taken.server_port}", f"127.0.0.1:{server.port}"):
            answer = httpx.post(
                f"http://127.0.0.1:{server.port}/api/v1/share", json={"seconds": 9},
                headers={"Host": host, "Authorization": f"Stepscope {proof}"},
            )  # fmt: skip
            assert answer.status_code == 401


# --- the token is replaced ----------------------------------------------------------------------------------


def test_a_new_token_ends_links_addresses_and_cookies(runs, capsys):
    with Server(runs, port=0, cache=False) as server, httpx.Client(follow_redirects=True) as browser:
        base = f"http://127.0.0.1:{server.port}/"
        place = str(browser.get(server.url).url)
        assert main(["share", server.url, "--json"]) == 0
        link = json.loads(capsys.readouterr().out)["url"]
        assert main(["token"]) == 0
        old = capsys.readouterr().out.strip()
        for address in (server.url, link, f"{base}?token={old}"):
            assert httpx.get(address).status_code == 303
        assert browser.get(place + "api/v1/changes").status_code == 200
        printed = server.url

        assert main(["token", "--new", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        until(lambda: httpx.get(f"{base}?token={facts['token']}").status_code == 303)
        assert facts["token"] != old
        assert Path(facts["path"]).read_text() == facts["token"]
        for address in (printed, link, f"{base}?token={old}"):
            assert httpx.get(address).status_code == 401
        assert browser.get(place + "api/v1/changes").status_code == 401
        assert httpx.get(server.url).status_code == 303, "the address of now"


def test_a_token_that_was_removed_opens_nothing_any_more(runs):
    with Server(runs, port=0, cache=False) as server:
        old = f"http://127.0.0.1:{server.port}/?token={user_token()}"
        assert httpx.get(old).status_code == 303
        (Path(os.environ["XDG_STATE_HOME"]) / "stepscope" / "token").unlink()
        until(lambda: httpx.get(old).status_code == 401)
