"""A browser, and the servers of Jupyter and marimo as processes, each with directories of its own."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.notebooks import served
from support.ports import free_port

PATIENCE_MS = 60_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=browser.executable(), args=browser.FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    found = chromium.new_page(viewport={"width": 1200, "height": 1000})
    found.set_default_timeout(PATIENCE_MS)
    yield found
    found.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for the files of a test, with the user's directories below it."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "user" / f"jupyter_{name.lower()}"))
    for name in ("user", "work"):
        (tmp_path / name).mkdir()
    return tmp_path / "work"


@pytest.fixture
def lab(home: Path, page: Any) -> Iterator[Callable[[str], Any]]:
    """Opens a notebook of the directory in JupyterLab."""
    port = free_port()
    options = (
        "--no-browser", f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=t",
        "--LabApp.extension_manager=readonly", "--LabApp.news_url=None", f"--ServerApp.root_dir={home}",
        *(["--allow-root"] if os.name == "posix" and os.getuid() == 0 else []),
    )  # fmt: skip
    with served("jupyterlab", *options, port=port, home=home) as address:

        def show(name: str) -> Any:
            page.goto(f"{address}/lab/tree/{name}?token=t")
            page.get_by_text("(ipykernel) | Idle").wait_for()
            return page

        yield show
