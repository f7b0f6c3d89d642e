import os
import subprocess
import sys
import types
from urllib.parse import urlsplit

import httpx
import pytest
from IPython.core.interactiveshell import InteractiveShell

import stepscope as ss
from stepscope import notebook
from stepscope.errors import ServeError, UsageError


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    with ss.Run(tmp_path / "runs" / "first") as run:
        run.scalar("loss", 1.0, 0)
    yield tmp_path / "runs"
    for started in notebook._started.values():
        notebook.stop(started.process, os.getpid())
        started.process.communicate()
    notebook._started.clear()


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # which IPython warns of where it lies in another one
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "stepscope")
    return shell


@pytest.mark.slow
def test_the_magic_shows_the_page(logs, shell):
    shown = shell.run_line_magic("stepscope", f"'{logs}' --height 500")
    html = shown._repr_html_()
    assert html.startswith(f'<iframe src="{shown.url}"')
    assert 'height="500"' in html
    assert "<title>" in httpx.get(shown.url).text
    assert httpx.get(f"http://localhost:{urlsplit(shown.url).port}/").status_code == 401


def test_the_same_directory_has_one_server(logs):
    assert ss.show(logs).url == ss.show(str(logs), height=300).url
    assert len(notebook._started) == 1


@pytest.mark.slow
def test_a_server_that_ended_is_started_again(logs):
    first = ss.show(logs)
    started = next(iter(notebook._started.values()))
    started.process.kill()
    started.process.communicate()
    second = ss.show(logs)
    assert httpx.get(second.url).status_code == 200
    assert first.url != second.url or started is not next(iter(notebook._started.values()))


def test_only_pages_of_this_machine_may_embed_it(logs):
    headers = httpx.get(ss.show(logs).url).headers
    policy = headers["content-security-policy"]
    assert "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*" in policy
    assert "x-frame-options" not in headers


@pytest.mark.slow
def test_behind_a_hub_the_frame_goes_through_its_proxy_and_brings_a_token(logs, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    shown = ss.show(logs)
    started = next(iter(notebook._started.values()))
    assert shown.url == f"/user/ada/proxy/{started.port}/?token={started.token}"
    here = f"http://127.0.0.1:{started.port}/"
    hub = {"Host": "hub.example.org"}
    assert httpx.get(here, headers=hub).status_code == 401
    answer = httpx.get(f"{here}api/v1/changes", headers={**hub, "Authorization": f"Bearer {started.token}"})
    assert answer.status_code == 200


def test_a_prefix_can_be_said(logs, shell):
    assert shell.run_line_magic("stepscope", f"{logs} --prefix=/").url.startswith("/proxy/")


def test_colab_has_a_proxy_of_its_own(logs, monkeypatch):
    asked = []
    output = types.SimpleNamespace(eval_js=lambda code: asked.append(code) or "https://colab.example/x")
    for name, module in (("google.colab", types.SimpleNamespace()), ("google.colab.output", output)):
        monkeypatch.setitem(sys.modules, name, module)
    url = ss.show(logs).url
    [started] = notebook._started.values()
    assert url == f"https://colab.example/x{started.place}"
    port = started.port
    assert asked == [f"google.colab.kernel.proxyPort({port}, {{cache: true}})"]


@pytest.mark.parametrize(
    "line", ["a b", "--wide", "--height", "--height tall", "--port 70000", "--height 0", "--port -1"]
)
def test_what_is_not_understood_is_said(line):
    with pytest.raises(UsageError):
        notebook.magic(line)


def test_what_the_server_says_when_it_cannot_start(logs):
    with pytest.raises(ServeError, match="not a directory"):
        ss.show(next((logs / "first").glob("*tfevents*")))


def test_the_server_ends_with_the_kernel(logs):
    code = "import stepscope as ss, sys; print(ss.show(sys.argv[1]).url)"
    url = subprocess.run(
        [sys.executable, "-c", code, str(logs)], capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_name_in_the_address_cannot_leave_the_frame():
    assert "<script>" not in notebook.NotebookPage('"><script>', 1)._repr_html_()


@pytest.mark.parametrize("line", ["--help", "-h", "runs --help"])
def test_the_magic_says_how_it_is_used(line, capsys):
    assert notebook.magic(line) is None
    assert capsys.readouterr().out.startswith("%stepscope LOGDIR [--height PIXELS]")
