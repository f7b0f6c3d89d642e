"""The page in a frame: of a notebook on this machine, and behind a proxy as JupyterHub's."""

import contextlib
import os

import httpx
import pytest
from support.servers import Handler, serving

import stepscope as ss
from stepscope import notebook

PATIENCE_MS = 20_000


class Host(Handler):
    """A notebook server that shows one cell and passes on what is below its prefix."""

    def do_GET(self):
        if self.path.startswith("/user/ada/proxy/"):
            self.pass_on()
            return
        body = f"<!doctype html><title>Notebook</title>{self.server.cell}".encode()
        self.answer(200, body, Content_Type="text/html")

    do_POST = do_GET

    def pass_on(self):
        port, _, path = self.path.removeprefix("/user/ada/proxy/").partition("/")
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        headers |= {"Host": "hub.example.org"}
        target = f"http://127.0.0.1:{port}/{path}"
        with httpx.Client() as client:
            answer = client.request(self.command, target, headers=headers, content=self.body())
        self.send_response(answer.status_code)
        for name, value in answer.headers.multi_items():
            if name.lower() not in ("content-encoding", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)


@contextlib.contextmanager
def host(cell, address="127.0.0.1"):
    with serving(Host, host=address) as server:
        server.cell = cell
        yield f"http://{address}:{server.server_port}/"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    with ss.Run(tmp_path / "runs" / "first") as run:
        for step in range(50):
            run.scalar("loss", 1 / (step + 1), step)
    yield tmp_path / "runs"
    for started in notebook._started.values():
        notebook.stop(started.process, os.getpid())
        started.process.communicate()
    notebook._started.clear()


def frame_of(chromium, address):
    page = chromium.new_page()
    page.goto(address)
    return page, page.frame_locator("iframe")


def test_a_notebook_on_this_machine(chromium, logs):
    with host(ss.show(logs)._repr_html_()) as address:
        page, frame = frame_of(chromium, address)
        frame.get_by_text("first").first.wait_for(timeout=PATIENCE_MS)
        page.close()


def test_a_page_of_another_machine_may_not_embed_it(chromium, logs):
    with host(ss.show(logs)._repr_html_(), address="127.0.0.2") as address:
        refused = []
        page = chromium.new_page()
        page.on("console", lambda message: refused.append(message.text))
        page.goto(address)
        page.wait_for_timeout(1500)
        assert page.frame_locator("iframe").get_by_text("first").count() == 0
        assert any("frame-ancestors" in text for text in refused), refused
        page.close()


def test_behind_the_proxy_of_a_hub(chromium, logs):
    with host(ss.show(logs, prefix="/user/ada/")._repr_html_()) as address:
        page, frame = frame_of(chromium, address)
        frame.get_by_text("first").first.wait_for(timeout=PATIENCE_MS)
        inner = page.frames[1]
        inner.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
        assert "token" not in inner.url
        page.close()
