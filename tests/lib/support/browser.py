"""The browser that tests start: which one, and how."""

import shutil

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without windows, which take the others most of a second for each page."""


def executable() -> str:
    """Return the path of a Chromium; the test is skipped if there is none."""
    path = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if path is None:
        pytest.skip("no Chromium found: scripts/browser.sh installs one")
    return path
